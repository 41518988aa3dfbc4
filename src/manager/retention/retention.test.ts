import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { drawn } from '../../../test/support/trials.ts';
import { InvalidInputError } from '../../core/errors.ts';
import { checkOptions } from '../../core/options.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import { DEFAULT_RETENTION, judge, type RetentionCase, type RetentionPolicy } from './retention.ts';
import { RETENTION_CHECKS } from './retention-policy.ts';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const NOW_MS = Date.UTC(2026, 10, 15, 12);

type Fields = Partial<Omit<CheckpointHeader, 'id' | 'sessionId'>> & { readonly sessionId?: string };

const id = (number: number) => `chk_${String(number).padStart(22, '0')}` as CheckpointId;

function header(number: number, fields: Fields = {}): CheckpointHeader {
  const { sessionId = 's-1', ...rest } = fields;
  return {
    id: id(number),
    sessionId: sessionId as SessionId,
    branch: 'main',
    sequence: number,
    type: 'manual',
    timestampMs: NOW_MS,
    stateDigest: 'digest' as Digest,
    stateBytes: 1,
    ...rest,
  };
}

const many = (count: number, fields: (number: number) => Fields) =>
  Array.from({ length: count }, (_, at) => header(at + 1, fields(at + 1)));

async function decide(
  checkpoints: readonly CheckpointHeader[],
  policy: RetentionPolicy,
  rest: Partial<RetentionCase> = {},
): Promise<{ kept: number[]; reasons: Record<number, string> }> {
  const verdicts = await judge({ checkpoints, policy, protections: new Map(), nowMs: NOW_MS, ...rest });
  expect(verdicts.map((verdict) => verdict.id)).toEqual(checkpoints.map((checkpoint) => checkpoint.id));
  const numberOf = (verdict: { id: string }) => Number(verdict.id.slice(4));
  return {
    kept: verdicts
      .filter((verdict) => verdict.keep)
      .map(numberOf)
      .sort((a, b) => a - b),
    reasons: Object.fromEntries(verdicts.map((verdict) => [numberOf(verdict), verdict.reason])),
  };
}

describe('protection and types', () => {
  test('[retention.1] a protected checkpoint is kept whatever any rule says, and every reason is given', async () => {
    const protections = new Map([[id(1), ['head of branch main', 'tagged v1']]]);
    const policy = { types: { routine: { keepLast: 0 } }, maxAgeDays: 0, maxCheckpoints: 0, maxCheckpointsPerUser: 0 };
    const old = header(1, { type: 'routine', timestampMs: 0, userId: 'u-1' });
    const { kept, reasons } = await decide([old], policy, { protections });
    expect(kept).toEqual([1]);
    expect(reasons[1]).toBe('head of branch main; tagged v1');
  });

  test('[retention.3] routine: the last 3 of an agent are kept', async () => {
    const { kept, reasons } = await decide(
      many(5, () => ({ type: 'routine', agentId: 'a-1' })),
      DEFAULT_RETENTION,
    );
    expect(kept).toEqual([3, 4, 5]);
    expect(reasons[2]).toBe('routine: 4th newest of agent a-1, 3 are kept');
    expect(reasons[5]).toBe('routine: within its rule');
  });

  test('[retention.3] agents match exactly: a-1 never touches a-10, nor the a-1 of another user', async () => {
    const owners: Fields[] = [{ agentId: 'a-1' }, { agentId: 'a-10' }, { agentId: 'a-1', userId: 'u-2' }];
    const checkpoints = many(12, (number) => ({ type: 'routine', ...owners[number % 3] }));
    expect((await decide(checkpoints, DEFAULT_RETENTION)).kept).toEqual([4, 5, 6, 7, 8, 9, 10, 11, 12]);
  });

  test('[retention.3] an agent is one agent in all sessions; without an agent each session counts on its own', async () => {
    const inTwoSessions = (number: number) => ({ type: 'routine', sessionId: `s-${number % 2}` });
    expect((await decide(many(8, inTwoSessions), DEFAULT_RETENTION)).kept).toEqual([3, 4, 5, 6, 7, 8]);
    const ofOneAgent = (number: number) => ({ ...inTwoSessions(number), agentId: 'a-1' });
    expect((await decide(many(8, ofOneAgent), DEFAULT_RETENTION)).kept).toEqual([6, 7, 8]);
    expect((await decide(many(8, inTwoSessions), DEFAULT_RETENTION)).reasons[1]).toBe(
      'routine: 4th newest of session s-1, 3 are kept',
    );
  });

  test('[retention.4] pre_operation: kept until its operation completes, whatever limits say', async () => {
    const checkpoints = many(2, () => ({ type: 'pre_operation', timestampMs: 0 }));
    const policy = { ...DEFAULT_RETENTION, maxAgeDays: 1, maxCheckpoints: 0 };
    const { kept, reasons } = await decide(checkpoints, policy, { completed: new Set([id(1)]) });
    expect(kept).toEqual([2]);
    expect(reasons).toEqual({ 1: 'pre_operation: its operation completed', 2: 'operation still running' });
  });

  test('[retention.4] recovery: 7 days, or until cleared', async () => {
    const ages = [7 * DAY_MS, 7 * DAY_MS + 1, 0];
    const checkpoints = many(3, (number) => ({ type: 'recovery', timestampMs: NOW_MS - (ages[number - 1] ?? 0) }));
    const { kept, reasons } = await decide(checkpoints, DEFAULT_RETENTION, { cleared: new Set([id(3)]) });
    expect(kept).toEqual([1]);
    expect(reasons[2]).toBe('recovery: older than 7 days');
    expect(reasons[3]).toBe('recovery: cleared');
  });

  test('[retention.5] types without a rule are kept, also those named like properties of every object', async () => {
    const types = ['manual', 'auto', 'mine', 'toString', '__proto__'];
    const checkpoints = many(50, (number) => ({ type: types[number % 5] as string, timestampMs: 0 }));
    expect((await decide(checkpoints, DEFAULT_RETENTION)).kept).toHaveLength(50);
    expect((await decide(checkpoints, {})).reasons[1]).toBe('auto: no rule drops it');
  });
});

