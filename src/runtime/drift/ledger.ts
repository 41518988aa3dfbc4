import { z } from 'zod';
import { keepRecent } from '../../core/keep-recent.ts';
import { count, DRIFT_KINDS, type DriftEvidence, type DriftKind } from './step/signal.ts';

const evidence = z.object({
  signal: z.string(),
  kind: z.enum(DRIFT_KINDS),
  agent: z.string(),
  nats: z.number(),
  steps: z.array(count),
  reason: z.string(),
});

/** The plain data of a ledger; an account is found by its kind and agent. */
export const ledgerState = z.object({
  accounts: z.array(
    z.tuple([
      z.string().regex(new RegExp(`^(?:${DRIFT_KINDS.join('|')}) `)),
      z.object({ nats: z.number().nonnegative(), onset: count.optional() }),
    ]),
  ),
  evidence: z.array(evidence),
});
export type LedgerState = z.infer<typeof ledgerState>;

/** How much speaks for one way in which one agent drifts, and the first event of what is still counted. */
export type Account = {
  readonly kind: DriftKind;
  readonly agent: string;
  nats: number;
  readonly onset: number | undefined;
};

/** Ways times agents that are kept; the oldest is forgotten. */
const MAX_ACCOUNTS = 256;
/** The last pieces of evidence, to explain a verdict with. */
const MAX_EVIDENCE = 24;
/** Weaker evidence is counted but not shown. */
const MIN_SHOWN_NATS = 0.2;

const SUMMARY_REASONS = 3;

/** Keeps one account for each way of drifting and each agent: one agent's progress does not excuse another's loop. */
export class Ledger {
  readonly #capNats: number;
  readonly #accounts = new Map<string, Account>();
  #evidence: readonly DriftEvidence[];

  constructor(capNats: number, state?: LedgerState) {
    this.#capNats = capNats;
    for (const [key, sum] of state?.accounts ?? []) {
      const [kind = '', ...agent] = key.split(' ');
      this.#accounts.set(key, { kind: kind as DriftKind, agent: agent.join(' '), nats: sum.nats, onset: sum.onset });
    }
    this.#evidence = state?.evidence ?? [];
  }

  /**
   * Sums log-likelihood ratios (CUSUM): never below zero, so that good behaviour long ago does not excuse bad behaviour now, and
   * capped, so that bad behaviour long ago can be made good.
   */
  add(evidence: DriftEvidence): void {
    const key = `${evidence.kind} ${evidence.agent}`;
    const account = this.#accounts.get(key) ?? this.#open(key, evidence);
    if (account === undefined) return;
    account.nats = Math.min(this.#capNats, Math.max(0, account.nats + evidence.nats));
    if (account.nats === 0) this.#accounts.delete(key);
    if (evidence.nats >= MIN_SHOWN_NATS) this.#evidence = [...this.#evidence.slice(1 - MAX_EVIDENCE), evidence];
  }

  /** The accounts with something in them. */
  accounts(): Iterable<Readonly<Account>> {
    return this.#accounts.values();
  }

  /** An account laid open: the last evidence about it since it began, and what that says, in words. */
  caseAgainst({ kind, agent, onset }: Readonly<Account>) {
    const evidence = this.#evidence.filter(
      (found) => found.kind === kind && found.agent === agent && (found.steps.at(-1) ?? 0) >= (onset ?? 0),
    );
    const since = onset === undefined ? '' : ` since event ${onset}`;
    const reasons = [...new Set(evidence.map(({ reason }) => reason))].slice(-SUMMARY_REASONS);
    const summary = [`${agent} shows signs of drift (${kind})${since}.`, ...reasons].join(' ');
    return { agent, onset, evidence, signals: [...new Set(evidence.map(({ signal }) => signal))], summary };
  }

  snapshot(): LedgerState {
    return {
      accounts: [...this.#accounts].map(([key, { nats, onset }]) => [key, { nats, onset }]),
      evidence: this.#evidence.map((found) => ({ ...found, steps: [...found.steps] })),
    };
  }

  #open(key: string, { kind, agent, nats, steps: [onset = 0] }: DriftEvidence): Account | undefined {
    if (nats <= 0) return undefined;
    const account = { kind, agent, nats: 0, onset };
    keepRecent(this.#accounts, [key, account], MAX_ACCOUNTS);
    return account;
  }
}
