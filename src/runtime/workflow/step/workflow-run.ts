import type { ManagerPorts } from '../../../manager/engine/engine.ts';
import type { Session } from '../../../manager/session/session.ts';
import type { WorkflowRegistry } from '../definition/registry.ts';
import type { Workflow, WorkflowStep } from '../definition/workflow.ts';
import { Activity } from './activity.ts';
import type { Answers } from './approvals.ts';
import { isSecretLeftOut, type LeftOutSecrets } from './left-out-secrets.ts';
import { forEach, repeat, settle, type Turn } from './loops.ts';
import type { Outcome } from './outcome.ts';
import type { RunRecord } from './run-record.ts';
import type { StepEnd, StepFailure } from './run-state.ts';
import { Scope } from './scope.ts';
import { type Place, StepActions } from './step-actions.ts';

/** Which operations need a person's word before they are done. */
export type ApprovalPolicy = {
  readonly requireFor: readonly string[];
  readonly timeoutMs?: number;
  readonly onTimeout?: 'wait' | 'reject';
};

/** What a run needs. */
export type RunParts = {
  readonly session: Session;
  readonly record: RunRecord;
  readonly leftOut: LeftOutSecrets;
  readonly registry: WorkflowRegistry;
  readonly answers: Answers;
  readonly ports: ManagerPorts;
  readonly signal: AbortSignal;
  readonly approvals: ApprovalPolicy;
  readonly timers: 'sleep' | 'return';
  readonly maxConcurrency: number;
};

/** How far a step got: it has ended, or cannot end yet, or stopped the workflow. */
type Verdict = 'ended' | 'open' | 'stopped';

/** How a workflow ended. */
export type ScopeEnd =
  | { readonly status: 'done'; readonly output: unknown }
  | { readonly status: 'open' }
  | { readonly status: 'failed'; readonly failure: StepFailure };

/** One run of a workflow: every step as soon as what it needs has ended, and none that has ended before. */
export class WorkflowRun {
  readonly #parts: RunParts;
  readonly #activity: Activity;
  readonly #actions: StepActions;
  readonly #signal: AbortSignal;
  /** Stops everything when the storage fails: what cannot be recorded must not begin. */
  readonly #broken = new AbortController();

  constructor(parts: RunParts, { name }: Workflow) {
    this.#parts = parts;
    this.#signal = AbortSignal.any([parts.signal, this.#broken.signal]);
    this.#activity = new Activity(parts.ports, { limit: parts.maxConcurrency });
    const runSub = this.#runSub.bind(this);
    const [activity, signal] = [this.#activity, this.#signal];
    this.#actions = new StepActions({ ...parts, activity, signal, workflow: name, runSub });
  }

  async run(scope: Scope): Promise<ScopeEnd> {
    const verdicts = new Map<string, Promise<Verdict>>();
    for (const step of scope.workflow.steps) {
      const needs = step.needs.flatMap((id) => verdicts.get(id) ?? []);
      verdicts.set(step.id, this.#runAfter(needs, step, scope));
    }
    const all = await settle(verdicts.values());
    if (scope.failure !== undefined) return { status: 'failed', failure: scope.failure };
    return all.includes('open') ? { status: 'open' } : { status: 'done', output: scope.output() };
  }

  async #runAfter(needs: readonly Promise<Verdict>[], step: WorkflowStep, scope: Scope): Promise<Verdict> {
    for (const need of needs) if ((await need) !== 'ended') return 'open';
    try {
      return await this.#runStep(step, scope);
    } catch (error) {
      this.#broken.abort(error);
      throw error;
    }
  }

  async #runStep(step: WorkflowStep, scope: Scope): Promise<Verdict> {
    const path = scope.pathOf(step);
    const known = this.#parts.record.find(path);
    if (known !== undefined) return scope.end(step, known);
    if (scope.failure !== undefined) return 'open';
    this.#signal.throwIfAborted();
    scope.begin(step);
    const unknown = this.#parts.leftOut.refuse(step.when, scope.lookup);
    if (unknown !== undefined) return this.#stop(scope, path, unknown);
    if (scope.isSkipped(step)) return scope.end(step, await this.#record(step, { path, status: 'skipped' }));
    const outcome = await this.#perform({ step, scope, path, lookup: scope.lookup });
    if (outcome.status === 'open') return 'open';
    const isStopping = step.onError.kind === 'stop' || isSecretLeftOut(outcome);
    if (outcome.status === 'failed' && isStopping) return this.#stop(scope, path, outcome);
    return scope.end(step, await this.#record(step, { path, ...outcome }));
  }

  /** Does what the step says: once, or turn by turn. */
  #perform(place: Place): Promise<Outcome> {
    const { path, lookup } = place;
    const { loop } = place.step;
    if (loop === undefined) return this.#actions.act(place);
    const doTurn = (turn: Turn) => this.#takeTurn({ ...place, path: `${path}[${turn.index}]`, lookup: turn.lookup });
    return loop.kind === 'for_each' ? forEach(loop, lookup, doTurn) : repeat(loop, lookup, doTurn);
  }

  async #takeTurn(place: Place): Promise<Outcome> {
    const { step, path } = place;
    const known = this.#parts.record.find(path);
    if (known !== undefined) return { status: 'done', output: known.output };
    const outcome = await this.#actions.act(place);
    if (outcome.status === 'done') await this.#record(step, { path, ...outcome });
    return outcome;
  }

  async #record(step: WorkflowStep, end: Omit<StepEnd, 'endedAtMs'>): Promise<StepEnd> {
    const { record, ports } = this.#parts;
    const known = record.find(end.path) ?? record.add({ ...end, endedAtMs: ports.now() });
    if (step.checkpoint) await this.#activity.during(() => record.checkpoint(end.path));
    return known;
  }

  /** A step that stops the workflow is not recorded as ended: it runs again on resume. */
  #stop(scope: Scope, path: string, outcome: Outcome & { readonly status: 'failed' }): Verdict {
    const { error, attempts = 1, isFinal = false } = outcome;
    const failure = { path, error, attempts, isFinal };
    this.#parts.record.fail(failure);
    scope.failure ??= failure;
    return 'stopped';
  }

  async #runSub(name: string, input: unknown, path: string): Promise<Outcome> {
    const workflow = this.#parts.registry.workflows?.[name] as Workflow;
    const end = await this.run(new Scope(workflow, { input, prefix: `${path}/` }));
    if (end.status !== 'failed') return end;
    const { error, attempts, isFinal } = end.failure;
    return { status: 'failed', error, attempts, isFinal };
  }
}
