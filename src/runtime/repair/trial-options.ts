import { InvalidInputError } from '../../core/errors.ts';
import { parseName } from '../../core/id.ts';
import type { ChatRunResult } from '../chat/chat-run.ts';
import type { InterveneOptions } from './hold-branch.ts';
import type { Intervention } from './intervention.ts';
import type { TrialRun } from './trial-report.ts';

/** What a judge says of a run. */
export type Verdict = boolean | { readonly success: boolean; readonly score?: number; readonly note?: string };

/** Decides whether a run succeeded. It is asked again when a trial is resumed; whatever it throws is the outcome `error`. */
export type Judge = (
  result: ChatRunResult,
  options: { readonly signal?: AbortSignal | undefined },
) => Verdict | Promise<Verdict>;

/** How a trial is made. */
export type TrialOptions = Omit<InterveneOptions, 'branch' | 'mode'> & {
  /** Without one, only the unedited runs are made. */
  readonly intervention?: Intervention;
  /** How many runs with the change, and how many without. */
  readonly repeats: number;
  readonly judge: Judge;
  /** How many runs are made at once; default 1. */
  readonly concurrency?: number;
  /** The name by which a trial that was killed is resumed: its finished runs are not made again. Default: a new one. */
  readonly name?: string;
  /** Called when a run was judged. */
  readonly onRun?: (run: TrialRun) => void;
};

/** More runs than this of one checkpoint are a mistake, or should be several trials. */
const MAX_REPEATS = 10_000;
const MAX_CONCURRENCY = 64;

/** Checks a trial before anything runs. */
export function checkTrialOptions({ repeats, rounds, concurrency = 1, name, judge }: TrialOptions): void {
  checkCount('repeats', repeats, MAX_REPEATS);
  checkCount('rounds', rounds, Number.MAX_SAFE_INTEGER);
  checkCount('concurrency', concurrency, MAX_CONCURRENCY);
  if (name !== undefined) parseName(name, 'The name of a trial');
  if (typeof judge !== 'function') throw new InvalidInputError('A trial needs a judge: a function of a run.');
}

function checkCount(what: string, value: number, max: number): void {
  if (Number.isSafeInteger(value) && value >= 1 && value <= max) return;
  throw new InvalidInputError(`${what} must be a whole number from 1 to ${max}; found ${value}.`, {
    details: { [what]: value },
  });
}