describe('keep rules', () => {
  test('[retention.6] keepLast keeps the newest of each session, by id and not by clock', async () => {
    const checkpoints = many(6, (number) => ({ sessionId: `s-${number % 2}`, timestampMs: NOW_MS - number * HOUR_MS }));
    expect((await decide(checkpoints, { keepLast: 2 })).kept).toEqual([3, 4, 5, 6]);
    expect((await decide(checkpoints.toReversed(), { keepLast: 2 })).kept).toEqual([3, 4, 5, 6]);
    expect((await decide(checkpoints, { keepLast: 0 })).kept).toEqual([]);
  });

  test('[retention.6] hourly, daily and weekly keep the newest of each of the last N periods that have one', async () => {
    const timesOf = (...times: string[]) => times.map((time, at) => header(at + 1, { timestampMs: Date.parse(time) }));
    const hours = timesOf('2026-11-03T08:10Z', '2026-11-03T08:50Z', '2026-11-03T09:00Z', '2026-11-05T23:59Z');
    expect((await decide(hours, { keepHourly: 2 })).kept).toEqual([3, 4]);
    expect((await decide(hours, { keepHourly: 3 })).kept).toEqual([2, 3, 4]);
    expect((await decide(hours, { keepHourly: 3 })).reasons[2]).toBe('newest of the hour 2026-11-03 08');
    const { kept, reasons } = await decide(hours, { keepDaily: 2 });
    expect(kept).toEqual([3, 4]);
    expect(reasons[3]).toBe('newest of the day 2026-11-03');
    expect(reasons[1]).toBe('manual: no keep rule asks for it');
    const weeks = timesOf('2026-11-01T23:59Z', '2026-11-02T00:00Z', '2026-11-08T23:59Z', '2026-11-09T00:00Z');
    expect((await decide(weeks, { keepWeekly: 9 })).kept).toEqual([1, 3, 4]);
    expect((await decide(weeks, { keepWeekly: 9 })).reasons[3]).toBe('newest of the week of 2026-11-02');
    const months = timesOf('2026-09-01T00:00Z', '2026-09-30T23:59Z', '2026-11-01T00:00Z');
    expect((await decide(months, { keepMonthly: 2 })).kept).toEqual([2, 3]);
    expect((await decide(months, { keepMonthly: 2 })).reasons[2]).toBe('newest of the month 2026-09');
  });

  test('[retention.6] keepWithinMs keeps what is not older', async () => {
    const checkpoints = many(4, (number) => ({ timestampMs: NOW_MS - (4 - number) * HOUR_MS }));
    expect((await decide(checkpoints, { keepWithinMs: 2 * HOUR_MS })).kept).toEqual([2, 3, 4]);
    expect((await decide(checkpoints, { keepWithinMs: 0 })).kept).toEqual([4]);
    expect((await decide(checkpoints, { keepWithinMs: 2 * HOUR_MS })).reasons[4]).toBe('young enough');
  });

  test('[retention.5] a checkpoint stays if any keep rule asks for it', async () => {
    const checkpoints = many(6, (number) => ({ timestampMs: NOW_MS - (6 - number) * DAY_MS }));
    const { kept, reasons } = await decide(checkpoints, { keepLast: 1, keepDaily: 3 });
    expect(kept).toEqual([4, 5, 6]);
    expect(reasons[6]).toBe('among the last 1 of its session; newest of the day 2026-11-15');
  });

  test('[retention.5] a type with its own rule follows that and not the keep rules, nor takes their places', async () => {
    const checkpoints = [header(1), header(2), header(3, { type: 'routine' }), header(4, { type: 'recovery' })];
    expect((await decide(checkpoints, { ...DEFAULT_RETENTION, keepLast: 1 })).kept).toEqual([2, 3, 4]);
  });
});

