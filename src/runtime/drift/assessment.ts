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

/** The levels that accounts are held against. */
export type Levels = { readonly alarmNats: number; readonly suspectNats: number };

type Verdict = Pick<DriftAssessment, 'status' | 'kinds' | 'scores'> & { readonly worst: Account | undefined };

/** Weighs the accounts: the worst one decides. */
export function weigh(accounts: Iterable<Account>, levels: Levels): Verdict {
  const scores: Partial<Record<DriftKind, number>> = {};
  let worst: Account | undefined;
  for (const account of accounts) {
    scores[account.kind] = Math.max(scores[account.kind] ?? 0, account.nats / levels.alarmNats);
    if (worst === undefined || account.nats > worst.nats) worst = account;
  }
  const suspectScore = levels.suspectNats / levels.alarmNats;
  const kinds = (Object.entries(scores) as [DriftKind, number][])
    .filter(([, score]) => score >= suspectScore)
    .sort(([, a], [, b]) => b - a)
    .map(([kind]) => kind);
  return { status: statusOf(worst?.nats ?? 0, levels), kinds, scores, worst };
}

function statusOf(nats: number, { alarmNats, suspectNats }: Levels): DriftAssessment['status'] {
  if (nats >= alarmNats) return 'drifting';
  return nats >= suspectNats ? 'suspect' : 'healthy';
}
