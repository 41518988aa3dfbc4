import { randomBytes } from 'node:crypto';
import { type CheckpointIds, createCheckpointIds } from '../core/id.ts';

/** What the manager takes from the outside world; injected in tests, so that time and ids can be told. */
export type ManagerPorts = {
  readonly now: () => number;
  readonly nextId: CheckpointIds;
};

type GivenPorts = {
  readonly now?: (() => number) | undefined;
  readonly random?: ((sizeBytes: number) => Uint8Array) | undefined;
};

/** The real clock and randomness, where the caller gave none. */
export function createPorts({ now = Date.now, random = randomBytes }: GivenPorts = {}): ManagerPorts {
  return { now, nextId: createCheckpointIds({ now, randomBytes: random }) };
}
