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
import type { NamedAction, WorkflowStep } from '../definition/workflow.ts';
import { askPerson, POLL_MS } from './approvals.ts';
import { type Failed, failed, OPEN, type Outcome } from './run-state.ts';
import type { Scope } from './scope.ts';
import { attemptStep } from './step-attempts.ts';
import type { RunParts } from './workflow-run.ts';

/** Where an action is done: for which step, or turn of its loop, and what names mean there. */
export type ActionSite = {
  readonly step: WorkflowStep;
  readonly scope: Scope;
  readonly path: string;
  readonly lookup: Lookup;
};

/** Does what a step says: calls code, asks people, waits, or runs another workflow. */
export async function act(parts: RunParts, place: ActionSite): Promise<Outcome> {
  const { step, path, scope, lookup } = place;
  const { action } = step;
  const refusal = refuseLeftOut(parts, place) ?? (await askFor(parts, step, path));
  if (refusal !== undefined) return refusal;
  switch (action.kind) {
    case 'function':
    case 'agent': {
      const run = callOf(parts, action, inputOf(action, place));
      return attemptStep(parts, { step, path, run, isStopped: () => scope.failure !== undefined });
    }
    case 'workflow':
      return parts.runSub(action.name, inputOf(action, place), path);
    case 'approval': {
      const { options, timeoutMs, onTimeout } = action;
      const message = formatValue(render(action.message, lookup));
      return askPerson(parts, { id: path, path, message, options, timeoutMs, onTimeout });
    }
    case 'wait':
      return waitUntil(parts, path, parts.ports.now() + action.durationMs);
    case 'wait_until':
      return waitUntil(parts, path, render(action.time, lookup));
    case 'join':
      return { status: 'done', output: scope.outputsOf(action.of) };
  }
}

/** Asks before an operation that needs it; undefined if it may go on. */
async function askFor(parts: RunParts, { operation, title }: WorkflowStep, path: string): Promise<Outcome | undefined> {
  const { policy } = parts;
  if (operation === undefined || findOperation(policy, { kind: 'tool', name: operation }) === undefined)
    return undefined;
  const outcome = await askPerson(parts, {
    id: `${path}?${operation}`,
    path,
    message: `May "${title}" do ${operation}?`,
    options: ['approve', REJECT],
    timeoutMs: policy.approvalTimeoutMs ?? undefined,
    onTimeout: policy.autoRejectOnTimeout ? 'reject' : 'wait',
  });
  return outcome.status === 'done' ? undefined : outcome;
}

function callOf({ registry }: RunParts, { kind, name }: NamedAction, input: unknown) {
  const { functions, agents } = registry;
  return kind === 'function'
    ? (context: StepContext) => functions?.[name]?.(input as never, context)
    : (context: StepContext) => ask(agents?.[name], formatValue(input), context);
}

/** The failure of a call that would get what stands for a secret. A sub-workflow's own steps are looked at. */
function refuseLeftOut({ leftOut }: RunParts, place: ActionSite): Failed | undefined {
  const { action } = place.step;
  if (action.kind !== 'function' && action.kind !== 'agent') return undefined;
  const looksAt = action.input === undefined ? [] : expressionsOf(action.input);
  return leftOut.refuse(looksAt, place.lookup, inputOf(action, place));
}

/** Waits for a time: a number of milliseconds since 1970, a date, or its text. It is saved before anything waits for it. */
async function waitUntil(
  { record, activity, ports, signal, timers }: RunParts,
  path: string,
  time: unknown,
): Promise<Outcome> {
  const dateMs = () => Date.parse(time instanceof Date ? time.toISOString() : `${time}`);
  const wantedMs = typeof time === 'number' ? time : dateMs();
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

/** It may be part of what others ended with, so it is frozen. */
function inputOf(action: NamedAction, { step, scope, lookup }: ActionSite): unknown {
  return freezeState(action.input === undefined ? scope.defaultInput(step) : render(action.input, lookup));
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
