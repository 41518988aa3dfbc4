import { hasErrorCode } from '../../../core/errors.ts';
import { backoff } from '../../../core/time/backoff.ts';
import { withDeadline } from '../../../core/time/deadline.ts';
import { MAX_DELAY_MS, sleep } from '../../../core/time/timer.ts';
import { digestText } from '../../../core/tree/chunk.ts';
import type { Session } from '../../../manager/session/session.ts';
import type { StepContext } from '../definition/registry.ts';
import type { WorkflowStep } from '../definition/workflow.ts';
import { OPEN, type Outcome } from './outcome.ts';
import { type AttemptEnd, attemptName, toTries } from './recorded-attempts.ts';
import { type Tries, toStepError, UNTRIED } from './run-state.ts';
import type { RunParts } from './workflow-run.ts';

/** A call of code, for one step or one turn of its loop. */
export type Call = {
  readonly step: WorkflowStep;
  readonly path: string;
  readonly run: (context: StepContext) => unknown;
  /** Whether another step has stopped the workflow: what waits for its turn does not begin then. */
  readonly isStopped: () => boolean;
};

/** Calls code as recorded effects, with its retries, pauses and limits of time. */
export class StepAttempts {
  readonly #parts: RunParts;

  constructor(parts: RunParts) {
    this.#parts = parts;
  }

  async run(call: Call): Promise<Outcome> {
    return this.#parts.activity.during(() => this.#try(call));
  }

  async #try(call: Call): Promise<Outcome> {
    const { record, activity } = this.#parts;
    const first = record.tries(call.path) ?? UNTRIED;
    for (let tries = first; ; ) {
      if (isOver(tries, call.step)) return toOutcome(tries);
      if (tries.turn > 0) await this.#pause(call.step, tries);
      const before = tries;
      const isBegun = before !== first;
      const end = await activity.inTurn(async () =>
        isBegun || !call.isStopped() ? this.#attempt(call, before) : undefined,
      );
      if (end === undefined) return OPEN;
      if (end.ok) return { status: 'done', output: end.output, attempts: end.attempt };
      tries = toTries(end);
    }
  }

  async #attempt(call: Call, before: Tries): Promise<AttemptEnd> {
    const { session, record, ports } = this.#parts;
    const { path } = call;
    const name = attemptName(path, before.attempts + 1, record.state.migrations);
    let end: AttemptEnd;
    try {
      end = await session.step(name, () => this.#call(call, before));
    } catch (error) {
      // A result that is no data. Whatever else comes from here is the storage's, and not a failure of the step.
      if (!hasErrorCode(error, 'INVALID_INPUT')) throw error;
      end = this.#failed(error, before, true);
      session.letGo(name);
    }
    // At once: the next checkpoint, also that of another step, counts this attempt as part of its state.
    if (end.ok) record.add({ path, status: 'done', output: end.output, attempts: end.attempt, endedAtMs: ports.now() });
    else record.tried(path, toTries(end));
    return end;
  }

  async #call({ step, path, run }: Call, before: Tries): Promise<AttemptEnd> {
    const { session, signal, workflow, ports } = this.#parts;
    const attempt = before.attempts + 1;
    const base = { sessionId: session.id, workflow, step: path, attempt, idempotencyKey: stepKey(session, path) };
    try {
      const deadline = {
        signal,
        timeoutMs: step.timeoutMs,
        onTimeout: () => tookTooLong(step),
        setTimer: ports.setTimer,
      };
      const output = await withDeadline(deadline, (limit) => run({ ...base, signal: limit }));
      return { ok: true, attempt, output };
    } catch (error) {
      if (signal.aborted) throw error; // it was stopped; that is no failure, and it runs again
      return this.#failed(error, before, isHopeless(error));
    }
  }

  #failed(error: unknown, { turn, attempts }: Tries, isFinal: boolean): AttemptEnd {
    const attempt = attempts + 1;
    const atMs = this.#parts.ports.now();
    return { ok: false, attempt, attempts: attempt, turn: turn + 1, error: toStepError(error), isFinal, atMs };
  }

  /** The pause counts from the failure, also if the process died in it. */
  async #pause({ retry }: WorkflowStep, { turn, atMs }: Tries): Promise<void> {
    const { ports, signal } = this.#parts;
    const pauseMs = backoff(turn, { firstMs: retry.delayMs, maxMs: retry.maxDelayMs, factor: retry.factor });
    const leftMs = atMs + pauseMs - ports.now();
    if (leftMs > 0) await sleep(ports, Math.min(leftMs, MAX_DELAY_MS), signal);
  }
}

function isOver({ turn, isFinal }: Tries, { retry }: WorkflowStep): boolean {
  return turn > 0 && (isFinal || turn >= retry.maxAttempts);
}

function toOutcome({ error, attempts, isFinal }: Tries): Outcome {
  return { status: 'failed', error: error ?? toStepError('It failed.'), attempts, isFinal };
}

/** The key of a step: of its session, branch and path alone, so that every attempt has the same, whatever happened between. */
function stepKey({ id, branch }: Session, path: string): string {
  return `eff_${digestText(JSON.stringify([id, branch, path])).slice(0, 32)}`;
}

/** An error that says of itself that trying again cannot help. */
function isHopeless(error: unknown): boolean {
  return error instanceof Error && 'retryable' in error && error.retryable === false;
}

function tookTooLong({ id, timeoutMs }: WorkflowStep): Error {
  return Object.assign(new Error(`Step "${id}" took longer than ${timeoutMs} ms.`), { name: 'TimeoutError' });
}
