import type { Account } from './ledger.ts';
import type { DriftEvidence, DriftKind } from './step/signal.ts';

/** What a detector thinks after an event. */
export type DriftAssessment = {
  /** The number of the event, from 0. */
  readonly index: number;
  readonly status: 'healthy' | 'suspect' | 'drifting';
  /** The ways in which some agent is suspected to drift or drifts, strongest first. */
  readonly kinds: readonly DriftKind[];
  /** For each way the evidence against the worst agent, 1 at the alarm; absent for nothing at all. */
  readonly scores: Readonly<Partial<Record<DriftKind, number>>>;
  /** Who drifts most. */
  readonly agent: string | undefined;
  /** The event with which that began. */
  readonly onset: number | undefined;
  /** What that rests on, oldest first. */
  readonly evidence: readonly DriftEvidence[];
  /** All of that in a few sentences; empty for a healthy agent. */
  readonly summary: string;
  /** Why the judge could not be heard, if it was asked and failed. */
  readonly judgeProblem: string | undefined;
};

/** Evidence from which on an agent is suspected, as a part of the alarm. */
const SUSPECT_SCORE = 0.5;

type Verdict = Pick<DriftAssessment, 'status' | 'kinds' | 'scores'> & { readonly worst: Account | undefined };

/** Weighs the accounts: the worst one decides. */
export function weigh(accounts: Iterable<Account>, alarmNats: number): Verdict {
  const scores: Partial<Record<DriftKind, number>> = {};
  let worst: Account | undefined;
  for (const account of accounts) {
    scores[account.kind] = Math.max(scores[account.kind] ?? 0, account.nats / alarmNats);
    if (worst === undefined || account.nats > worst.nats) worst = account;
  }
  const kinds = (Object.entries(scores) as [DriftKind, number][])
    .filter(([, score]) => score >= SUSPECT_SCORE)
    .sort(([, a], [, b]) => b - a)
    .map(([kind]) => kind);
  return { status: statusOf((worst?.nats ?? 0) / alarmNats), kinds, scores, worst };
}

function statusOf(score: number): DriftAssessment['status'] {
  if (score >= 1) return 'drifting';
  return score >= SUSPECT_SCORE ? 'suspect' : 'healthy';
}
