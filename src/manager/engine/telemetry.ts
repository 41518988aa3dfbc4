import type { Checkpoint } from '../../core/record/checkpoint.ts';

/** What runs: a save, a step or a restore. */
export type TracedWork = {
  readonly kind: 'save' | 'step' | 'restore';
  readonly sessionId: string;
  /** The name of a step. */
  readonly name?: string;
};

/** What came of it. */
export type TracedOutcome = {
  readonly checkpoint?: Checkpoint | undefined;
  /** Whether a step's result came from its recording. */
  readonly isReplayed?: boolean;
};

/** Follows saves, steps and restores while they run: `openTelemetry()` of `savestate/opentelemetry`, or one of your own. */
export interface Telemetry {
  /** Runs the work, at once, and returns what it returns. `tell` may be called before it ends. */
  trace<Result>(work: TracedWork, run: (tell: (outcome: TracedOutcome) => void) => Promise<Result>): Promise<Result>;
}
