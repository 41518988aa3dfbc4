import { InvalidInputError } from '../../../core/errors.ts';
import type { Lookup } from '../../../core/expression/evaluate.ts';
import { freezeState } from '../../../core/freeze.ts';
import { describeValue, isRecord } from '../../../core/options.ts';
import { MAX_DELAY_MS, sleep } from '../../../core/time/timer.ts';
import { StandardAgent } from '../../agent/standard-agent.ts';
import { REJECT } from '../../run/request-answers.ts';
import { findOperation } from '../../run/run-options.ts';
import type { StepContext, WorkflowAgent } from '../definition/registry.ts';
import { expressionsOf, formatValue, render } from '../definition/template.ts';
import type { ApprovalAction, NamedAction, WorkflowStep } from '../definition/workflow.ts';
import { askPerson, POLL_MS } from './approvals.ts';
import { failed, OPEN, type Outcome } from './outcome.ts';
import type { Scope } from './scope.ts';
import { StepAttempts } from './step-attempts.ts';
import type { RunParts } from './workflow-run.ts';

/** Where an action is done: for which step, or turn of its loop, and what names mean there. */
export type ActionSite = {
  readonly step: WorkflowStep;
  readonly scope: Scope;
  readonly path: string;
  readonly lookup: Lookup;
};

/** Runs a sub-workflow. */
type RunSub = (name: string, input: unknown, path: string) => Promise<Outcome>;

/** Does what steps say: calls code, asks people, waits, and runs other workflows. */
export class StepActions {
  readonly #parts: RunParts;
  readonly #runSub: RunSub;
  readonly #attempts: StepAttempts;

  constructor(parts: RunParts, runSub: RunSub) {
    this.#parts = parts;
    this.#runSub = runSub;
    this.#attempts = new StepAttempts(parts);
  }

  async act(place: ActionSite): Promise<Outcome> {
    const { step, path, scope, lookup } = place;
    const { action } = step;
    const refusal = this.#leftOut(place) ?? (await this.#askFor(step, path));
    if (refusal !== undefined) return refusal;
    switch (action.kind) {
      case 'function':
      case 'agent':
        return this.#attempts.run({
          step,
          path,
          run: this.#call(action, place),
          isStopped: () => scope.failure !== undefined,
        });
      case 'workflow':
        return this.#runSub(action.name, this.#inputOf(action, place), path);
      case 'approval':
        return this.#ask(action, place);
      case 'wait':
        return waitUntil(this.#parts, path, this.#parts.ports.now() + action.durationMs);
      case 'wait_until':
        return waitUntil(this.#parts, path, render(action.time, lookup));
      case 'join':
        return { status: 'done', output: scope.outputsOf(action.of) };
    }
  }

  #ask({ options, timeoutMs, onTimeout, ...action }: ApprovalAction, { path, lookup }: ActionSite): Promise<Outcome> {
    const message = formatValue(render(action.message, lookup));
    return askPerson(this.#parts, { id: path, path, message, options, timeoutMs, onTimeout });
  }

  /** Asks before an operation that needs it; undefined if it may go on. */
  async #askFor({ operation, title }: WorkflowStep, path: string): Promise<Outcome | undefined> {
    const { policy } = this.#parts;
    if (operation === undefined || findOperation(policy, { kind: 'tool', name: operation }) === undefined)
      return undefined;
    const outcome = await askPerson(this.#parts, {
      id: `${path}?${operation}`,
      path,
      message: `May "${title}" do ${operation}?`,
      options: ['approve', REJECT],
      timeoutMs: policy.approvalTimeoutMs ?? undefined,
      onTimeout: policy.autoRejectOnTimeout ? 'reject' : 'wait',
    });
    return outcome.status === 'done' ? undefined : outcome;
  }

  #call(action: NamedAction, place: ActionSite): (context: StepContext) => unknown {
    const { functions, agents } = this.#parts.registry;
    const input = this.#inputOf(action, place);
    if (action.kind === 'function') return (context) => functions?.[action.name]?.(input as never, context);
    return (context) => ask(agents?.[action.name], formatValue(input), context);
  }

  /** The failure of a call that would get what stands for a secret. A sub-workflow's own steps are looked at. */
  #leftOut(place: ActionSite): Outcome | undefined {
    const { action } = place.step;
    if (action.kind !== 'function' && action.kind !== 'agent') return undefined;
    const looksAt = action.input === undefined ? [] : expressionsOf(action.input);
    return this.#parts.leftOut.refuse(looksAt, place.lookup, this.#inputOf(action, place));
  }

  #inputOf(action: NamedAction, { step, scope, lookup }: ActionSite): unknown {
    const input = action.input === undefined ? scope.defaultInput(step) : render(action.input, lookup);
    freezeState(input); // it may be part of what others ended with
    return input;
  }
}

/** What a StandardAgent knows of earlier steps would be lost in another process, so it is not to know it in this one. */
async function ask(agent: WorkflowAgent | StandardAgent | undefined, prompt: string, context: StepContext) {
  if (agent instanceof StandardAgent) {
    const { sessionId, step, signal, idempotencyKey } = context;
    const options = { partner: `${sessionId}/${step}`, remembers: false, idempotencyKey, signal };
    return (await agent.reply(prompt, options)).content;
  }
  const reply: unknown = await agent?.reply(prompt, context);
  const said = isRecord(reply) ? (reply.text ?? reply.content) : reply;
  if (typeof said === 'string') return said;
  throw new InvalidInputError(
    `reply() of the agent of step "${context.step}" must return a string, or an object with one as text or content; found ${describeValue(reply)}.`,
    { details: { step: context.step } },
  );
}

/** Waits for a time: a number of milliseconds since 1970, a date, or its text. It is saved before anything waits for it. */
async function waitUntil(parts: RunParts, path: string, time: unknown): Promise<Outcome> {
  const { record, activity, ports, signal, timers } = parts;
  const wantedMs = typeof time === 'number' ? time : Date.parse(time instanceof Date ? time.toISOString() : `${time}`);
  if (!Number.isFinite(wantedMs))
    return failed('InvalidInputError', `"${path}" cannot wait until ${JSON.stringify(time)}: that is not a time.`);
  const deadlineMs = record.timer(path) ?? (await activity.during(() => record.setTimer(path, wantedMs)));
  for (let leftMs = deadlineMs - ports.now(); leftMs > 0; leftMs = deadlineMs - ports.now()) {
    const napMs = Math.min(leftMs, MAX_DELAY_MS);
    if (timers === 'sleep') await activity.during(() => sleep(ports, napMs, signal));
    else if (await activity.rest(Math.min(napMs, POLL_MS))) return OPEN;
  }
  return { status: 'done', output: { atMs: deadlineMs } };
}
