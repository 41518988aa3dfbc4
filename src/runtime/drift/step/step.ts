import { z } from 'zod';
import { count } from './signal.ts';
import { resemblance, type TextMark, textMark, textSketch } from './text-sketch.ts';

const amount = z.number().nonnegative();

/** One thing an agent did: a call with its result, or a message. */
export const stepSchema = z.object({
  /** The event it began with. */
  index: count,
  kind: z.enum(['call', 'message']),
  agent: z.string(),
  name: z.string(),
  /** What it was done for: steps of different jobs do not repeat each other. */
  job: z.string(),
  callId: z.string().optional(),
  /** Whether it lets time pass. */
  isWait: z.boolean(),
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
  /** How many new things the agent had done by then. */
  newsBefore: count,
  /** Whether it was one of them: a call unlike the earlier ones, or one whose result has changed. */
  isNews: z.boolean(),
  /** How often an equal call was made again after something new: so are checks. */
  checks: count,
  /** How often in a row the equal call found something: so does whoever takes the next of a queue, or turns the pages of a list. */
  finds: count.default(0),
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
  /** The event of the agent's last call, if this one is just that over again, word for word. */
  readonly repeats: number | undefined;
  /** How many new things were done between the twin and this step. */
  readonly newsSince: number;
  /** Whether it is a wait, or an equal call was made a while ago: whoever lets time pass waits for something. */
  readonly hasWaited: boolean;
  /** Words that nobody in this run had used before the result did. */
  readonly foundWords: number;
  /** What part of a message's words neither a task nor a plan has used. */
  readonly unplanned: number;
};

/** A model that goes round in circles does not let so much time pass before the same call. */
const WAIT_MS = 30_000;
/** From here on two inputs are one in other words. */
export const FULL_SIMILARITY = 0.8;
/** A result of which this part is new is news. */
const NEWS_NOVELTY = 0.5;

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

/** Whether only the numbers of two texts differ: a result is read off again later, as a gauge is. */
export function differInNumbers(text: TextMark | undefined, other: TextMark | undefined): boolean {
  return text !== undefined && text.frame === other?.frame && text.hash !== other.hash;
}

/** Whether a call is unlike the earlier ones of its tool. */
function isUnlike({ step, twin, hasEqualInput, similarity }: StepReading): boolean {
  if (hasEqualInput) return false;
  return similarity < FULL_SIMILARITY || hasOtherTarget({ step, twin });
}

/** In a short input every word matters: the same with another number is done to another thing. */
export const SHORT_WORDS = 12;

/** Whether a call is made for something else than before: it names something new, or another number. */
export function hasOtherTarget({ step, twin }: Pick<StepReading, 'step' | 'twin'>): boolean {
  const { input, hasNewTarget } = step;
  return hasNewTarget || (input.wordCount <= SHORT_WORDS && differInNumbers(input, twin?.input));
}

/** Whether the result of a call is new, or has changed since it was last made. */
function hasNews({ step, twin }: StepReading): boolean {
  return (step.resultNovelty ?? 0) >= NEWS_NOVELTY || differInNumbers(step.result, twin?.result);
}

/** A page whose heading and footer are known is still another page. */
const FIND_NOVELTY = 0.15;

/** How often in a row, with this result, the equal call returned something else than ever before. */
function findsOf({ step, twin, hasEqualInput }: StepReading): number {
  const hasFound = hasEqualInput && !step.isError && (step.resultNovelty ?? 0) >= FIND_NOVELTY;
  return hasFound ? (twin?.finds ?? 0) + 1 : 0;
}

/** The plain data of what is remembered of one agent. */
export const stepMemoryState = z.object({
  steps: z.array(stepSchema),
  calls: count,
  /** Calls of earlier rounds: those of this one may still be answered. */
  settledCalls: count,
  answers: count,
  news: count,
  isAnswered: z.boolean(),
});
type StepMemoryState = z.infer<typeof stepMemoryState>;

/** What a step is before it is known how it compares. */
export type BareStep = Omit<Step, 'newsBefore' | 'isNews' | 'checks' | 'finds'>;

/** Earlier steps that a new one is compared with: far enough for a cycle of five calls to come round three times. */
const MAX_STEPS = 16;

/** Traces without results have none or a few; with results, nearly one for each call. */
const MIN_ANSWERED_SHARE = 0.5;

const NOTHING_DONE: StepMemoryState = Object.freeze({
  steps: [],
  calls: 0,
  settledCalls: 0,
  answers: 0,
  news: 0,
  isAnswered: false,
});

/** How a step compares that resembles nothing. */
const UNLIKE_ANY = Object.freeze({
  twin: undefined,
  isTwinAnswered: false,
  similarity: 0,
  hasEqualInput: false,
  repeats: undefined,
  newsSince: 0,
  hasWaited: false,
  foundWords: 0,
  unplanned: 0,
});

/** The last steps of one agent, and how many new things it has done. */
export class StepMemory {
  readonly #state: StepMemoryState;

  constructor(state: StepMemoryState = NOTHING_DONE) {
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
      newsBefore: this.#state.news,
      isNews: false,
      checks: 0,
      finds: 0,
    };
    const reading = this.#compare(begun);
    const isCall = bare.kind === 'call';
    const repeats = isCall ? this.#lastCallAgain(reading) : undefined;
    if (isCall) this.#state.calls++;
    const checks = (reading.twin?.checks ?? 0) + (reading.newsSince > 0 ? 1 : 0);
    const step = { ...begun, checks, isNews: isCall && (bare.isWait || isUnlike(reading)) };
    if (step.isNews) this.#state.news++;
    this.#state.steps.push(step);
    if (this.#state.steps.length > MAX_STEPS) this.#state.steps.shift();
    return { ...reading, step, repeats };
  }

  /** Adds the result of a call, and says how the whole compares. */
  complete(call: Step, outcome: Pick<Step, 'result' | 'resultNovelty' | 'isError' | 'answeredAt'>): StepReading {
    const answered = { ...call, ...outcome };
    const reading = this.#compare(answered);
    const finds = findsOf(reading);
    const step = { ...answered, finds, isNews: call.isNews || finds > 1 || hasNews(reading) };
    if (step.isNews && !call.isNews) this.#state.news++;
    const at = this.#state.steps.findIndex(({ index }) => index === call.index);
    if (at >= 0) this.#state.steps[at] = step;
    this.#state.answers++;
    this.#state.isAnswered = true;
    return { ...reading, step, isComplete: true };
  }

  snapshot(): StepMemoryState {
    return { ...this.#state, steps: [...this.#state.steps] };
  }

  #compare(step: Step): StepReading {
    const { twin, similarity } = this.#findTwin(step);
    if (twin === undefined) return { ...UNLIKE_ANY, step, isComplete: step.kind === 'message' };
    const hasEqualInput = twin.input.hash === step.input.hash;
    return {
      step,
      isComplete: step.kind === 'message' || !this.#isAwaited(twin),
      twin,
      isTwinAnswered: (twin.answeredAt ?? Infinity) < step.index,
      similarity,
      hasEqualInput,
      repeats: undefined,
      newsSince: Math.max(0, step.newsBefore - twin.newsBefore - (twin.isNews ? 1 : 0)),
      hasWaited: step.isWait || (hasEqualInput && (step.atMs ?? 0) - (twin.atMs ?? Infinity) >= WAIT_MS),
      foundWords: 0,
      unplanned: 0,
    };
  }

  #lastCallAgain({ hasEqualInput, twin }: StepReading): number | undefined {
    const isLast = hasEqualInput && twin === this.#state.steps.findLast(({ kind }) => kind === 'call');
    return isLast ? twin?.index : undefined;
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
