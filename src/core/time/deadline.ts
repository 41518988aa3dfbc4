import { MAX_DELAY_MS, type SetTimer, setProcessTimer } from './timer.ts';

/** A time limit for one piece of work, and what is thrown when it is over. */
type Deadline = {
  readonly signal?: AbortSignal | undefined;
  /** Undefined for no limit. */
  readonly timeoutMs: number | undefined;
  readonly onTimeout: () => Error;
  readonly setTimer?: SetTimer;
  /** Default true. */
  readonly keepsProcessAlive?: boolean;
};

/**
 * Runs a function that may take so long, and passes it a signal that aborts with the caller's or with the time. Ends in time even if
 * the function does not listen to the signal.
 */
export async function withDeadline<Result>(
  deadline: Deadline,
  run: (signal: AbortSignal) => Result | Promise<Result>,
): Promise<Result> {
  const { signal } = deadline;
  signal?.throwIfAborted();
  const over = new AbortController();
  const pass = (): void => over.abort(signal?.reason);
  signal?.addEventListener('abort', pass, { once: true });
  const cancel = startTimer(over, deadline);
  const aborted = new Promise<never>((_, reject) => {
    over.signal.addEventListener('abort', () => reject(over.signal.reason), { once: true });
  });
  try {
    // Begun a moment later, so that a function that aborts or throws at once finds somebody listening.
    return await Promise.race([aborted, Promise.resolve().then(() => run(over.signal))]);
  } catch (error) {
    throw over.signal.aborted ? over.signal.reason : error;
  } finally {
    cancel();
    signal?.removeEventListener('abort', pass);
  }
}

function startTimer(over: AbortController, deadline: Deadline): () => void {
  const { timeoutMs, onTimeout, setTimer = setProcessTimer, keepsProcessAlive = true } = deadline;
  if (timeoutMs === undefined) return () => undefined;
  return setTimer(() => over.abort(onTimeout()), { delayMs: Math.min(timeoutMs, MAX_DELAY_MS), keepsProcessAlive });
}
