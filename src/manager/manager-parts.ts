import type { Checkpoint } from '../core/checkpoint.ts';
import { InvalidInputError } from '../core/errors.ts';
import type { ManagerContext } from './context.ts';

/** What an adapter inside this package needs of a manager to save in its name. */
export type ManagerParts = {
  readonly context: ManagerContext;
  /** Tells the handlers of a save and applies retention. */
  readonly afterSave: (checkpoint: Checkpoint) => Promise<void>;
};

const known = new WeakMap<object, ManagerParts>();

/** Lets adapters find the parts of a manager without making them public. */
export function registerParts(manager: object, parts: ManagerParts): void {
  known.set(manager, parts);
}

/** The parts of a manager; throws an InvalidInputError for anything else. */
export function partsOf(manager: object): ManagerParts {
  const parts = known.get(manager);
  if (parts === undefined) throw new InvalidInputError('This is not a CheckpointManager of this copy of savestate.');
  return parts;
}
