import { callback, checkOptions, type OptionChecks, record, wholeFrom } from '../../core/options.ts';
import { name } from '../../core/record/id.ts';
import type { ChatRunResult } from '../chat/chat-run.ts';
import { BRANCH, type InterveneOptions } from './hold-branch.ts';
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

const { branch: _branch, mode: _mode, ...CONTINUED } = BRANCH;

const OPTIONS: OptionChecks<TrialOptions> = {
  ...CONTINUED,
  // What is changed is checked where it is read.
  intervention: record,
  repeats: { required: wholeFrom(1, MAX_REPEATS) },
  judge: { required: callback },
  concurrency: wholeFrom(1, MAX_CONCURRENCY),
  name,
  onRun: callback,
};

/** Checks a trial before anything runs. */
export function checkTrialOptions(options: TrialOptions): void {
  checkOptions(options, OPTIONS, 'trial()');
}
