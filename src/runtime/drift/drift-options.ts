import { InvalidInputError } from '../../core/errors.ts';
import { boundName } from './bounded-text.ts';
import type { DriftJudge } from './judge.ts';
import { type DriftModel, isDriftModel } from './learned-model.ts';

/** The names of the signals, as evidence carries them. */
export const SIGNAL_NAMES = [
  'repetition',
  'near-duplicate',
  're-asking',
  'progress',
  'alternation',
  'state-recurrence',
  'monologue',
  'chant',
  'stall',
  'idle-steps',
  'cycle-count',
  'error-rate',
  'cycle-time',
  'context-growth',
  'unfounded-answer',
  'goal-adherence',
] as const;

/** One of the built-in signals. */
export type SignalName = (typeof SIGNAL_NAMES)[number];

/** How a detector judges; every field has a default. */
export type DriftOptions = {
  /** Evidence from which on an agent drifts, as the logarithm of the odds: ln 100. */
  readonly alarmNats?: number;
  /** Evidence from which on it is suspected; between the two a judge is asked. */
  readonly suspectNats?: number;
  /** Signals to leave out. */
  readonly without?: readonly SignalName[];
  /** Tools that are there to be called again and again (a mailbox, a queue, a clock): calling them is no loop and no stall. */
  readonly pollingTools?: readonly string[];
  /** The goal in words, if no event states it. */
  readonly goal?: string;
  /** Calls in a row that may bring nothing new. */
  readonly maxIdleSteps?: number;
  /** Cycles the task is expected to take; without it their number is no evidence. */
  readonly expectedCycles?: number;
  readonly contextLimitTokens?: number;
  /** New words that tools must have returned before an answer is believed. */
  readonly minFoundWords?: number;
  /** Weights that turn the evidence of all signals into one probability. */
  readonly model?: DriftModel;
  /** Asked, by `assess` alone, when the evidence is in doubt. */
  readonly judge?: DriftJudge;
  /** The fewest events between two questions to the judge. */
  readonly judgeIntervalEvents?: number;
  /** How many of the last events the judge sees. */
  readonly judgeWindowEvents?: number;
  /** A judge that has not answered by then has failed. */
  readonly judgeTimeoutMs?: number;
};

/** Options with every default filled in. */
export type ReadDriftOptions = Required<Omit<DriftOptions, 'goal' | 'model' | 'judge' | 'expectedCycles'>> &
  Pick<DriftOptions, 'goal' | 'model' | 'judge' | 'expectedCycles'>;

/** What holds where nothing else is said. */
export const DEFAULT_DRIFT_OPTIONS = Object.freeze({
  alarmNats: 4.6,
  suspectNats: 2.3,
  without: Object.freeze([]),
  pollingTools: Object.freeze([]),
  maxIdleSteps: 12,
  contextLimitTokens: 200_000,
  minFoundWords: 40,
  judgeIntervalEvents: 10,
  judgeWindowEvents: 20,
  judgeTimeoutMs: 30_000,
}) satisfies DriftOptions;

const NUMBER_FIELDS = ['alarmNats', 'suspectNats', 'contextLimitTokens', 'judgeTimeoutMs'] as const;
const COUNT_FIELDS = [
  'maxIdleSteps',
  'expectedCycles',
  'minFoundWords',
  'judgeIntervalEvents',
  'judgeWindowEvents',
] as const;
/** Timers of more milliseconds go off at once. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

const KNOWN_FIELDS: ReadonlySet<string> = new Set([
  ...NUMBER_FIELDS,
  ...COUNT_FIELDS,
  'without',
  'pollingTools',
  'goal',
  'model',
  'judge',
]);

/** Fills in defaults; an unknown or senseless option is an `InvalidInputError`. */
export function readDriftOptions(options: unknown): ReadDriftOptions {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new InvalidInputError(`The drift options must be an object; they were ${describe(options)}.`);
  }
  for (const field of Object.keys(options)) {
    if (!KNOWN_FIELDS.has(field)) throw invalid(field, 'is not an option of the drift detector', undefined);
  }
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const read: ReadDriftOptions = { ...DEFAULT_DRIFT_OPTIONS, ...given };
  checkNumbers(read);
  checkNames(read.without);
  checkParts(read);
  return { ...read, without: [...read.without], pollingTools: read.pollingTools.map(boundName) };
}

function checkNumbers(read: ReadDriftOptions): void {
  for (const field of NUMBER_FIELDS) {
    if (!isPositive(read[field])) throw invalid(field, 'must be a number above zero', read[field]);
  }
  for (const field of COUNT_FIELDS) {
    const value = read[field];
    if (value === undefined || (isPositive(value) && Number.isSafeInteger(value))) continue;
    throw invalid(field, 'must be a whole number above zero', value);
  }
  if (read.suspectNats > read.alarmNats) throw invalid('suspectNats', 'must not be above alarmNats', read.suspectNats);
  if (read.judgeTimeoutMs > MAX_TIMEOUT_MS) {
    throw invalid('judgeTimeoutMs', `must not be above ${MAX_TIMEOUT_MS}`, read.judgeTimeoutMs);
  }
}

function checkParts({ goal, judge, model, pollingTools }: DriftOptions): void {
  if (!Array.isArray(pollingTools) || !pollingTools.every((name) => typeof name === 'string')) {
    throw invalid('pollingTools', 'must be a list of names', pollingTools);
  }
  if (goal !== undefined && typeof goal !== 'string') throw invalid('goal', 'must be a text', goal);
  if (judge !== undefined && typeof judge !== 'function') throw invalid('judge', 'must be a function', typeof judge);
  if (model !== undefined && !isDriftModel(model)) throw invalid('model', 'must hold a bias and all weights', model);
}

function isPositive(value: unknown): boolean {
  return typeof value === 'number' && value > 0 && Number.isFinite(value);
}

function checkNames(names: unknown): void {
  if (!Array.isArray(names)) throw invalid('without', 'must be a list of signal names', names);
  for (const name of names) {
    if (!SIGNAL_NAMES.some((known) => known === name)) {
      throw invalid('without', `may hold only ${SIGNAL_NAMES.join(', ')}`, name);
    }
  }
}

function invalid(field: string, problem: string, value: unknown): InvalidInputError {
  return new InvalidInputError(`The drift option "${field}" ${problem}; it was ${describe(value)}.`, {
    details: { field },
  });
}

/** Numbers and texts as they are; of all else only what it is. */
function describe(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(boundName(value));
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'a list' : 'an object';
  return typeof value === 'function' ? 'a function' : String(value);
}
