import { setTimeout as sleep } from 'node:timers/promises';
import { backoff, spread } from '../../core/time/backoff.ts';
import { isOutcomeUnknown, isTransient } from './postgres-error.ts';

const FIRST_DELAY_MS = 20;
const MAX_DELAY_MS = 1_000;

/** Whether an attempt of a call may have been done although no answer came. It lasts as long as the call, over all attempts. */
export type Doubt = {
  exists: boolean;
  /** What may have been done must not be done twice: the call ends. */
  readonly isFinal?: boolean;
};

/** Waits for the answer to something that lasts once it is done. */
export async function answerOf<Answer>(sent: Promise<Answer>, doubt: Doubt): Promise<Answer> {
  try {
    return await sent;
  } catch (error) {
    doubt.exists ||= isOutcomeUnknown(error);
    throw error;
  }
}

/**
 * Repeats a call while its failures are of the kind that pass, with growing pauses, for a limited time after the first of them: one
 * that worked for longer than that has as long as any other.
 */
export async function withRetries<Result>(
  attempt: () => Promise<Result>,
  { forMs, doubt }: { readonly forMs: number; readonly doubt: Doubt },
): Promise<Result> {
  let deadline: number | undefined;
  for (let number = 1; ; number++) {
    try {
      return await attempt();
    } catch (error) {
      const delayMs = pauseAfter(number);
      deadline ??= performance.now() + forMs;
      const isOver = (doubt.exists && doubt.isFinal === true) || performance.now() + delayMs > deadline;
      if (!isTransient(error) || isOver) throw error;
      await sleep(delayMs);
    }
  }
}

/** Twice as long each time, and never quite the same, so that many processes do not come back at once. */
export function pauseAfter(number: number): number {
  return spread(backoff(number, { firstMs: FIRST_DELAY_MS, maxMs: MAX_DELAY_MS }), Math.random());
}
