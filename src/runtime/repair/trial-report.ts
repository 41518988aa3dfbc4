import { type AgentTotals, NO_TOTALS } from '../agent/agent-state.ts';
import type { ChatEnd } from '../chat/chat-end.ts';
import { type ContingencyTable, fisherExact } from './fisher-exact.ts';
import type { InterventionRecord } from './intervention.ts';
import { addTotals } from './totals.ts';

/** With the change, or without it. */
export type TrialArm = 'edited' | 'control';

/** Where a run first said something else than another one; a speaker is absent where that run was over. */
export type TrialDivergence = { readonly index: number; readonly speaker?: string; readonly otherSpeaker?: string };

/** One run of a trial. */
export type TrialRun = {
  readonly arm: TrialArm;
  /** Counted from 1; the edited and the control run of one number are a pair. */
  readonly run: number;
  readonly branch: string;
  readonly checkpointId: string | undefined;
  readonly status: 'ended' | 'waiting' | 'failed' | 'stopped';
  readonly end: ChatEnd | null;
  /** `error`: it did not come to its end, or the judge failed. It counts for neither side. */
  readonly outcome: 'success' | 'failure' | 'error';
  readonly score?: number;
  readonly note?: string;
  readonly error?: string;
  readonly newMessages: number;
  /** What it used after the checkpoint. */
  readonly used: AgentTotals;
  /** Where it left the original, as far as both go. */
  readonly divergence: TrialDivergence | undefined;
  /** It had ended before, and was only judged. */
  readonly isReused: boolean;
};

/** The runs of one kind. */
export type TrialArmReport = {
  readonly runs: readonly TrialRun[];
  readonly successes: number;
  readonly failures: number;
  readonly errors: number;
  /** Of those that were judged; undefined if none was. */
  readonly successRate: number | undefined;
  readonly meanScore: number | undefined;
  readonly used: AgentTotals;
};

/** Whether the difference could be chance, by Fisher's exact test. */
export type TrialChance = {
  /** Successes and failures: edited, then control. */
  readonly table: ContingencyTable;
  readonly pValue: number;
  /** What the clearest possible outcome of so many runs would have given. */
  readonly smallestPValue: number;
  /** Below this p-value a difference is taken as real. */
  readonly alpha: number;
};

/** What a trial has shown. */
export type TrialReport = {
  readonly name: string;
  readonly sessionId: string;
  readonly intervention: InterventionRecord;
  readonly reason?: string;
  readonly author?: string;
  readonly rounds: number;
  readonly repeats: number;
  /** Every run was made; else it can be resumed by its name. */
  readonly isComplete: boolean;
  /** Undefined without an intervention. */
  readonly edited: TrialArmReport | undefined;
  readonly control: TrialArmReport;
  /** For each pair, where the two first said something else after the change. */
  readonly pairs: readonly { readonly run: number; readonly divergence: TrialDivergence | undefined }[];
  readonly chance: TrialChance | undefined;
  readonly conclusion: 'helps' | 'harms' | 'could_be_chance' | 'too_few_runs' | 'not_compared';
};

/** One in twenty: the usual measure. */
const ALPHA = 0.05;

/** Sums up the runs of one kind. */
export function summariseArm(runs: readonly TrialRun[]): TrialArmReport {
  const count = (outcome: TrialRun['outcome']): number => runs.filter((run) => run.outcome === outcome).length;
  const [successes, failures] = [count('success'), count('failure')];
  const scores = runs.flatMap(({ score }) => score ?? []);
  return {
    runs,
    successes,
    failures,
    errors: count('error'),
    successRate: successes + failures === 0 ? undefined : successes / (successes + failures),
    meanScore: scores.length === 0 ? undefined : scores.reduce((sum, score) => sum + score, 0) / scores.length,
    used: runs.reduce((sum, { used }) => addTotals(sum, used), NO_TOTALS),
  };
}

/** Whether two kinds of runs differ by more than chance. */
export function weighChance(edited: TrialArmReport, control: TrialArmReport): TrialChance {
  const table: ContingencyTable = [
    [edited.successes, edited.failures],
    [control.successes, control.failures],
  ];
  const [judgedEdited, judgedControl] = [edited.successes + edited.failures, control.successes + control.failures];
  return {
    table,
    pValue: fisherExact(table),
    smallestPValue: fisherExact([
      [judgedEdited, 0],
      [0, judgedControl],
    ]),
    alpha: ALPHA,
  };
}

/** What follows from the numbers. */
export function conclude(chance: TrialChance | undefined): TrialReport['conclusion'] {
  if (chance === undefined) return 'not_compared';
  const { table, pValue, smallestPValue, alpha } = chance;
  if (smallestPValue >= alpha) return 'too_few_runs';
  if (pValue >= alpha) return 'could_be_chance';
  const [[a, b], [c, d]] = table;
  return a * (c + d) > c * (a + b) ? 'helps' : 'harms';
}
