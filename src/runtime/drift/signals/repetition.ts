import { z } from 'zod';
import { boundedJson, shortDigest, sortFields } from '../step/bounded.ts';
import type { ReadEvent } from '../step/drift-event.ts';
import { count, mapOf, remember, type SignalType, signal, text } from '../step/signal.ts';
import type { Step, StepReading } from '../step/step.ts';

/** What one full repetition is worth: about 9 to 1, so that three of them pass the odds of 100 to 1. */
const REPEAT_NATS = 2.2;
/** Less alike than this, two inputs are two different inputs. */
const MIN_SIMILARITY = 0.4;
/** A result of which this part is new is worth its call. */
const FRESH_RESULT = 0.9;
/** Rewording a question whose answer was new is still asking it again. */
const REWORDED_FLOOR = 0.6;
/** The same done to something else is work on a list. */
const NEW_TARGET_FACTOR = 0.3;
/** Shorter results ("ok", "done") only say that there was a call. */
const MIN_RESULT_WORDS = 3;
/** A call whose result is not seen may have brought something. */
const UNSEEN_RESULT = 0.6;
/** Failing again is worse than learning nothing. */
const ERROR_FACTOR = 1.3;
/** A repetition means less the more was done in between. */
const DECAY_PER_STEP = 0.9;
/** So few words ("npm test", "git status", "next") are said over and over by agents that get on: what matters is what lies between. */
const ROUTINE_WORDS = 5;
const ROUTINE_DECAY_PER_RESULT = 0.5;
const ROUTINE_DECAY_PER_WRITING = 0.2;

/**
 * How much a completed call repeats an earlier one without bringing anything new: 0 not at all, 1 fully, more if it fails again;
 * the less, the longer ago that was.
 */
function redundancyOf(reading: StepReading): number {
  return repeatOf(reading) * DECAY_PER_STEP ** Math.max(0, reading.distance - 1);
}

/** The same, however long ago it was. */
export function repeatOf(reading: StepReading): number {
  if (!reading.isComplete || reading.step.kind !== 'call' || reading.twin === undefined) return 0;
  if (reading.step.result !== undefined && !reading.isTwinAnswered) return 0;
  return alikeness(reading) * barrenness(reading) * routineFactor(reading);
}

function routineFactor({ step, learntSince, writtenSince }: StepReading): number {
  if (step.input.wordCount > ROUTINE_WORDS) return 1;
  const learnt = ROUTINE_DECAY_PER_RESULT ** Math.max(0, learntSince);
  return learnt * ROUTINE_DECAY_PER_WRITING ** Math.max(0, writtenSince);
}

function alikeness({ step, hasEqualInput, similarity, addedWords }: StepReading): number {
  if (hasEqualInput) return 1;
  const alike = Math.max(0, (similarity - MIN_SIMILARITY) / (1 - MIN_SIMILARITY)) * (1 - addedWords);
  return step.hasNewTarget ? alike * NEW_TARGET_FACTOR : alike;
}

function barrenness({ step, hasEqualInput }: StepReading): number {
  if (step.isError) return ERROR_FACTOR;
  if (step.result === undefined || step.resultNovelty === undefined) return UNSEEN_RESULT;
  if (step.result.wordCount < MIN_RESULT_WORDS && step.resultNovelty === 0) return UNSEEN_RESULT;
  // The very same call with a new result is polling: it waits for something, and it comes.
  return Math.max(hasEqualInput ? 0 : REWORDED_FLOOR, 1 - step.resultNovelty / FRESH_RESULT);
}

type Repeated = StepReading & { readonly twin: Step };

/** Speaks when an agent makes the very same call again and learns nothing new by it. */
export const repetition = repeat((reading) => (reading.hasEqualInput ? describeSame(reading) : undefined));

/** Speaks when an agent makes nearly the same call again, in other words or another order, and learns little by it. */
export const nearDuplicate = repeat(({ step, similarity, hasEqualInput }) => {
  if (hasEqualInput) return undefined;
  const outcome = step.isError ? 'fails' : 'adds little to it';
  return `The call of "${step.name}" is ${Math.round(similarity * 100)} % the same as an earlier one and ${outcome}.`;
});

function repeat(describe: (reading: Repeated) => string | undefined): SignalType {
  return signal({
    kind: 'loop',
    observe({ reading }) {
      if (reading?.twin === undefined) return undefined;
      const { step, twin } = reading;
      const nats = REPEAT_NATS * redundancyOf(reading);
      const reason = nats <= 0 ? undefined : describe({ ...reading, twin });
      return reason === undefined ? undefined : { agent: step.agent, nats, steps: [twin.index, step.index], reason };
    },
  });
}

function describeSame({ step, twin }: Repeated): string {
  const call = `The call of "${step.name}" is the same as before`;
  if (step.isError) return `${call} and fails${twin.isError ? ' again' : ''}.`;
  if (step.resultNovelty === undefined) return `${call}.`;
  return `${call}, and ${Math.round((1 - step.resultNovelty) * 100)} % of its result was already known.`;
}

/** Twice within a few steps passes the odds of 100 to 1: once may be a better wording. */
const RE_ASKING_NATS = 3;
const MIN_QUESTION_SIMILARITY = 0.65;

/**
 * Speaks when an agent asks a tool the same question again in other words, hardly any of them new, although it was answered:
 * it does not use its answers. A question with a new word in it is another question, and a retry after an error is none.
 */
