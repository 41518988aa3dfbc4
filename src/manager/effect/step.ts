import { anything, type OptionChecks, signal } from '../../core/options.ts';
import type { InputDigest } from './input-digest.ts';

/**
 * `live`: run, except what a crash left finished. `recorded`: use recordings while inputs match, then go live.
 * `frozen`: only recordings.
 */
export type EffectMode = 'live' | 'recorded' | 'frozen';

/** What a step's function gets: which attempt this is, and its key. */
export type StepAttempt = {
  readonly attempt: number;
  readonly idempotencyKey: string;
  readonly signal: AbortSignal | undefined;
};

/** An attempt on another branch that a step goes on from: it keeps the key. */
export type EarlierAttempt = Omit<StepAttempt, 'signal'>;

/** How a step is made. */
export type StepOptions = {
  /** Give one to each of several steps of one name: a recording is found by name and input, whatever the order. */
  readonly input?: unknown;
  /** Passed on to the step's function; once it is aborted, the step does not begin. */
  readonly signal?: AbortSignal | undefined;
  /** @internal */
  readonly work?: WorkPlace | undefined;
};

export const STEP_CHECKS: OptionChecks<StepOptions> = { input: anything, signal, work: anything };

/** Where a step belongs whose key and place follow from a named piece of work, and not from the attempt. */
export type WorkPlace = {
  readonly name: string;
  /** The digest of its input; null if it has none. */
  readonly digest: InputDigest | null;
  /** Which of several equal calls of the work it is, from 0. */
  readonly nth: number;
  readonly key: string;
  /** The name under which an older version recorded it. */
  readonly formerly?: string | undefined;
  /** Asked once, if the branch has no recording of it. */
  readonly recall?: (() => EarlierAttempt | undefined) | undefined;
};

/** A step of a work that ended, as it was recorded. */
export type FinishedStep = Pick<WorkPlace, 'digest' | 'nth'> & { readonly name: string; readonly result: unknown };
