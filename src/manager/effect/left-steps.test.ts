import { expect, test } from 'vitest';
import type { RecordedEffect } from './effect-record.ts';
import { LeftSteps } from './left-steps.ts';

const record = (ordinal: number, more: Partial<RecordedEffect> = {}): RecordedEffect => ({
  ordinal,
  name: 'w',
  status: 'done',
  attempt: 1,
  idempotencyKey: `k${ordinal}`,
  startedAtMs: 0,
  branch: 'main',
  result: undefined,
  ...more,
});

test('[effect.2] a step that did not end well is left to later processes until 1,000 have begun after it', () => {
  const recordings = [record(0, { status: 'failed' }), record(1), record(2, { status: 'started', branch: 'other' })];
  const left = new LeftSteps({ branch: 'main', recordings, nextOrdinal: 2 });
  left.addFailed(record(2, { status: 'failed' }));
  left.addFailed(record(3, { status: 'failed', work: 'a turn' }));
  expect(left.before(4)).toEqual({ count: 4, left: [2, 0] });
  expect(left.before(1000)).toEqual({ count: 1000, left: [2, 0] });
  expect(left.before(1001)).toEqual({ count: 1001, left: [2] });
  left.remove(record(2));
  expect(left.before(4)).toEqual({ count: 4, left: [0] });
});

test('[effect.4] from the start, a checkpoint counts what was asked for: its header stays small, however much is left', () => {
  const recordings = Array.from({ length: 5000 }, (_, ordinal) => record(ordinal));
  const left = new LeftSteps({ branch: 'main', recordings, nextOrdinal: 5000, isFromStart: true });
  expect(left.before(5000)).toEqual({ count: 0, left: [] });
  for (const asked of recordings.slice(0, 10)) left.remove(asked);
  expect(left.before(5000)).toEqual({ count: 10, left: [] });
  left.remove(record(12));
  expect(left.before(5000)).toEqual({ count: 13, left: [10, 11] });
  expect(left.before(5001).left).toEqual(
    Array.from({ length: 1000 }, (_, index) => 4001 + index).filter((at) => at < 5000),
  );
});
