import { z } from 'zod';
import type { ReadEvent } from './drift-event.ts';
import type { StepReading } from './step.ts';

/** The ways of drifting that are told apart. */
export const DRIFT_KINDS = ['loop', 'stall', 'error', 'goal', 'context'] as const;
/** A way of drifting: going in circles, standing still, failing, losing the goal, or filling its context. */
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

/** What the signals are told once. */
export type SignalOptions = {
  readonly without: readonly string[];
  readonly goal?: string | undefined;
  readonly maxIdleSteps: number;
  readonly expectedCycles?: number | undefined;
  readonly contextLimitTokens: number;
};

/** An event, and the step it begins or completes. */
type SignalInput = {
  readonly event: ReadEvent;
  readonly reading: StepReading | undefined;
  readonly options: SignalOptions;
};

/** What one thing to watch for is made of. Its work and its memory per event are bounded. */
type SignalForm<State> = {
  readonly kind: DriftKind;
  /** What it remembers between events, if anything: the form in which that is saved, and how it begins. */
  readonly memory?: { readonly form: z.ZodType<State>; begin(options: SignalOptions): State };
  /** Looks at an event, and changes what it remembers in place. */
  observe(input: SignalInput, state: State): SignalFinding | undefined;
};

/** A signal at work. */
export type Signal = {
  readonly name: string;
  readonly kind: DriftKind;
  observe(input: SignalInput): SignalFinding | undefined;
  /** What it remembers, as plain data; undefined if it remembers nothing. */
  snapshot(): unknown;
};

/** A signal that can be made, anew or from what it remembered. */
export type SignalType = {
  readonly form: z.ZodType;
  create(name: string, options: SignalOptions, saved?: unknown): Signal;
};

/** Makes a signal of its form: what it remembers is saved, checked and read again in the same way for all. */
export function signal<State = undefined>({ kind, memory, observe }: SignalForm<State>): SignalType {
  return {
    form: memory?.form ?? z.unknown(),
    create(name, options, saved) {
      const state = (saved === undefined ? memory?.begin(options) : memory?.form.parse(saved)) as State;
      return { name, kind, observe: (input) => observe(input, state), snapshot: () => plainOf(state) };
    },
  };
}

/** The form of a map: a list of its entries, oldest first. */
export function mapOf<Value>(value: z.ZodType<Value>) {
  return z.array(z.tuple([z.string(), value])).transform((entries) => new Map(entries));
}

function plainOf(state: unknown): unknown {
  if (typeof state !== 'object' || state === null) return undefined;
  const fields = Object.entries(state).map(([key, value]) => [key, value instanceof Map ? [...value] : value]);
  return Object.fromEntries(fields);
}

/** Forms that many signals remember things in: counts of events and their numbers are whole. */
export const count = z.int().nonnegative();
export const text = z.string();