export const reAsking = signal({
  kind: 'loop',
  observe({ reading }) {
    if (reading?.twin === undefined || !isReAsking(reading)) return undefined;
    const { step, twin, distance } = reading;
    const nats = RE_ASKING_NATS * DECAY_PER_STEP ** Math.max(0, distance - 1);
    const reason = `${step.agent} asks "${step.name}" again what it has asked and been answered, in other words.`;
    return { agent: step.agent, nats, steps: [twin.index, step.index], reason };
  },
});

/** Whether a completed call asks again, in other words, what was asked and answered. */
export function isReAsking(reading: StepReading): boolean {
  const { step, twin, similarity } = reading;
  if (twin === undefined || !reading.isComplete || !step.isPlainQuestion) return false;
  if (reading.hasEqualInput || similarity < MIN_QUESTION_SIMILARITY) return false;
  return reading.isTwinAnswered && !twin.isError;
}

/** What a step that repeats nothing takes back. */
const PROGRESS_NATS = 0.33;
const MAX_PROGRESS_SIMILARITY = 0.6;

/** Speaks against a loop: a completed step that repeats nothing. */
export const progress = signal({
  kind: 'loop',
  observe({ reading }) {
    if (reading === undefined || !reading.isComplete || reading.step.name === 'plan') return undefined;
    // Saying it again is no progress, even where it is no loop.
    if (reading.step.kind === 'message' && reading.similarity >= MAX_PROGRESS_SIMILARITY) return undefined;
    const redundancy = Math.min(1, redundancyOf(reading));
    if (redundancy === 1) return undefined;
    const { step } = reading;
    const reason = 'The step is not a repetition.';
    return { agent: step.agent, nats: -PROGRESS_NATS * (1 - redundancy), steps: [step.index], reason };
  },
});

/** Once round three times, a cycle is no accident. */
const ROUNDS = 3;
const MAX_PERIOD = 6;
/** On top of what each repeated call says by itself. */
const CYCLE_NATS = 1.5;

const marked = z.object({ index: count, agent: text, mark: text });

/** Speaks when the last calls go round in a cycle of two to six: A, B, A, B, A, B. */
export const alternation = signal({
  kind: 'loop',
  memory: { form: z.object({ calls: z.array(marked) }), begin: () => ({ calls: [] }) },
  observe({ reading }, { calls }) {
    if (reading === undefined || !reading.isComplete || reading.step.kind !== 'call') return undefined;
    const { step } = reading;
    calls.push({ index: step.index, agent: step.agent, mark: markOf(step) });
    if (calls.length > ROUNDS * MAX_PERIOD) calls.shift();
    const period = periodOf(calls);
    if (period === undefined) return undefined;
    const round = calls.slice(-ROUNDS * period);
    const reason = `The last ${round.length} calls are the same ${period}, ${ROUNDS} times over.`;
    return { agent: step.agent, nats: CYCLE_NATS, steps: round.map(({ index }) => index), reason };
  },
});

/** Calls with different results are not the same: the cycle may be a watch on something that moves. */
function markOf(step: Step): string {
  return `${step.agent} ${step.name} ${step.input.hash} ${step.result?.hash ?? ''}`;
}

function periodOf(calls: readonly z.infer<typeof marked>[]): number | undefined {
  for (let period = 2; period <= MAX_PERIOD; period++) {
    const from = calls.length - ROUNDS * period;
    if (from < 0) return undefined;
    const round = calls.slice(from);
    const isCycle = round.every(({ mark }, at) => at < period || mark === round[at - period]?.mark);
    // The same call throughout is a repetition, not an alternation.
    if (isCycle && new Set(round.map(({ mark }) => mark)).size > 1) return period;
  }
  return undefined;
}

/** Two of them pass the odds of 100 to 1: once may be a retry, twice is a loop. */
const RECURRENCE_NATS = 2.5;
/** Visits that are remembered; a loop may be this many steps long. */
const MAX_VISITS = 512;

/**
 * Speaks when an agent does the same thing in the same state again. Nothing it did in between has changed anything, however
 * different its words were: an exact witness of a loop, for events that carry the digest of a checkpoint.
 */
export const stateRecurrence = signal({
  kind: 'loop',
  memory: { form: z.object({ visits: mapOf(count) }), begin: () => ({ visits: new Map() }) },
  observe({ event }, { visits }) {
    const key = keyOf(event);
    if (key === undefined) return undefined;
    const before = visits.get(key);
    remember(visits, [key, event.index], MAX_VISITS);
    if (before === undefined) return undefined;
    const reason = `The state is exactly what it was at event ${before}, and so is what ${event.agent} does in it: nothing in between changed anything.`;
    return { agent: event.agent, nats: RECURRENCE_NATS, steps: [before, event.index], reason };
  },
});

/** Only calls act: an agent that talks, or waits through cycles in which nothing comes, may stay as it is. */
function keyOf({ kind, agent, name, input, stateDigest }: ReadEvent): string | undefined {
  if (stateDigest === undefined || kind !== 'call') return undefined;
  const written = input === undefined ? 'undefined' : boundedJson(input, sortFields);
  // What JSON cannot hold is no witness.
  return written === undefined ? undefined : shortDigest(JSON.stringify([agent, stateDigest, name, written]));
}
