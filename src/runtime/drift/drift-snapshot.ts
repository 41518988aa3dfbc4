import { z } from 'zod';
import { InvalidInputError } from '../../core/errors.ts';
import { isRecord } from '../../core/options.ts';
import { type LedgerState, ledgerState } from './ledger.ts';
import { SIGNAL_STATES } from './signals/signal-states.ts';
import type { DriftEvent } from './step/drift-event.ts';
import { type StepTrackerState, stepTrackerState } from './step/step-tracker.ts';

/** Everything a detector remembers, as plain data to be saved with the agent's state. */
export type DriftSnapshot = {
  readonly version: 1;
  readonly count: number;
  readonly tracker: StepTrackerState;
  readonly signals: Readonly<Record<string, unknown>>;
  readonly ledger: LedgerState;
  readonly goal: string | undefined;
  readonly window: readonly DriftEvent[];
  readonly nextJudgeAt: number;
};

/** A copy of a snapshot that was saved; anything else, whatever its shape, is an `InvalidInputError` that names the damaged part. */
export function readDriftSnapshot(snapshot: unknown): DriftSnapshot {
  const copy = copyOf(snapshot);
  if (!isRecord(copy)) throw invalid('is not an object');
  if (copy.version !== 1) throw invalid(`is of version ${String(JSON.stringify(copy.version))}, and not of version 1`);
  for (const [part, schema] of Object.entries(PARTS))
    if (!schema.safeParse(copy[part]).success) throw invalid(`is damaged in "${part}"`);
  return copy as DriftSnapshot;
}

function copyOf(snapshot: unknown): unknown {
  try {
    return structuredClone(snapshot);
  } catch (error) {
    throw invalid('is not plain data', error);
  }
}

function invalid(problem: string, cause?: unknown): InvalidInputError {
  return new InvalidInputError(
    `A drift snapshot of version 1 was expected, but what was given ${problem}. Start with a new detector.`,
    { cause },
  );
}

const text = z.string().optional();
const count = z.int().nonnegative();

/** An event as a judge is shown it. */
const keptEvent = z.object({
  kind: text,
  agent: text,
  role: text,
  name: text,
  callId: text,
  input: text,
  output: text,
  text,
  stateDigest: text,
  isError: z.boolean().optional(),
  at: z.number().optional(),
  contextTokens: z.number().optional(),
});

const PARTS: Readonly<Record<Exclude<keyof DriftSnapshot, 'version'>, z.ZodType>> = {
  count,
  tracker: stepTrackerState,
  // A signal that was left out when the snapshot was taken begins anew.
  signals: z.object(SIGNAL_STATES).partial(),
  ledger: ledgerState,
  goal: text,
  window: z.array(keptEvent),
  nextJudgeAt: count,
};
