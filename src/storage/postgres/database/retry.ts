import { setTimeout as sleep } from 'node:timers/promises';
import { isTransient } from './postgres-error.ts';

const FIRST_DELAY_MS = 20;
const MAX_DELAY_MS = 1_000;

/** Repeats a call while its failures are of the kind that pass, with growing pauses, for a limited time. */
export async function withRetries<Result>(
  attempt: (number: number) => Promise<Result>,
  { forMs, signal }: { readonly forMs: number; readonly signal?: AbortSignal | undefined },
): Promise<Result> {
  const deadline = performance.now() + forMs;
  for (let number = 1; ; number++) {
    try {
      return await attempt(number);
    } catch (error) {
      const delayMs = pauseAfter(number);
      if (!isTransient(error) || signal?.aborted === true || performance.now() + delayMs > deadline) throw error;
      await sleep(delayMs, undefined, { ref: true });
    }
  }
}

/** Twice as long each time, and never quite the same, so that many processes do not come back at once. */
export function pauseAfter(number: number): number {
  const limit = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (number - 1));
  return limit * (0.5 + Math.random() / 2);
}
