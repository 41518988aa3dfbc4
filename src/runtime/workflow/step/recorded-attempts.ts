import type { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { readRecorded } from '../../../manager/effect/recordings.ts';
import type { Session } from '../../../manager/session/session.ts';
import { type RunState, type StepEnd, type StepError, type Tries, UNTRIED } from './run-state.ts';

/** What is recorded of one attempt. A failure is a result too: after a crash retries go on where they were. */
export type AttemptEnd =
  | { readonly ok: true; readonly attempt: number; readonly output: unknown }
  | (Tries & { readonly ok: false; readonly attempt: number; readonly error: StepError });

/** One recorded attempt at a step. Without an end it was cut off. */
export type RecordedAttempt = {
  readonly name: string;
  readonly path: string;
  readonly attempt: number;
  readonly end: AttemptEnd | undefined;
  readonly endedAtMs: number;
};

/**
 * The name an attempt is recorded under: `fetch#2`, and `fetch^1#2` after a migration. Every attempt has one of its own, so that no
 * recording is ever taken for another one.
 */
export function attemptName(path: string, attempt: number, migrations: number): string {
  return `${path}${migrations === 0 ? '' : `^${migrations}`}#${attempt}`;
}

/** Reads what the steps of a run recorded since its last checkpoint, in one go. */
export async function readRecordedAttempts(
  manager: CheckpointManager,
  { id, branch, head }: Session,
): Promise<RecordedAttempt[]> {
  const recorded = await readRecorded(manager.engine, { sessionId: id, branch, head });
  return recorded.map(({ name, status, value, startedAtMs, durationMs = 0 }) => {
    const [, path = name, attempt = '1'] = /^(.*?)(?:\^\d+)?#(\d+)$/.exec(name) ?? [];
    const end = status === 'done' ? (value as AttemptEnd | undefined) : undefined;
    return { name, path, attempt: Number(attempt), end, endedAtMs: startedAtMs + durationMs };
  });
}

/** The state with what was recorded since it was saved. What was cut off has been begun, and will be again, as the next attempt. */
export function absorbAttempts(state: RunState, attempts: readonly RecordedAttempt[]): RunState {
  if (attempts.length === 0) return state;
  const ends: StepEnd[] = [];
  const tries = new Map(Object.entries(state.tries));
  for (const { path, attempt, end, endedAtMs } of attempts) {
    if (end?.ok === true) ends.push({ path, status: 'done', output: end.output, attempts: attempt, endedAtMs });
    else tries.set(path, { ...(end === undefined ? (tries.get(path) ?? UNTRIED) : toTries(end)), attempts: attempt });
  }
  return { ...state, ends: [...state.ends, ...ends], tries: Object.fromEntries(tries) };
}

/** How far retries have come after an attempt that failed. */
export function toTries({ turn, attempts, error, isFinal, atMs }: AttemptEnd & { readonly ok: false }): Tries {
  return { turn, attempts, error, isFinal, atMs };
}
