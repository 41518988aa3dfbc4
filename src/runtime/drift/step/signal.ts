import type { ReadEvent } from './drift-event.ts';
import type { StepReading } from './step.ts';

/** The ways of drifting that are told apart. */
export const DRIFT_KINDS = ['loop', 'stall', 'error', 'goal', 'context', 'time'] as const;
export type DriftKind = (typeof DRIFT_KINDS)[number];

/** What one signal says about one event. */
export type DriftEvidence = {
  readonly signal: string;
  readonly kind: DriftKind;
  /** Whose drift it speaks of. */
  readonly agent: string;
  /** The logarithm of how many times likelier this is of a drifting agent than of a healthy one; negative for progress. */
  readonly nats: number;
  /** The events it rests on, the one just seen last. */
  readonly steps: readonly number[];
  /** Why, in a sentence. */
  readonly reason: string;
};

/** What a signal found; who it is, the detector knows. */
export type SignalFinding = Omit<DriftEvidence, 'signal' | 'kind'>;

/** An event, and the step it begins or completes. */
type SignalInput = { readonly event: ReadEvent; readonly reading: StepReading | undefined };

/** One thing to watch for. Its work and its memory per event are bounded. */
export interface Signal {
  readonly name: string;
  readonly kind: DriftKind;
  observe(input: SignalInput): SignalFinding | undefined;
  /** What it remembers, as plain data; absent if it remembers nothing. */
  snapshot?(): unknown;
}
