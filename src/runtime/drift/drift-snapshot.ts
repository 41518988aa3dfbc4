import { InvalidInputError } from '../../core/errors.ts';
import type { LedgerState } from './ledger.ts';
import {
  fieldsLike,
  isCount,
  isFields,
  isFiniteNumber,
  isFlag,
  isText,
  listOf,
  optional,
  type ShapeCheck,
  tupleOf,
} from './plain-shape.ts';
import type { DriftEvent } from './step/drift-event.ts';
import type { SignalName } from './step/drift-options.ts';
import { isKnowledgeState } from './step/knowledge.ts';
import type { StepTrackerState } from './step/step-tracker.ts';

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
  if (!isFields(copy)) throw invalid('is not an object');
  if (copy.version !== 1) throw invalid(`is of version ${String(JSON.stringify(copy.version))}, and not of version 1`);
  for (const [part, check] of Object.entries(PARTS)) if (!check(copy[part])) throw invalid(`is damaged in "${part}"`);
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

const isAmount: ShapeCheck = (value) => Number.isFinite(value) && Number(value) >= 0;
const isIndex = isCount;
const isSketch: ShapeCheck = (value) => Array.isArray(value) && value.length === 64 && value.every(isSketchPart);
const isSketchPart: ShapeCheck = (value) => Number.isSafeInteger(value) && Number(value) >= -1;
const MARK = { wordCount: isCount, hash: isCount };

const isStep = fieldsLike({
  index: isIndex,
  ordinal: isCount,
  kind: (value) => value === 'call' || value === 'message',
  agent: isText,
  name: isText,
  callId: optional(isText),
  input: fieldsLike({ ...MARK, words: isSketch }),
  inputNovelty: isAmount,
  hasNewTarget: isFlag,
  isPlainQuestion: isFlag,
  result: optional(fieldsLike(MARK)),
  resultNovelty: optional(isAmount),
  isError: isFlag,
  answeredAt: optional(isIndex),
  learntBefore: isAmount,
  writtenBefore: isAmount,
  written: isAmount,
});

const isAgentMemory = fieldsLike({
  steps: listOf(isStep),
  count: isCount,
  calls: isCount,
  settledCalls: isCount,
  answers: isCount,
  learnt: isAmount,
  written: isAmount,
  isAnswered: isFlag,
});

const isKind: ShapeCheck = (value) => typeof value === 'string' && KINDS.has(value);
const KINDS: ReadonlySet<string> = new Set(['loop', 'stall', 'error', 'goal', 'context', 'time']);

const isEvidence = fieldsLike({
  signal: isText,
  kind: isKind,
  agent: isText,
  nats: isFiniteNumber,
  steps: listOf(isIndex),
  reason: isText,
});

const isLedger = fieldsLike({
  accounts: listOf(
    tupleOf(
      (key) => typeof key === 'string' && key.includes(' ') && isKind(key.split(' ')[0]),
      fieldsLike({ nats: isAmount, onset: optional(isIndex) }),
    ),
  ),
  evidence: listOf(isEvidence),
});

/** What the signals that remember something remember. */
const SIGNALS: Readonly<Partial<Record<SignalName, ShapeCheck>>> = {
  alternation: fieldsLike({ calls: listOf(fieldsLike({ index: isIndex, agent: isText, mark: isText })) }),
  'state-recurrence': fieldsLike({ visits: listOf(tupleOf(isText, isIndex)) }),
  monologue: fieldsLike({ speaker: optional(isText) }),
  stall: fieldsLike({ givers: listOf(isText), hasTakers: isFlag }),
  'idle-steps': fieldsLike({
    idle: listOf(tupleOf(isText, isCount, isIndex)),
    cycles: optional(fieldsLike({ states: optional(listOf(isText)), count: isCount, since: isIndex })),
  }),
  'cycle-count': fieldsLike({ count: isCount }),
  'error-rate': fieldsLike({
    lastErrors: listOf(
      tupleOf(isText, fieldsLike({ index: isIndex, kind: (kind) => kind === 'call' || kind === 'message' })),
    ),
  }),
  'cycle-time': fieldsLike({
    lastAt: optional(isFiniteNumber),
    lastIndex: isIndex,
    count: isCount,
    mean: isFiniteNumber,
    variance: isAmount,
    hasCycles: isFlag,
  }),
  'context-growth': fieldsLike({ tokens: isFiniteNumber, sizesSinceCut: isCount, cutIndex: optional(isIndex) }),
  'unfounded-answer': fieldsLike({ foundWords: isAmount, hasPlan: isFlag, hasActed: isFlag }),
  'goal-adherence': fieldsLike({
    terms: listOf(isText),
    share: isFiniteNumber,
    messages: isCount,
    isTold: optional(isFlag),
    asked: optional(listOf(isText)),
  }),
};

/** Fields of a kept event that are texts; the others are numbers and a flag. */
const isKeptEvent = fieldsLike({
  ...Object.fromEntries(
    ['kind', 'agent', 'role', 'name', 'callId', 'input', 'output', 'text', 'stateDigest'].map((field) => [
      field,
      optional(isText),
    ]),
  ),
  isError: optional(isFlag),
  at: optional(isFiniteNumber),
  contextTokens: optional(isFiniteNumber),
});

const PARTS: Readonly<Record<string, ShapeCheck>> = {
  count: isCount,
  tracker: fieldsLike({
    knowledge: isKnowledgeState,
    agents: listOf(tupleOf(isText, isAgentMemory)),
    open: listOf(isStep),
  }),
  // A signal that was left out when the snapshot was taken begins anew.
  signals: fieldsLike(mapValues(SIGNALS, optional)),
  ledger: isLedger,
  goal: optional(isText),
  window: listOf(isKeptEvent),
  nextJudgeAt: isCount,
};

function mapValues<Value>(
  values: Readonly<Record<string, Value>>,
  map: (value: Value) => ShapeCheck,
): Record<string, ShapeCheck> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(value)]));
}