describe('limits', () => {
  test('[retention.7] maxAgeDays drops what is older, of every type', async () => {
    const ages = [31, 30, 0, -5];
    const types = ['routine', 'manual', 'auto', 'recovery'];
    const checkpoints = many(4, (number) => ({
      type: types[number - 1] as string,
      timestampMs: NOW_MS - (ages[number - 1] ?? 0) * DAY_MS,
    }));
    const { kept, reasons } = await decide(checkpoints, { ...DEFAULT_RETENTION, maxAgeDays: 30 });
    expect(kept).toEqual([2, 3, 4]);
    expect(reasons[1]).toBe('older than 30 days');
  });

  test('[retention.8] maxCheckpointsPerUser drops the oldest of each user, and nothing without a user', async () => {
    const users = ['u-1', 'u-10', undefined];
    const checkpoints = many(9, (number) => {
      const userId = users[number % 3];
      return userId === undefined ? {} : { userId };
    });
    const { kept, reasons } = await decide(checkpoints, { maxCheckpointsPerUser: 1 });
    expect(kept).toEqual([2, 5, 7, 8, 9]);
    expect(reasons[3]).toBe('beyond the 1 kept of user u-1, oldest first');
  });

  test('[retention.8] maxCheckpoints drops the oldest by id; protected ones count but are never dropped', async () => {
    const checkpoints = many(5, (number) => ({ timestampMs: NOW_MS - number }));
    expect((await decide(checkpoints, { maxCheckpoints: 2 })).kept).toEqual([4, 5]);
    const protections = new Map([[id(1), ['pinned']]]);
    expect((await decide(checkpoints, { maxCheckpoints: 2 }, { protections })).kept).toEqual([1, 5]);
    expect((await decide(checkpoints, { maxCheckpoints: 0 }, { protections })).kept).toEqual([1]);
    expect((await decide(checkpoints, { maxCheckpoints: 2 })).reasons[1]).toBe(
      'beyond the 2 kept in all, oldest first',
    );
  });

  test('[retention.8] what another rule dropped does not count', async () => {
    const checkpoints = many(4, (number) => ({ timestampMs: number > 2 ? 0 : NOW_MS }));
    expect((await decide(checkpoints, { maxAgeDays: 1, maxCheckpoints: 2 })).kept).toEqual([1, 2]);
  });
});

