import { z } from 'zod';
import {
  compareInputs,
  isComparable,
  learntAfter,
  type Step,
  type StepReading,
  stepSchema,
  writtenIn,
} from './step.ts';
import { addition } from './text-sketch.ts';

const count = z.int().nonnegative();
const amount = z.number().nonnegative();

/** The plain data of what is remembered of one agent. */
export const agentMemoryState = z.object({
  steps: z.array(stepSchema),
  count,
  calls: count,
  /** Calls of earlier rounds: those of this one may still be answered. */
  settledCalls: count,
  answers: count,
  learnt: amount,
  written: amount,
  isAnswered: z.boolean(),
});
type AgentMemoryState = z.infer<typeof agentMemoryState>;

/** What a step is before it is known how it compares. */
export type BareStep = Omit<Step, 'ordinal' | 'learntBefore' | 'writtenBefore' | 'written'>;

/** Earlier steps that a new one is compared with: far enough for a cycle of five calls to come round three times. */
const MAX_STEPS = 16;

/** Traces without results have none or a few; with results, nearly one for each call. */
const MIN_ANSWERED_SHARE = 0.5;

const NOTHING_DONE: AgentMemoryState = Object.freeze({
  steps: [],
  count: 0,
  calls: 0,
  settledCalls: 0,
  answers: 0,
  learnt: 0,
  written: 0,
  isAnswered: false,
});

/** The last steps of one agent, and how much it has learnt and written. */
export class AgentMemory {
  readonly #state: AgentMemoryState;

  constructor(state: AgentMemoryState = NOTHING_DONE) {
    this.#state = { ...state, steps: [...state.steps] };
  }

  /** Begins a new round if there was a result since the last call; calls without a result in between are made at once. */
  beginRound(): boolean {
    if (!this.#state.isAnswered) return false;
    this.#state.isAnswered = false;
    this.#state.settledCalls = this.#state.calls;
    return true;
  }

  /** Adds a step, and says how it compares with those before. */
  begin(bare: BareStep): StepReading {
    const begun = {
      ...bare,
      ordinal: this.#state.count++,
      learntBefore: this.#state.learnt,
      writtenBefore: this.#state.written,
      written: 0,
    };
    const reading = this.#compare(begun);
    if (bare.kind === 'call') this.#state.calls++;
    const step = bare.kind === 'call' ? { ...begun, written: writtenIn(reading) } : begun;
    this.#state.written += step.written;
    this.#state.steps.push(step);
    if (this.#state.steps.length > MAX_STEPS) this.#state.steps.shift();
    return { ...reading, step };
  }

  /** Adds the result of a call, and says how the whole compares. */
  complete(call: Step, outcome: Pick<Step, 'result' | 'resultNovelty' | 'isError' | 'answeredAt'>): StepReading {
    const step = { ...call, ...outcome };
    const at = this.#state.steps.findIndex(({ index }) => index === call.index);
    if (at >= 0) this.#state.steps[at] = step;
    if (!step.isError) this.#state.learnt += step.resultNovelty ?? 0;
    this.#state.answers++;
    this.#state.isAnswered = true;
    return { ...this.#compare(step), isComplete: true };
  }

  snapshot(): AgentMemoryState {
    return { ...this.#state, steps: [...this.#state.steps] };
  }

  #compare(step: Step): StepReading {
    const { twin, similarity } = this.#findTwin(step);
    return {
      step,
      isComplete: step.kind === 'message' || (twin !== undefined && !this.#isAwaited(twin)),
      twin,
      isTwinAnswered: twin?.answeredAt !== undefined && twin.answeredAt < step.index,
      similarity,
      hasEqualInput: twin !== undefined && twin.input.hash === step.input.hash,
      addedWords: twin === undefined ? 1 : addition(step.input.words, twin.input.words),
      distance: twin === undefined ? 0 : step.ordinal - twin.ordinal,
      learntSince: twin === undefined ? 0 : step.learntBefore - learntAfter(twin),
      writtenSince: twin === undefined ? 0 : step.writtenBefore - twin.writtenBefore - twin.written,
      foundWords: 0,
    };
  }

  /** Whether a result is to be expected: the last time there was one, or most calls of earlier rounds were answered. */
  #isAwaited(twin: Step): boolean {
    if (twin.result !== undefined) return true;
    return this.#state.settledCalls > 0 && this.#state.answers >= MIN_ANSWERED_SHARE * this.#state.settledCalls;
  }

  #findTwin(step: Step): { twin: Step | undefined; similarity: number } {
    let twin: Step | undefined;
    let similarity = 0;
    for (let at = this.#state.steps.length - 1; at >= 0 && similarity < 1; at--) {
      const earlier = this.#state.steps[at];
      if (earlier === undefined || !isComparable(earlier, step)) continue;
      const likeness = compareInputs(earlier, step);
      if (likeness <= similarity) continue;
      twin = earlier;
      similarity = likeness;
    }
    return { twin, similarity };
  }
}
