import { z } from 'zod';
import { count } from './signal.ts';
import { resemblance, textMark, textSketch } from './text-sketch.ts';

const amount = z.number().nonnegative();

/** One thing an agent did: a call with its result, or a message. */
export const stepSchema = z.object({
  /** The event it began with. */
  index: count,
  /** Its number among the agent's steps of its kind: what is said between two calls does not part them. */
  ordinal: count,
  /** How many steps of its kind ago one with an equal input was made; 0 for none. */
  twinDistance: count,
  kind: z.enum(['call', 'message']),
  agent: z.string(),
  name: z.string(),
  /** What it was done for: steps of different jobs do not repeat each other. */
  job: z.string(),
  callId: z.string().optional(),
  input: textSketch,
  /** What fraction of the input had never been seen in this run. */
  inputNovelty: amount,
  /** Whether the call names something (a file, a line, a key) that no call of this tool named before. */
  hasNewTarget: z.boolean(),
  /** Whether the input is one question or request in plain words, hardly any of which is new to the run. */
  isPlainQuestion: z.boolean(),
  result: textMark.optional(),
  /** What fraction of the result had never been seen in this run, the agent's own words included. */
  resultNovelty: amount.optional(),
  isError: z.boolean(),
  /** The event that answered it. */
  answeredAt: count.optional(),
  /** When it was made, if events say so. */
  atMs: z.number().optional(),
  /** How much had been written by then. */
  writtenBefore: amount,
  /** How much it wrote itself, 0 to 1: a call that says something new at length (an edit, a program), unlike earlier ones. */
  written: amount,
});
export type Step = Readonly<z.infer<typeof stepSchema>>;

/** A step that has just been made or answered, beside the earlier step it resembles most. */
export type StepReading = {
  readonly step: Step;
  /** Whether this is its last reading: its result is known, or none is to be expected. */
  readonly isComplete: boolean;
  readonly twin: Step | undefined;
  /** Whether the twin's result was known when this step was made; calls made at once do not repeat each other. */
  readonly isTwinAnswered: boolean;
  /** How alike the two inputs are, 0 to 1; 0 without a twin. */
  readonly similarity: number;
  readonly hasEqualInput: boolean;
  /** Steps of its kind since the twin, 1 for the one before. */
  readonly distance: number;
  /** Whether it and the step before it equal the twin and the step before that: the same row of steps is made again. */
  readonly isInCycle: boolean;
  /** How many calls' worth of new things were written between the twin and this step. */
  readonly writtenSince: number;
  /** Whether an equal call was made a while ago: whoever lets time pass waits for something. */
  readonly hasWaited: boolean;
  /** Words that nobody in this run had used before the result did. */
  readonly foundWords: number;
};

/** A model that goes round in circles does not let so much time pass before the same call. */
const WAIT_MS = 30_000;
/** New words that make a call a piece of work. */
const WRITTEN_WORDS = 20;

/** Whether two steps can repeat each other: only what was done in one way is a repetition. */
function isComparable(earlier: Step, step: Step): boolean {
  const isSameWay = earlier.kind === step.kind && earlier.name === step.name && earlier.job === step.job;
  return isSameWay && earlier.index < step.index;
}

/** How alike two inputs are. Below 1 unless their words are equal in their order: a sketch cannot say more than "very alike". */
function compareInputs(earlier: Step, step: Step): number {
  return earlier.input.hash === step.input.hash
    ? 1
    : Math.min(0.99, resemblance(earlier.input.words, step.input.words));
}

/** How much a call writes that is new and unlike what was written before. */
function writtenIn({ step, similarity }: Pick<StepReading, 'step' | 'similarity'>): number {
  return Math.min(1, (step.inputNovelty * step.input.wordCount) / WRITTEN_WORDS) * (1 - similarity);
}

/** The plain data of what is remembered of one agent. */
export const agentMemoryState = z.object({
  steps: z.array(stepSchema),
  messages: count,
  calls: count,
  /** Calls of earlier rounds: those of this one may still be answered. */
  settledCalls: count,
  answers: count,
  written: amount,
  isAnswered: z.boolean(),
});
type AgentMemoryState = z.infer<typeof agentMemoryState>;

/** What a step is before it is known how it compares. */
export type BareStep = Omit<Step, 'ordinal' | 'twinDistance' | 'writtenBefore' | 'written'>;

/** Earlier steps that a new one is compared with: far enough for a cycle of five calls to come round three times. */
const MAX_STEPS = 16;

/** Traces without results have none or a few; with results, nearly one for each call. */
const MIN_ANSWERED_SHARE = 0.5;

const NOTHING_DONE: AgentMemoryState = Object.freeze({
  steps: [],
  messages: 0,
  calls: 0,
  settledCalls: 0,
  answers: 0,
  written: 0,
  isAnswered: false,
});

/** How a step compares that resembles nothing. */
const UNLIKE_ANY = Object.freeze({
  twin: undefined,
  isTwinAnswered: false,
  similarity: 0,
  hasEqualInput: false,
  distance: 0,
  isInCycle: false,
  writtenSince: 0,
  hasWaited: false,
  foundWords: 0,
});

/** The last steps of one agent, and how much it has written. */
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
      ordinal: bare.kind === 'call' ? this.#state.calls : this.#state.messages,
      writtenBefore: this.#state.written,
      written: 0,
      twinDistance: 0,
    };
    const reading = this.#compare(begun);
    if (bare.kind === 'call') this.#state.calls++;
    else this.#state.messages++;
    const twinDistance = reading.hasEqualInput ? reading.distance : 0;
    const step = { ...begun, twinDistance, written: bare.kind === 'call' ? writtenIn(reading) : 0 };
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
    this.#state.answers++;
    this.#state.isAnswered = true;
    return { ...this.#compare(step), isComplete: true };
  }

  snapshot(): AgentMemoryState {
    return { ...this.#state, steps: [...this.#state.steps] };
  }

  #compare(step: Step): StepReading {
    const { twin, similarity } = this.#findTwin(step);
    if (twin === undefined) return { ...UNLIKE_ANY, step, isComplete: step.kind === 'message' };
    const distance = step.ordinal - twin.ordinal;
    const hasEqualInput = twin.input.hash === step.input.hash;
    return {
      step,
      isComplete: step.kind === 'message' || !this.#isAwaited(twin),
      twin,
      isTwinAnswered: (twin.answeredAt ?? Infinity) < step.index,
      similarity,
      hasEqualInput,
      distance,
      isInCycle: hasEqualInput && distance > 1 && this.#before(step)?.twinDistance === distance,
      writtenSince: step.writtenBefore - twin.writtenBefore - twin.written,
      hasWaited: hasEqualInput && (step.atMs ?? 0) - (twin.atMs ?? Infinity) >= WAIT_MS,
      foundWords: 0,
    };
  }

  /** Whether a result is to be expected: the last time there was one, or most calls of earlier rounds were answered. */
  #isAwaited(twin: Step): boolean {
    if (twin.result !== undefined) return true;
    return this.#state.settledCalls > 0 && this.#state.answers >= MIN_ANSWERED_SHARE * this.#state.settledCalls;
  }

  #before({ kind, ordinal }: Step): Step | undefined {
    return this.#state.steps.findLast((step) => step.kind === kind && step.ordinal === ordinal - 1);
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
