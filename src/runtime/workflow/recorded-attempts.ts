import type { ChunkContent } from '../../core/chunk.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { readEffects } from '../../manager/effect-log.ts';
import type { RecordedEffect } from '../../manager/effect-record.ts';
import type { Session } from '../../manager/session.ts';
import { type RunState, type StepEnd, type StepError, type Tries, UNTRIED } from './run-state.ts';

/** What is recorded of one attempt. A failure is a result too: after a crash retries go on where they were. */
export type AttemptEnd =
  | { readonly ok: true; readonly attempt: number; readonly output: unknown }
  | (Tries & { readonly ok: false; readonly attempt: number; readonly error: StepError });

/** One recorded attempt at a step. Without an end it was cut off. */
export type RecordedAttempt = {
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
  const { engine } = manager;
  const isOnBranch = head?.branch === branch;
  const count = isOnBranch ? (head.header.effectCount ?? 0) : 0;
  const inFlight = new Set(isOnBranch ? (head.header.effectsInFlight ?? []) : []);
  const fromOrdinal = Math.min(count, ...inFlight);
  const effects = await readEffects(engine, { sessionId: id, branch, fromOrdinal });
  const recent = effects.filter(({ ordinal }) => ordinal >= count || inFlight.has(ordinal));
  // One read for all results, however many there are.
  const refs = recent.flatMap(({ result }) => result?.refs ?? []);
  const find = await engine.repository.loadChunks({ text: '', refs });
  return recent.map((effect) => parseAttempt(effect, (result) => engine.codec.decode(result, find)));
}

function parseAttempt(effect: RecordedEffect, decode: (result: ChunkContent) => unknown): RecordedAttempt {
  const { name, status, result, startedAtMs, durationMs = 0 } = effect;
  const [, path = name, attempt = '1'] = /^(.*?)(?:\^\d+)?#(\d+)$/.exec(name) ?? [];
  const end = status === 'done' && result !== undefined ? (decode(result) as AttemptEnd) : undefined;
  return { path, attempt: Number(attempt), end, endedAtMs: startedAtMs + durationMs };
}

/** The state with what was recorded since it was saved. What was cut off has been begun, and will be again, as the next attempt. */
export function absorbAttempts(state: RunState, attempts: readonly RecordedAttempt[]): RunState {
  if (attempts.length === 0) return state;
  const ends: StepEnd[] = [];
  const tries = new Map(Object.entries(state.tries));
  for (const { path, attempt, end, endedAtMs } of attempts) {
    if (end?.ok === true) ends.push({ path, status: 'done', output: end.output, attempts: attempt, endedAtMs });
    else tries.set(path, { ...(toTries(end) ?? tries.get(path) ?? UNTRIED), attempts: attempt });
  }
  return { ...state, ends: [...state.ends, ...ends], tries: Object.fromEntries(tries) };
}

function toTries(end: AttemptEnd | undefined): Tries | undefined {
  if (end === undefined || end.ok) return undefined;
  const { turn, attempts, error, isFinal, atMs } = end;
  return { turn, attempts, error, isFinal, atMs };
}
