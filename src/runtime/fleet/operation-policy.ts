import type { StepAttempt } from '../../manager/effect/effect-log.ts';
import type { EffectCall, Effects } from '../agent/effects.ts';
import type { HumanInTheLoopSettings } from '../config/config-schema.ts';
import { type ActingCall, isActing, refuseCall } from '../run/guarded-tools.ts';
import { REJECT } from '../run/request-answers.ts';
import { checkTrust } from '../run/run-options.ts';
import { APPROVE, type FleetAnswer, type FleetQuestion } from './fleet-state.ts';

/** Which operations a person must agree to; plain data. */
export type OperationPolicy = {
  /** Names or patterns with `*`: of tools, of what tools are said to do, or `code_execution`. */
  readonly requireApprovalFor: readonly string[];
  /** Names or patterns that need nobody's word, also where a pattern above fits. */
  readonly trustedOperations: readonly string[];
  /** What tools do, by their name: `{ fetch_page: 'external_api_calls' }`. */
  readonly operations: Readonly<Record<string, string>>;
  /** How long a request stays open; null: for ever. */
  readonly approvalTimeoutMs: number | null;
  /** Whether nobody's answer in time means no. Otherwise the request stays open. */
  readonly autoRejectOnTimeout: boolean;
};

/** What running code is called. */
export const CODE_EXECUTION = 'code_execution';

/** Nobody is asked. */
export const NO_POLICY: OperationPolicy = {
  requireApprovalFor: [],
  trustedOperations: [],
  operations: {},
  approvalTimeoutMs: null,
  autoRejectOnTimeout: false,
};

const SECOND_MS = 1_000;

/** A policy from the settings of `workflow.human_in_the_loop`; without settings nobody is asked. */
export function createPolicy(
  settings: Partial<HumanInTheLoopSettings> | undefined,
  operations: Readonly<Record<string, string>> = {},
): OperationPolicy {
  if (settings === undefined || settings.enabled === false) return { ...NO_POLICY, operations };
  const { require_approval_for: required = [], trusted_operations: trusted = [] } = settings;
  checkTrust(settings);
  const seconds = settings.approval_timeout_seconds;
  return {
    requireApprovalFor: required,
    trustedOperations: trusted,
    operations,
    approvalTimeoutMs: seconds === undefined ? null : seconds * SECOND_MS,
    autoRejectOnTimeout: settings.auto_reject_on_timeout ?? false,
  };
}

/**
 * What a person has to agree to before a tool is called or code is run; undefined if nobody has to. Whole names count before patterns, the
 * name of the tool before what it does, and among patterns trust comes first.
 */
export function findOperation(
  { requireApprovalFor, trustedOperations, operations }: OperationPolicy,
  call: { readonly kind: 'tool' | 'code'; readonly name: string },
): string | undefined {
  const names = call.kind === 'code' ? [CODE_EXECUTION] : namesOf(operations, call.name);
  const named = names.find((name) => requireApprovalFor.includes(name) || trustedOperations.includes(name));
  if (named !== undefined) return requireApprovalFor.includes(named) ? named : undefined;
  if (names.some((name) => fits(trustedOperations, name))) return undefined;
  return names.find((name) => fits(requireApprovalFor, name));
}

function namesOf(operations: OperationPolicy['operations'], tool: string): string[] {
  const operation = Object.hasOwn(operations, tool) ? operations[tool] : undefined;
  return operation === undefined ? [tool] : [tool, operation];
}

function fits(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => toExpression(pattern).test(name));
}

function toExpression(pattern: string): RegExp {
  const parts = pattern.split('*').map((part) => part.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`);
}

type GateParts = {
  readonly effects: Effects;
  readonly policy: OperationPolicy;
  /** Whose turn it is. */
  readonly agent: string;
  /** What the ids of this turn's questions begin with. */
  readonly turnId: string;
  readonly ask: (question: FleetQuestion) => Promise<FleetAnswer>;
  readonly onToolCall?: ((call: ToolCallEvent) => void) | undefined;
};

/** A tool that an agent calls, or code that it runs, as the caller of a run is told of it. */
export type ToolCallEvent = {
  readonly agent: string;
  readonly kind: 'tool' | 'code';
  readonly name: string;
  readonly input: unknown;
};

/** Asks a person before operations that need it. What is refused is not done, and the agent is told by whom. */
export class GatedEffects implements Effects {
  readonly #parts: GateParts;
  #questions = 0;

  constructor(parts: GateParts) {
    this.#parts = parts;
  }

  async run<Result>(call: EffectCall, perform: (attempt: StepAttempt) => Promise<Result>): Promise<Result> {
    const { effects, agent, onToolCall } = this.#parts;
    if (!isActing(call)) return effects.run(call, perform);
    const refusal = await this.#askFor(call);
    if (refusal !== undefined) return refusal as Result;
    await onToolCall?.({ agent, kind: call.kind, name: call.name, input: call.input });
    return effects.run(call, perform);
  }

  /** What the agent gets instead of a result; undefined if it may go on. */
  async #askFor(call: ActingCall): Promise<unknown> {
    const { policy, agent, turnId, ask } = this.#parts;
    const operation = findOperation(policy, call);
    if (operation === undefined) return undefined;
    const what = call.kind === 'code' ? 'run code' : `call ${call.name}`;
    const answer = await ask({
      id: `${turnId}-${++this.#questions}`,
      kind: 'operation',
      agent,
      message: `May ${agent} ${what} (${operation})?`,
      options: [APPROVE, REJECT],
      operation,
      input: call.input,
    });
    return answer.answer === REJECT ? refuse(call, operation, answer) : undefined;
  }
}

function refuse(call: ActingCall, operation: string, { by, value }: FleetAnswer) {
  const why = typeof value === 'string' && value !== '' ? ` ${value}` : '';
  return refuseCall(call, `${operation} was rejected by ${by}, so it was not done.${why}`);
}
