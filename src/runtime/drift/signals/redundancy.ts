import type { StepReading } from '../step/step.ts';

/** What one full repetition is worth: about 9 to 1, so that three of them pass the odds of 100 to 1. */
export const REPEAT_NATS = 2.2;
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
export function redundancyOf(reading: StepReading): number {
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
