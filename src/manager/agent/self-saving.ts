import { InvalidInputError } from '../../core/errors.ts';
import type { SaveOptions } from '../engine/save-options.ts';
import type { Session } from '../session/session.ts';

/** The method of an object that is saved in a session of its own, such as an agent loop: returns what to save, at once. */
export const SAVES_ITSELF: unique symbol = Symbol.for('savestate.savesItself');

/** Where an object is saved, its state as of now, and what its checkpoint says. */
export type OwnSave = { readonly session: Session; readonly state: unknown; readonly options: SaveOptions };

/** An object that is saved in a session of its own. */
export interface SelfSaving {
  [SAVES_ITSELF](): OwnSave;
}

/** Whether an object is saved in a session of its own. */
export function isSelfSaving(value: unknown): value is SelfSaving {
  return typeof value === 'object' && value !== null && SAVES_ITSELF in value;
}

/** What to save of an object that is saved in a session of its own; refuses another session. */
export function readOwnSave(
  agent: SelfSaving,
  { sessionId, ...said }: SaveOptions & { sessionId?: string | undefined },
): OwnSave {
  const { session, state, options } = agent[SAVES_ITSELF]();
  if (sessionId !== undefined && sessionId !== session.id)
    throw new InvalidInputError(
      `The agent is saved in session "${session.id}", so it cannot be saved in "${sessionId}". Leave sessionId out.`,
    );
  return { session, state, options: { ...options, ...said, metadata: { ...options.metadata, ...said.metadata } } };
}
