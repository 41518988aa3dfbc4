import { InvalidInputError } from '../../core/errors.ts';
import type { StepAttempt } from '../../manager/effect/effect-log.ts';
import type { EffectCall, Effects } from '../agent/effects.ts';
import type { ToolOutcome } from '../agent/tool.ts';

/** Which call gets another answer, and which ones after it keep theirs. */
export type Replacement = {
  readonly callId: string;
  readonly outcome: ToolOutcome;
  readonly kept: ReadonlyMap<string, ToolOutcome>;
  /** Whether the recording ends here, also if the answer is the same. */
  readonly isDivergence: boolean;
};

/**
 * Makes a turn go as it went up to the call of a tool, gives that call another answer, and lets the turn go on from there. Nothing is
 * called before it: what the recording does not have cannot be taken again in the same way.
 */
export class ReplacedToolEffects implements Effects {
  readonly #inner: Effects;
  readonly #replacement: Replacement;
  #isReached = false;

  constructor(inner: Effects, replacement: Replacement) {
    this.#inner = inner;
    this.#replacement = replacement;
  }

  /** Whether the call came up. */
  get isReached(): boolean {
    return this.#isReached;
  }

  async run<Result>(call: EffectCall, perform: (attempt: StepAttempt) => Promise<Result>): Promise<Result> {
    const { callId, outcome, kept, isDivergence } = this.#replacement;
    const called = call.kind === 'tool' ? idOf(call) : undefined;
    if (called === callId && !this.#isReached) {
      this.#isReached = true;
      // Another input, so that the recorded answer does not fit.
      const input = isDivergence ? { call: call.input, replacement: outcome } : call.input;
      return this.#answer({ ...call, input }, outcome);
    }
    const answer = called !== undefined && this.#isReached ? kept.get(called) : undefined;
    if (answer !== undefined) return this.#answer(call, answer);
    return this.#inner.run(call, async (attempt) => {
      if (!this.#isReached) throw notRecorded(call, callId);
      return perform(attempt);
    });
  }

  #answer<Result>(call: EffectCall, outcome: ToolOutcome): Promise<Result> {
    return this.#inner.run<Result>(call, async () => outcome as Result); // whoever runs a tool expects its outcome
  }
}

function idOf({ input }: EffectCall): string | undefined {
  const id = typeof input === 'object' && input !== null && 'callId' in input ? input.callId : undefined;
  return typeof id === 'string' ? id : undefined;
}

function notRecorded({ kind, name }: EffectCall, callId: string): InvalidInputError {
  return new InvalidInputError(
    `The turn cannot be taken again up to call ${callId}: what ${kind} "${name}" answered before it is not recorded for this input. Change a message instead.`,
    { details: { kind, name, callId } },
  );
}
