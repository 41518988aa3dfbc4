import { randomBytes } from 'node:crypto';
import { type CheckpointIds, createCheckpointIds } from '../../core/record/id.ts';
import { type SetTimer, setProcessTimer } from '../../core/time/timer.ts';

/** What the manager takes from the outside world; injected in tests, so that time and ids can be told. */
export type ManagerPorts = {
  readonly now: () => number;
  readonly nextId: CheckpointIds;
  readonly setTimer: SetTimer;
};

type GivenPorts = {
  readonly now?: (() => number) | undefined;
  readonly random?: ((sizeBytes: number) => Uint8Array) | undefined;
  readonly setTimer?: SetTimer | undefined;
};

/** The real clock, randomness and timers, where the caller gave none. */
export function createPorts({
  now = Date.now,
  random = randomBytes,
  setTimer = setProcessTimer,
}: GivenPorts = {}): ManagerPorts {
  return { now, nextId: createCheckpointIds({ now, randomBytes: random }), setTimer };
}