describe('whole sessions', () => {
  const headOf = (...numbers: number[]) => new Map(numbers.map((number) => [id(number), ['head of branch main']]));
  const current = (...numbers: number[]) => new Set(numbers.map(id));
  const ofSessions = (...sessions: number[]) =>
    sessions.map((session, at) => header(at + 1, { sessionId: `s-${session}` }));

  test('[retention.8] where only heads are left above a limit, the sessions idle longest go whole', async () => {
    const checkpoints = ofSessions(1, 2, 3, 4);
    const rest = { heads: headOf(1, 2, 3, 4), current: current(1, 2, 3, 4) };
    const { kept, reasons } = await decide(checkpoints, { maxCheckpoints: 2 }, rest);
    expect(kept).toEqual([3, 4]);
    expect(reasons[1]).toBe('beyond the 2 kept in all: its session was idle longest');
    expect((await decide(checkpoints, { maxCheckpoints: 2 }, { ...rest, slack: 1 })).kept).toEqual([4]);
  });

  test('[retention.8] what is no head goes first, and what a tag, pin or lease protects keeps its session', async () => {
    const checkpoints = ofSessions(1, 2, 2, 2, 3);
    const rest = { heads: headOf(1, 4, 5), current: current(1, 4, 5) };
    expect((await decide(checkpoints, { maxCheckpoints: 3 }, rest)).kept).toEqual([1, 4, 5]);
    expect((await decide(checkpoints, { maxCheckpoints: 2 }, rest)).kept).toEqual([4, 5]);
    const protections = new Map([[id(1), ['tagged v1']]]);
    expect((await decide(checkpoints, { maxCheckpoints: 2 }, { ...rest, protections })).kept).toEqual([1, 5]);
    const held = new Set(['s-1' as SessionId]);
    expect((await decide(checkpoints, { maxCheckpoints: 2 }, { ...rest, held })).kept).toEqual([1, 5]);
  });

  test('[retention.8] the session saved to last stays; of its branches others than the current one go, oldest first', async () => {
    const checkpoints = ofSessions(1, 1, 1, 1);
    const rest = { heads: headOf(1, 2, 3, 4), current: current(2) };
    const { kept, reasons } = await decide(checkpoints, { maxCheckpoints: 3 }, rest);
    expect(kept).toEqual([2, 3, 4]);
    expect(reasons[1]).toBe('beyond the 3 kept in all: its branch was idle longest');
    expect((await decide(checkpoints, { maxCheckpoints: 1 }, rest)).kept).toEqual([2, 4]);
  });

  test('[retention.8] so for each user; a session that another user has checkpoints in stays', async () => {
    const users = ['u-1', 'u-2', 'u-1', 'u-1'];
    const sessions = ['s-1', 's-1', 's-2', 's-3'];
    const checkpoints = many(4, (number) => ({
      userId: users[number - 1] as string,
      sessionId: sessions[number - 1] as string,
    }));
    const rest = { heads: headOf(1, 2, 3, 4), current: current(2, 3, 4) };
    const { kept, reasons } = await decide(checkpoints, { maxCheckpointsPerUser: 2 }, rest);
    expect(kept).toEqual([1, 2, 4]);
    expect(reasons[3]).toBe('beyond the 2 kept of user u-1: its session was idle longest');
  });

  test('[retention.7] maxAgeDays ends sessions and branches that were not saved to since, but for the current one', async () => {
    const old = NOW_MS - 31 * DAY_MS;
    const checkpoints = [
      header(1, { sessionId: 'idle', timestampMs: old }),
      header(2, { sessionId: 'idle', timestampMs: old }),
      header(3, { sessionId: 'busy', timestampMs: old }),
      header(4, { sessionId: 'busy', timestampMs: old }),
      header(5, { sessionId: 'busy' }),
      header(6, { sessionId: 'tagged', timestampMs: old }),
    ];
    const rest = {
      heads: headOf(2, 3, 4, 5, 6),
      current: current(2, 4, 6),
      protections: new Map([[id(6), ['tagged v1']]]),
    };
    const { kept, reasons } = await decide(checkpoints, { maxAgeDays: 30 }, rest);
    expect(kept).toEqual([4, 5, 6]);
    expect(reasons[1]).toBe('older than 30 days');
    expect(reasons[2]).toBe('its session was not saved to for 30 days');
    expect(reasons[3]).toBe('its branch was not saved to for 30 days');
    expect(reasons[4]).toBe('head of branch main');
  });
});

const count = fc.option(fc.nat({ max: 6 }), { nil: undefined });
const limit = fc.option(fc.integer({ min: 1, max: 6 }), { nil: undefined });
const policies = fc
  .record({
    maxCheckpoints: limit,
    maxCheckpointsPerUser: limit,
    maxAgeDays: limit,
    keepLast: count,
    keepHourly: count,
    keepDaily: count,
    keepWeekly: count,
    keepMonthly: count,
    types: fc.constantFrom({}, DEFAULT_RETENTION.types),
  })
  .map((policy) => Object.fromEntries(Object.entries(policy).filter(([, value]) => value !== undefined)));
