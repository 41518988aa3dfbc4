import { setMaxListeners } from 'node:events';
import { evaluate, isTrue, type Lookup } from '../../../core/expression/evaluate.ts';
import { describeValue } from '../../../core/options.ts';
import type { ManagerPorts } from '../../../manager/engine/engine.ts';
import type { Session } from '../../../manager/session/session.ts';
import type { OperationPolicy } from '../../run/run-options.ts';
import type { WorkflowRegistry } from '../definition/registry.ts';
import { render } from '../definition/template.ts';
import type { Loop, Workflow, WorkflowStep } from '../definition/workflow.ts';
import { Activity } from './activity.ts';
import type { Answers } from './approvals.ts';
import { isSecretLeftOut, type LeftOutSecrets } from './left-out-secrets.ts';
import type { RunRecord } from './run-record.ts';
import { type Failed, failed, OPEN, type Outcome, type StepEnd } from './run-state.ts';
import { Scope } from './scope.ts';
import { type ActionSite, act } from './step-actions.ts';

/** What a run needs. */
export type RunParts = {
  readonly session: Session;
  readonly record: RunRecord;
  readonly leftOut: LeftOutSecrets;
  readonly registry: WorkflowRegistry;
  readonly answers: Answers;
  readonly ports: ManagerPorts;
  /** Aborts when the run must stop where it is. */
  readonly signal: AbortSignal;
  /** Which operations need a person's word before they are done. */
  readonly policy: OperationPolicy;
  /** `sleep`: the run lasts until the times have come that steps wait for. `return`: it ends as `waiting` when nothing else is left to do. */
  readonly timers: 'sleep' | 'return';
  readonly activity: Activity;
  readonly workflow: string;
  readonly runSub: (name: string, input: unknown, path: string) => Promise<Outcome>;
};

/** How far a step got: it has ended, or cannot end yet, or stopped the workflow. */
type Verdict = 'ended' | 'open' | 'stopped';

/** One run of a workflow: every step as soon as what it needs has ended, and none that has ended before. */
export class WorkflowRun {
  readonly #parts: RunParts;
  /** Stops everything when the storage fails: what cannot be recorded must not begin. */
  readonly #broken = new AbortController();

  constructor(given: Omit<RunParts, 'activity' | 'runSub'>, { maxConcurrency }: { readonly maxConcurrency: number }) {
    const signal = AbortSignal.any([given.signal, this.#broken.signal]);
    setMaxListeners(0, signal); // every step that runs listens, and there may be many
    const activity = new Activity(given.ports, { limit: maxConcurrency });
    const runSub: RunParts['runSub'] = (name, input, path) => {
      const workflow = given.registry.workflows?.[name] as Workflow;
      return this.run(new Scope(workflow, { input, prefix: `${path}/` }));
    };
    this.#parts = { ...given, signal, activity, runSub };
  }

  async run(scope: Scope): Promise<Outcome> {
    const verdicts = new Map<string, Promise<Verdict>>();
    for (const step of scope.workflow.steps) {
      const needs = step.needs.flatMap((id) => verdicts.get(id) ?? []);
      verdicts.set(step.id, this.#runAfter(needs, step, scope));
    }
    const all = await settle(verdicts.values());
    if (scope.failure !== undefined) {
      const { path: _, ...failure } = scope.failure;
      return { status: 'failed', ...failure };
    }
    return all.includes('open') ? OPEN : { status: 'done', output: scope.output() };
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
    this.#parts.signal.throwIfAborted();
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

  /** Does what the step says: once, or turn by turn; a turn that has ended is not done again. */
  #perform(place: ActionSite): Promise<Outcome> {
    const { step, lookup } = place;
    const { loop } = step;
    if (loop === undefined) return act(this.#parts, place);
    const doTurn: DoTurn = async (index, names) => {
      const path = `${place.path}[${index}]`;
      const known = this.#parts.record.find(path);
      if (known !== undefined) return { status: 'done', output: known.output };
      const outcome = await act(this.#parts, { ...place, path, lookup: extend(lookup, names) });
      if (outcome.status === 'done') await this.#record(step, { path, ...outcome });
      return outcome;
    };
    return loop.kind === 'for_each' ? forEach(loop, lookup, doTurn) : repeat(loop, lookup, doTurn);
  }

  async #record(step: WorkflowStep, end: Omit<StepEnd, 'endedAtMs'>): Promise<StepEnd> {
    const { record, ports, activity } = this.#parts;
    const known = record.find(end.path) ?? record.add({ ...end, endedAtMs: ports.now() });
    if (step.checkpoint) await activity.during(() => record.checkpoint(end.path));
    return known;
  }

  /** A step that stops the workflow is not recorded as ended: it runs again on resume. */
  #stop(scope: Scope, path: string, { error, attempts = 1, isFinal = false }: Failed): Verdict {
    const failure = { path, error, attempts, isFinal };
    this.#parts.record.fail(failure);
    scope.failure ??= failure;
    return 'stopped';
  }
}

type DoTurn = (index: number, names: { readonly [name: string]: unknown }) => Promise<Outcome>;

/** Does something for every item of a list, a few at a time. After a turn that failed or is open no new one begins. */
async function forEach(loop: Loop & { readonly kind: 'for_each' }, lookup: Lookup, doTurn: DoTurn): Promise<Outcome> {
  const items = render(loop.items, lookup);
  if (!Array.isArray(items))
    return failed('InvalidInputError', `for_each needs a list; found ${describeValue(items)}.`);
  const outcomes: Outcome[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < items.length) {
      const index = next++;
      const outcome = await doTurn(index, { item: items[index], index });
      outcomes[index] = outcome;
      if (outcome.status !== 'done') next = items.length;
    }
  };
  await settle(Array.from({ length: Math.min(loop.concurrency, items.length) }, worker));
  const done = outcomes.filter((outcome) => outcome !== undefined);
  const end = done.find(({ status }) => status === 'failed') ?? done.find(({ status }) => status === 'open');
  return end ?? { status: 'done', output: done.map((outcome) => ('output' in outcome ? outcome.output : undefined)) };
}

/** Does something again and again until a condition holds; a loop that reaches its limit has failed. */
async function repeat(loop: Loop & { readonly kind: 'repeat' }, lookup: Lookup, doTurn: DoTurn): Promise<Outcome> {
  let previous: unknown = null;
  for (let iteration = 1; iteration <= loop.limit; iteration++) {
    const names = { iteration, previous };
    const outcome = await doTurn(iteration, names);
    if (outcome.status !== 'done') return outcome;
    const { output } = outcome;
    if (isTrue(evaluate(loop.until, extend(lookup, { ...names, output })))) return outcome;
    previous = output;
  }
  return failed('RepeatLimitError', `The condition did not hold within ${loop.limit} turns.`);
}

/** Waits for all, also if one fails: nothing may still run when the caller is told. */
async function settle<Value>(promises: Iterable<Promise<Value>>): Promise<Value[]> {
  const results = await Promise.allSettled(promises);
  return results.map((result) => {
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  });
}

function extend(lookup: Lookup, names: { readonly [name: string]: unknown }): Lookup {
  return (root) => (Object.hasOwn(names, root) ? names[root] : lookup(root));
}
