/** A time limit for one piece of work, and what is thrown when it is over. */
export type Deadline = {
  readonly signal: AbortSignal | undefined;
  readonly timeoutMs: number;
  readonly onTimeout: () => Error;
};

/** Node's timers fire at once if they are set to more. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Runs a function that may take so long, and hands it a signal that ends with the caller's or with the time. Ends in time even if the
 * function does not heed the signal.
 */
export async function withDeadline<Result>(
  { signal, timeoutMs, onTimeout }: Deadline,
  run: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  signal?.throwIfAborted();
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(onTimeout()), Math.min(timeoutMs, MAX_TIMER_MS));
  const passOn = () => controller.abort(signal?.reason);
  signal?.addEventListener('abort', passOn, { once: true });
  try {
    return await Promise.race([run(controller.signal), rejectOnAbort(controller.signal)]);
  } catch (error) {
    throw controller.signal.aborted ? controller.signal.reason : error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', passOn);
  }
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason); // by what was just begun
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
