import { z } from 'zod';
import { keepRecent } from '../../../core/keep-recent.ts';
import { boundedJson, shortDigest, sortFields } from '../step/bounded.ts';
import type { ReadEvent } from '../step/drift-event.ts';
import { count, mapOf, signal } from '../step/signal.ts';
import { differInNumbers, FULL_SIMILARITY, hasOtherTarget, type Step, type StepReading } from '../step/step.ts';

/** What one full repetition is worth: about 9 to 1, so that three of them pass the odds of 100 to 1. */
const REPEAT_NATS = 2.2;
/** Less alike than this, two inputs are two different inputs. */
const MIN_SIMILARITY = 0.3;
/** Another call always returns something else: what counts is how many words nobody had used before. */
const FRESH_WORDS = 20;
/** A call whose result is not seen may have brought something. */
const UNSEEN_RESULT = 0.6;
/** Shorter results ("ok", "done") only say that there was a call. */
const MIN_RESULT_WORDS = 3;
/** What such a result witnesses, or a failure of which only numbers change ("retry after 4 s"). */
const SHORT_RESULT = 0.35;
/** Failing again is worse than learning nothing. */
const ERROR_FACTOR = 1.3;
/** What was done in between makes it worth doing again, and the more often that was so, the likelier it is a check: a test is run after each edit. */
const KEPT_PER_CHECK = 0.4;
/** Once may be chance; what finds something each time is worth doing again. */
const KEPT_PER_FIND = 0.4;

/** How much a completed call repeats an earlier one without bringing anything new: 0 not at all, 1 fully, more if it fails again. */
function redundancyOf(reading: StepReading): number {
  if (!reading.isComplete || reading.step.kind !== 'call' || isExcused(reading)) return 0;
  if (isAskedAgain(reading)) return ASKED_AGAIN;
  return alikeness(reading) * barrenness(reading) * KEPT_PER_CHECK ** checksOf(reading);
}

/** How often it was made again after something new. What fails in the same way whatever is done is no check. */
function checksOf({ step, twin, newsSince }: StepReading): number {
  const isSameFailure = step.isError && step.result?.hash === twin?.result?.hash;
  return newsSince === 0 ? 0 : isSameFailure ? 1 : step.checks;
}

/** Calls made at once do not repeat each other, nor do those after a wait. */
function isExcused({ step, twin, isTwinAnswered, hasWaited }: StepReading): boolean {
  return twin === undefined || hasWaited || (step.result !== undefined && !isTwinAnswered);
}

/** Whether a call that failed was made again with success: it was worth it, and so was failing before. */
function isMended({ step, twin, hasEqualInput, isComplete }: StepReading): boolean {
  return isComplete && hasEqualInput && twin?.isError === true && !step.isError;
}

/** Whoever asks again in other words was not content with the answer: two such pass the odds of 100 to 1. */
const ASKED_AGAIN = 1.36;
/** Half of the words are the same. */
const MIN_QUESTION_SIMILARITY = 0.5;

/** Whether a call asks, in other words, what was asked and answered: a question in plain words, hardly any of them new. */
function isAskedAgain({ step, twin, isTwinAnswered, hasEqualInput, similarity }: StepReading): boolean {
  if (!step.isPlainQuestion || hasEqualInput || similarity < MIN_QUESTION_SIMILARITY) return false;
  return isTwinAnswered && twin?.isError === false && (twin.result?.wordCount ?? 0) >= MIN_RESULT_WORDS;
}

function alikeness(reading: StepReading): number {
  const { hasEqualInput, similarity } = reading;
  if (hasEqualInput) return 1;
  // The same done to something else is work on a list.
  if (hasOtherTarget(reading)) return 0;
  return Math.max(0, Math.min(1, (similarity - MIN_SIMILARITY) / (FULL_SIMILARITY - MIN_SIMILARITY)));
}

function barrenness(reading: StepReading): number {
  const { step, hasEqualInput, foundWords } = reading;
  const isGauge = isReadAgain(reading);
  if (step.isError) return ERROR_FACTOR * (isGauge ? SHORT_RESULT : 1);
  if (step.result === undefined || step.resultNovelty === undefined) return UNSEEN_RESULT;
  if (step.result.wordCount < MIN_RESULT_WORDS && step.resultNovelty === 0) return SHORT_RESULT;
  if (hasEqualInput) return isGauge ? 0 : (1 - step.resultNovelty) * KEPT_PER_FIND ** Math.max(0, step.finds - 1);
  return Math.max(0, 1 - foundWords / FRESH_WORDS);
}

/** Whether the very same call returns another number: it waits for something, and it comes. */
const isReadAgain = ({ step, twin, hasEqualInput }: StepReading): boolean =>
  hasEqualInput && differInNumbers(step.result, twin?.result);

/** What a step that repeats nothing takes back. */
const PROGRESS_NATS = 0.33;
/** Saying it again is no progress, even where it is no loop. */
const MAX_PROGRESS_SIMILARITY = 0.6;

/** Speaks when an agent makes the same call again, or nearly the same, and learns nothing new by it; a step that repeats nothing speaks against a loop. */
export const repetition = signal({
  kind: 'loop',
  observe({ reading }) {
    if (reading === undefined || !reading.isComplete || reading.step.name === 'plan') return undefined;
    const { step, twin } = reading;
    const weight = isMended(reading) ? -ERROR_FACTOR : redundancyOf(reading);
    const isSaidAgain = step.kind === 'message' && reading.similarity >= MAX_PROGRESS_SIMILARITY;
    const nats = REPEAT_NATS * weight - (isSaidAgain ? 0 : PROGRESS_NATS * Math.max(0, 1 - Math.max(0, weight)));
    if (twin === undefined || nats <= 0)
      return { agent: step.agent, nats, steps: [step.index], reason: 'The step is not a repetition.' };
    return { agent: step.agent, nats, steps: [twin.index, step.index], reason: describeRepeat(reading, twin) };
  },
});

function describeRepeat({ step, hasEqualInput, similarity }: StepReading, twin: Step): string {
  const alike = hasEqualInput ? 'the same as' : `${Math.round(similarity * 100)} % the same as`;
  const call = `The call of "${step.name}" is ${alike} before`;
  if (step.isError) return `${call} and fails${twin.isError ? ' again' : ''}.`;
  if (step.resultNovelty === undefined) return `${call}.`;
  return `${call}, and ${Math.round((1 - step.resultNovelty) * 100)} % of its result was already known.`;
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
  observe({ event, reading }, { visits }) {
    // Whoever lets time pass looks again for what time has changed.
    if (reading?.step.isWait) visits.clear();
    const key = reading?.step.isWait ? undefined : keyOf(event);
    if (key === undefined) return undefined;
    const before = visits.get(key);
    keepRecent(visits, [key, event.index], MAX_VISITS);
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
