import { insistenceOf, repeatedShare } from './insistence.ts';
import { redundancyOf } from './signals/redundancy.ts';
import type { StepReading } from './step.ts';

/** What a run looks like as a whole, so far; each field a mean over its steps unless said otherwise. */
export type RunFeatures = {
  /** How much its calls and messages repeat without bringing anything new. */
  readonly redundancy: number;
  /** How much of it does again what was just done, or asks again what was answered: the one to rank runs by. */
  readonly insistence: number;
  /** The share of calls that are the very same as an earlier one. */
  readonly equalCalls: number;
  readonly errors: number;
  /** How much of the results is new. */
  readonly resultNovelty: number;
  /** How much of the messages is new. */
  readonly messageNovelty: number;
  readonly messageSimilarity: number;
  /** The logarithm of the number of steps. */
  readonly length: number;
};

/** The sums that features are made of: plain data. */
export type RunSums = {
  readonly steps: number;
  readonly calls: number;
  readonly results: number;
  readonly messages: number;
  readonly redundancy: number;
  readonly insistence: number;
  readonly equalCalls: number;
  readonly errors: number;
  readonly resultNovelty: number;
  readonly messageNovelty: number;
  readonly messageSimilarity: number;
};

/** A run of which nothing is known yet. */
export const EMPTY_SUMS: RunSums = Object.freeze({
  steps: 0,
  calls: 0,
  results: 0,
  messages: 0,
  redundancy: 0,
  insistence: 0,
  equalCalls: 0,
  errors: 0,
  resultNovelty: 0,
  messageNovelty: 0,
  messageSimilarity: 0,
});

/** The sums of a snapshot; one of an older release lacks some. */
export function completeSums(sums: Partial<RunSums>): RunSums {
  const known = Object.entries(sums).filter(([, sum]) => sum !== undefined);
  return { ...EMPTY_SUMS, ...Object.fromEntries(known) };
}

/** The sums with one more step in them. */
export function addStep(sums: RunSums, reading: StepReading): RunSums {
  const { step } = reading;
  if (!reading.isComplete || step.name === 'plan') return sums;
  const isCall = step.kind === 'call';
  return {
    steps: sums.steps + 1,
    calls: sums.calls + Number(isCall),
    results: sums.results + Number(step.resultNovelty !== undefined),
    messages: sums.messages + Number(!isCall),
    redundancy: sums.redundancy + (isCall ? redundancyOf(reading) : repeatedShare(reading)),
    insistence: sums.insistence + insistenceOf(reading),
    equalCalls: sums.equalCalls + Number(isCall && reading.hasEqualInput),
    errors: sums.errors + Number(step.isError),
    resultNovelty: sums.resultNovelty + (step.resultNovelty ?? 0),
    messageNovelty: sums.messageNovelty + (isCall ? 0 : step.inputNovelty),
    messageSimilarity: sums.messageSimilarity + (isCall ? 0 : reading.similarity),
  };
}

/** The features of a run, from its sums. */
export function featuresOf(sums: RunSums): RunFeatures {
  return {
    redundancy: ratio(sums.redundancy, sums.steps, 0),
    insistence: ratio(sums.insistence, sums.steps, 0),
    equalCalls: ratio(sums.equalCalls, sums.calls, 0),
    errors: ratio(sums.errors, sums.steps, 0),
    resultNovelty: ratio(sums.resultNovelty, sums.results, 1),
    messageNovelty: ratio(sums.messageNovelty, sums.messages, 1),
    messageSimilarity: ratio(sums.messageSimilarity, sums.messages, 0),
    length: Math.log1p(sums.steps),
  };
}

const ratio = (sum: number, count: number, otherwise: number) => (count === 0 ? otherwise : sum / count);
