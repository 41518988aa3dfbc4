import { expect, test } from 'vitest';
import type { RecordedEffect } from './effect-record.ts';
import { StepRecordings } from './step-recordings.ts';

const record = (ordinal: number, more: Partial<RecordedEffect> = {}): RecordedEffect => ({
  ordinal,
  name: `w${ordinal}`,
  status: 'done',
  attempt: 1,
  idempotencyKey: `k${ordinal}`,
  startedAtMs: 0,
  branch: 'main',
  result: undefined,
  ...more,
});

const take = (steps: StepRecordings, ordinal: number) => steps.take({ name: `w${ordinal}` }, { isExact: false });

test('[effect.2] a step that did not end well is left to later processes until 1,000 have begun after it', () => {
  const recordings = [record(0, { status: 'failed' }), record(1), record(2, { status: 'started', branch: 'other' })];
  const steps = new StepRecordings({ branch: 'main', recordings, nextOrdinal: 2 });
  steps.keepForRetry(record(2, { status: 'failed' }));
  steps.keepForRetry(record(3, { status: 'failed', work: 'a turn' }));
  const none = new Set<number>();
  expect(steps.positionAt(4, none)).toEqual({ effectCount: 4, effectsInFlight: [0, 2] });
  expect(steps.positionAt(1000, none)).toEqual({ effectCount: 1000, effectsInFlight: [0, 2] });
  expect(steps.positionAt(1001, none)).toEqual({ effectCount: 1001, effectsInFlight: [2] });
  expect(take(steps, 2)).toMatchObject({ status: 'failed', branch: 'main' });
  expect(steps.positionAt(4, new Set([3]))).toEqual({ effectCount: 4, effectsInFlight: [0, 3] });
});

test('[effect.4] from the start, a checkpoint counts what was asked for: its header stays small, however much is left', () => {
  const recordings = Array.from({ length: 5000 }, (_, ordinal) => record(ordinal));
  const steps = new StepRecordings({ branch: 'main', recordings, nextOrdinal: 5000, isFromStart: true });
  const none = new Set<number>();
  expect(steps.positionAt(5000, none)).toEqual({});
  for (let ordinal = 0; ordinal < 10; ordinal++) take(steps, ordinal);
  expect(steps.positionAt(5000, none)).toEqual({ effectCount: 10 });
  take(steps, 12);
  expect(steps.positionAt(5000, none)).toEqual({ effectCount: 13, effectsInFlight: [10, 11] });
  expect(steps.positionAt(5001, none).effectsInFlight).toEqual(
    Array.from({ length: 1000 }, (_, index) => 4001 + index).filter((at) => at < 5000),
  );
});
