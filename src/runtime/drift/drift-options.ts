import { type Defined, withoutUndefined } from '../../core/defined.ts';
import * as is from '../../core/options.ts';
import { checkOptions, type OptionCheck, type OptionChecks } from '../../core/options.ts';
import { MAX_DELAY_MS } from '../../core/time/timer.ts';
import { SIGNAL_NAMES, type SignalName } from './signals/signal-types.ts';
import { boundName } from './step/bounded.ts';
import type { DriftJudge } from './step/judge.ts';
import type { SignalOptions } from './step/signal.ts';

/** How a detector judges; every field has a default. */
export type DriftOptions = {
  /** Evidence from which on an agent drifts, as the logarithm of the odds: ln 100. From half of it on it is suspected, and a judge asked. */
  readonly alarmNats?: number | undefined;
  /** Signals to leave out. */
  readonly without?: readonly SignalName[] | undefined;
  /** Tools that are there to be called again and again (a mailbox, a queue, a clock): calling them is no loop and no stall. */
  readonly pollingTools?: readonly string[] | undefined;
  /** The goal in words, if no event states it. */
  readonly goal?: string | undefined;
  /** Calls in a row that may bring nothing new. */
  readonly maxIdleSteps?: number | undefined;
  /** Cycles the task is expected to take; without it their number is no evidence. */
  readonly expectedCycles?: number | undefined;
  readonly contextLimitTokens?: number | undefined;
  /** Asked, by `assess` alone, when the evidence is in doubt. */
  readonly judge?: DriftJudge | undefined;
  /** A judge that has not answered by then has failed. */
  readonly judgeTimeoutMs?: number | undefined;
};

/** Options with every default filled in. */
export type ReadDriftOptions = SignalOptions &
  Required<Defined<Pick<DriftOptions, 'alarmNats' | 'pollingTools' | 'judgeTimeoutMs'>>> &
  Pick<DriftOptions, 'judge'>;

/** What holds where nothing else is said. */
const DEFAULT_DRIFT_OPTIONS = Object.freeze({
  alarmNats: 4.6,
  without: Object.freeze([]),
  pollingTools: Object.freeze([]),
  maxIdleSteps: 12,
  contextLimitTokens: 200_000,
  judgeTimeoutMs: 30_000,
}) satisfies DriftOptions;

const count = is.wholeFrom(1);

const OPTIONS = {
  alarmNats: is.positive,
  without: is.listOf(is.oneOf(...SIGNAL_NAMES)),
  pollingTools: is.listOf(is.string),
  goal: is.string,
  maxIdleSteps: count,
  expectedCycles: count,
  contextLimitTokens: is.positive,
  judge: is.callback,
  judgeTimeoutMs: is.accepts(
    `a number above 0, up to ${MAX_DELAY_MS}`,
    (value) => is.positive(value) === undefined && Number(value) <= MAX_DELAY_MS,
  ),
} satisfies OptionChecks<DriftOptions>;

/** Accepts the options of a detector, as a part of others. */
export const driftOptions: OptionCheck = is.options(OPTIONS);

/** Fills in defaults; an unknown or senseless option is an `InvalidInputError`. */
export function readDriftOptions(given: DriftOptions): ReadDriftOptions {
  checkOptions(given, OPTIONS, 'a drift detector');
  const read: ReadDriftOptions = { ...DEFAULT_DRIFT_OPTIONS, ...withoutUndefined(given) };
  return { ...read, without: [...read.without], pollingTools: read.pollingTools.map(boundName) };
}
