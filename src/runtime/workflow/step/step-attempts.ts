import { hasErrorCode } from '../../../core/errors.ts';
import { backoff } from '../../../core/time/backoff.ts';
import { withDeadline } from '../../../core/time/deadline.ts';
import { MAX_DELAY_MS, sleep } from '../../../core/time/timer.ts';
import { digestText } from '../../../core/tree/chunk.ts';
import type { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { readRecorded } from '../../../manager/effect/recordings.ts';
import type { Session } from '../../../manager/session/session.ts';
import type { StepContext } from '../definition/registry.ts';
import type { WorkflowStep } from '../definition/workflow.ts';
import {
  OPEN,
  type Outcome,
  type RunState,
  type StepEnd,
  type StepError,
  type Tries,
  toStepError,
  UNTRIED,
} from './run-state.ts';
import type { RunParts } from './workflow-run.ts';

/** A call of code, for one step or one turn of its loop. */
type Call = {
  readonly step: WorkflowStep;
  readonly path: string;
  readonly run: (context: StepContext) => unknown;
  /** Whether another step has stopped the workflow: what waits for its turn does not begin then. */
  readonly isStopped: () => boolean;
};

/** What is recorded of one attempt. A failure is a result too: after a crash retries go on where they were. */
type AttemptEnd =
  | { readonly ok: true; readonly attempt: number; readonly output: unknown }
  | (Tries & { readonly ok: false; readonly attempt: number; readonly error: StepError });

/** Calls code as recorded effects, with its retries, pauses and limits of time. */
export async function attemptStep(parts: RunParts, call: Call): Promise<Outcome> {
  return parts.activity.during(() => tryUntilOver(parts, call));
}

async function tryUntilOver(parts: RunParts, call: Call): Promise<Outcome> {
  const { record, activity } = parts;
  const { step, path } = call;
  const first = record.tries(path) ?? UNTRIED;
  for (let tries = first; ; ) {
    const { turn, isFinal, attempts, error = toStepError('It failed.') } = tries;
    if (turn > 0 && (isFinal || turn >= step.retry.maxAttempts)) return { status: 'failed', error, attempts, isFinal };
    if (turn > 0) await pause(parts, step, tries);
    const before = tries;
    const end = await activity.inTurn(async () =>
      before === first && call.isStopped() ? undefined : attempt(parts, call, before),
    );
    if (end === undefined) return OPEN;
    if (end.ok) return { status: 'done', output: end.output, attempts: end.attempt };
    tries = toTries(end);
  }
}

async function attempt(parts: RunParts, call: Call, before: Tries): Promise<AttemptEnd> {
  const { session, record, ports } = parts;
  const { path } = call;
  const name = attemptName(path, before.attempts + 1, record.state.migrations);
  let end: AttemptEnd;
  try {
    end = await session.step(name, () => makeCall(parts, call, before));
  } catch (error) {
    // A result that is no data. Whatever else comes from here is the storage's, and not a failure of the step.
    if (!hasErrorCode(error, 'INVALID_INPUT')) throw error;
    end = toFailure(error, before, { isFinal: true, atMs: ports.now() });
    session.letGo(name);
  }
  // At once: the next checkpoint, also that of another step, counts this attempt as part of its state.
  if (end.ok) record.add({ path, status: 'done', output: end.output, attempts: end.attempt, endedAtMs: ports.now() });
  else record.tried(path, toTries(end));
  return end;
}

async function makeCall(parts: RunParts, { step, path, run }: Call, before: Tries): Promise<AttemptEnd> {
  const { session, signal, workflow, ports } = parts;
  const { id, timeoutMs } = step;
  const attempt = before.attempts + 1;
  const context = { sessionId: session.id, workflow, step: path, attempt, idempotencyKey: stepKey(session, path) };
  const onTimeout = () =>
    Object.assign(new Error(`Step "${id}" took longer than ${timeoutMs} ms.`), { name: 'TimeoutError' });
  try {
    const deadline = { signal, timeoutMs, onTimeout, setTimer: ports.setTimer };
    const output = await withDeadline(deadline, (limit) => run({ ...context, signal: limit }));
    return { ok: true, attempt, output };
  } catch (error) {
    if (signal.aborted) throw error; // it was stopped; that is no failure, and it runs again
    // An error may say of itself that trying again cannot help.
    const isFinal = error instanceof Error && 'retryable' in error && error.retryable === false;
    return toFailure(error, before, { isFinal, atMs: ports.now() });
  }
}

function toFailure(error: unknown, { turn, attempts }: Tries, end: Pick<Tries, 'isFinal' | 'atMs'>): AttemptEnd {
  const attempt = attempts + 1;
  return { ok: false, attempt, attempts: attempt, turn: turn + 1, error: toStepError(error), ...end };
}

/** The pause counts from the failure, also if the process died in it. */
async function pause({ ports, signal }: RunParts, { retry }: WorkflowStep, { turn, atMs }: Tries): Promise<void> {
  const pauseMs = backoff(turn, { firstMs: retry.delayMs, maxMs: retry.maxDelayMs, factor: retry.factor });
  const leftMs = Math.min(atMs + pauseMs - ports.now(), pauseMs); // the clock may have been set back
  if (leftMs > 0) await sleep(ports, Math.min(leftMs, MAX_DELAY_MS), signal);
}

/** The key of a step: of its session, branch and path alone, so that every attempt has the same, whatever happened between. */
function stepKey({ id, branch }: Session, path: string): string {
  return `eff_${digestText(JSON.stringify([id, branch, path])).slice(0, 32)}`;
}

/** How far retries have come after an attempt that failed. */
function toTries({ turn, attempts, error, isFinal, atMs }: AttemptEnd & { readonly ok: false }): Tries {
  return { turn, attempts, error, isFinal, atMs };
}

/**
 * The name an attempt is recorded under: `fetch#2`, and `fetch^1#2` after a migration. Every attempt has one of its own, so that no
 * recording is ever taken for another one.
 */
function attemptName(path: string, attempt: number, migrations: number): string {
  return `${path}${migrations === 0 ? '' : `^${migrations}`}#${attempt}`;
}

/**
 * The state of a run with what its steps recorded since it was saved, and the paths of what was cut off: that has been begun, and will
 * be again, as the next attempt.
 */
export async function absorbAttempts(
  manager: CheckpointManager,
  session: Session,
  state: RunState,
): Promise<{ readonly state: RunState; readonly inFlight: readonly string[] }> {
  const { id: sessionId, branch, head } = session;
  const ends: StepEnd[] = [];
  const inFlight: string[] = [];
  const tries = new Map(Object.entries(state.tries));
  const recorded = await readRecorded(manager.engine, { sessionId, branch, head });
  for (const effect of recorded) {
    session.letGo(effect.name); // every checkpoint counts it from now on
    const { path, attempts, end } = readAttempt(effect);
    if (end === undefined) inFlight.push(path);
    if (end?.ok !== true) tries.set(path, { ...(end ? toTries(end) : (tries.get(path) ?? UNTRIED)), attempts });
    else {
      const endedAtMs = effect.startedAtMs + (effect.durationMs ?? 0);
      ends.push({ path, status: 'done', output: end.output, attempts, endedAtMs });
    }
  }
  if (recorded.length === 0) return { state, inFlight };
  return { state: { ...state, ends: [...state.ends, ...ends], tries: Object.fromEntries(tries) }, inFlight };
}

function readAttempt({ name, status, value }: Awaited<ReturnType<typeof readRecorded>>[number]) {
  const [, path = name, attempts = '1'] = /^(.*?)(?:\^\d+)?#(\d+)$/.exec(name) ?? [];
  const end = status === 'done' ? (value as AttemptEnd | undefined) : undefined;
  return { path, attempts: Number(attempts), end };
}
