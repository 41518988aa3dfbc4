import { randomBytes } from 'node:crypto';
import { type CheckpointIds, createCheckpointIds } from '../../core/record/id.ts';

/** Calls a function later; answers how to call it off. A timer that does not keep the process alive is no reason to stay. */
export type SetTimer = (
  run: () => void,
  timer: { readonly delayMs: number; readonly keepsProcessAlive: boolean },
) => () => void;

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

const setProcessTimer: SetTimer = (run, { delayMs, keepsProcessAlive }) => {
  const timer = setTimeout(run, delayMs);
  if (!keepsProcessAlive) timer.unref();
  return () => clearTimeout(timer);
};

/** Resolves after a while; rejects with the signal's reason as soon as that aborts. */
export function sleep({ setTimer }: ManagerPorts, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = (): void => {
      cancel();
      reject(signal?.reason);
    };
    const wake = (): void => {
      signal?.removeEventListener('abort', stop);
      resolve();
    };
    const cancel = setTimer(wake, { delayMs, keepsProcessAlive: true });
    signal?.addEventListener('abort', stop, { once: true });
  });
}
