/** Calls a function later; returns a function that cancels it. A timer that does not keep the process alive is no reason to stay. */
export type SetTimer = (
  run: () => void,
  timer: { readonly delayMs: number; readonly keepsProcessAlive: boolean },
) => () => void;

/** The longest delay a timer takes; Node lets a longer one fire at once. */
export const MAX_DELAY_MS = 2 ** 31 - 1;

/** Sets a timer of this process. */
export const setProcessTimer: SetTimer = (run, { delayMs, keepsProcessAlive }) => {
  const timer = setTimeout(run, delayMs);
  if (!keepsProcessAlive) timer.unref();
  return () => clearTimeout(timer);
};

/** Resolves after a while; rejects with the signal's reason as soon as that aborts. */
export function sleep(
  { setTimer }: { readonly setTimer: SetTimer },
  delayMs: number,
  signal?: AbortSignal,
): Promise<void> {
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
