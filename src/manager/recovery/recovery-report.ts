import type { RecoveryOutcome } from './recovery-options.ts';

/** How a recovery ended: done, to be tried again, given up, or taken over by another worker meanwhile. */
export type RecoveryEnd = 'recovered' | 'failed' | 'poisoned' | 'lost';

/** What was recovered and what was not: how many, and the last 100 of each, oldest first. */
export type RecoveryReport = {
  readonly counts: { readonly [End in RecoveryEnd]: number };
} & { readonly [End in RecoveryEnd]: readonly RecoveryOutcome[] };

/** A loop goes on for months; its report must not grow with it. */
const KEPT_OUTCOMES = 100;

/** Collects outcomes into a report of bounded size. */
export class RecoveryReporter {
  readonly #counts = { recovered: 0, failed: 0, poisoned: 0, lost: 0 };
  readonly #outcomes: { readonly [End in RecoveryEnd]: RecoveryOutcome[] } = {
    recovered: [],
    failed: [],
    poisoned: [],
    lost: [],
  };

  add(end: RecoveryEnd, outcome: RecoveryOutcome): void {
    this.#counts[end]++;
    const outcomes = this.#outcomes[end];
    outcomes.push(outcome);
    if (outcomes.length > KEPT_OUTCOMES) outcomes.shift();
  }

  report(): RecoveryReport {
    const { recovered, failed, poisoned, lost } = this.#outcomes;
    return { counts: { ...this.#counts }, recovered, failed, poisoned, lost };
  }
}
