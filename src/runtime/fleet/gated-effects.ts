import type { StepAttempt } from '../../manager/effect/step.ts';
import type { EffectCall, Effects } from '../agent/effects.ts';
import { type ActingCall, isActing, refuseCall } from '../run/guarded-tools.ts';
import { REJECT } from '../run/request-answers.ts';
import { findOperation, type OperationPolicy } from '../run/run-options.ts';
import { APPROVE, type FleetAnswer, type FleetQuestion } from './fleet-state.ts';

type GateParts = {
  readonly effects: Effects;
  readonly policy: OperationPolicy;
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
    if (answer.answer !== REJECT) return undefined;
    const { by, value } = answer;
    const why = typeof value === 'string' && value !== '' ? ` ${value}` : '';
    return refuseCall(call, `${operation} was rejected by ${by}, so it was not done.${why}`);
  }
}