const headers = fc
  .array(
    fc.record({
      type: fc.constantFrom('routine', 'recovery', 'pre_operation', 'manual'),
      timestampMs: fc.integer({ min: NOW_MS - 20 * DAY_MS, max: NOW_MS + DAY_MS }),
      agentId: fc.constantFrom('a-1', 'a-10'),
      userId: fc.constantFrom('u-1', 'u-2'),
      sessionId: fc.constantFrom('s-1', 's-2'),
      isPinned: fc.boolean(),
    }),
    { maxLength: 30 },
  )
  .map((rows) => rows.map(({ isPinned, ...fields }, at) => ({ checkpoint: header(at + 1, fields), isPinned })));

test('[retention.9] the verdicts depend on nothing but the input: not on its order; pinned ones stay; limits hold', async () => {
  await fc.assert(
    fc.asyncProperty(headers, policies, async (rows, policy: RetentionPolicy) => {
      checkOptions(policy as object, RETENTION_CHECKS, 'retention');
      const checkpoints = rows.map((row) => row.checkpoint);
      const pinned = rows.filter((row) => row.isPinned).map((row) => row.checkpoint.id);
      const protections = new Map(pinned.map((pinnedId) => [pinnedId, ['pinned']]));
      const completed = new Set(checkpoints.map((checkpoint) => checkpoint.id));
      const { kept, reasons } = await decide(checkpoints, policy, { protections, completed });
      expect(await decide(checkpoints.toReversed(), policy, { protections, completed })).toEqual({ kept, reasons });
      expect(kept).toEqual(expect.arrayContaining(pinned.map((pinnedId) => Number(pinnedId.slice(4)))));
      expect(kept.length).toBeLessThanOrEqual(Math.max(policy.maxCheckpoints ?? Infinity, pinned.length));
      expect(Object.values(reasons).every((reason) => reason.length > 0)).toBe(true);
    }),
    drawn(5_000),
  );
});

describe('bad policies', () => {
  const bad: [string, unknown, string[]][] = [
    ['a negative count', { keepLast: -1 }, ['"keepLast" of retention', '-1', 'a whole number of 0 or more']],
    ['a limit of 0', { maxCheckpoints: 0 }, ['"maxCheckpoints" of retention', '0', 'a whole number of 1 or more']],
    ['an age of 0', { maxAgeDays: 0 }, ['"maxAgeDays" of retention', '0', 'a whole number of 1 or more']],
    ['a fraction', { maxAgeDays: 1.5 }, ['"maxAgeDays" of retention', '1.5', 'a whole number']],
    ['NaN', { keepLast: Number.NaN }, ['"keepLast" of retention', 'NaN']],
    ['Infinity', { keepDaily: Infinity }, ['"keepDaily"', 'Infinity']],
    ['a text', { keepHourly: '3' }, ['"keepHourly"', '"3"']],
    ['null', { keepWeekly: null }, ['"keepWeekly"', 'null']],
    ['an unknown key', { keepYearly: 1 }, ['retention', '"keepYearly"', 'keepHourly']],
    ['an inherited name', { toString: 1 }, ['retention', '"toString"']],
    ['an unknown key of a type', { types: { routine: { keep: 3 } } }, ['types["routine"]', '"keep"', 'keepLast']],
    ['a bad count of a type', { types: { 'a b': { maxAgeMs: -5 } } }, ['types["a b"].maxAgeMs', '-5']],
    ['a flag that is none', { types: { x: { untilCleared: 1 } } }, ['types["x"].untilCleared', '1', 'true']],
    ['a type that is no object', { types: { routine: 3 } }, ['types["routine"]', '3', 'an object']],
    ['types as a list', { types: [] }, ['types', 'a list', 'an object']],
    ['no policy', undefined, ['retention', 'undefined', 'an object']],
  ];
  test.each(bad)('[input.1] %s is refused by name', (_, policy, parts) => {
    const check = () => checkOptions(policy as object, RETENTION_CHECKS, 'retention');
    expect(check).toThrow(InvalidInputError);
    for (const part of parts) expect(check).toThrow(part);
  });

  test('[input.1] the default, the empty policy and undefined options are taken', () => {
    for (const policy of [DEFAULT_RETENTION, {}, { types: {} }, { keepLast: undefined }, { types: { mine: {} } }])
      expect(() => checkOptions(policy as object, RETENTION_CHECKS, 'retention')).not.toThrow();
  });
});
