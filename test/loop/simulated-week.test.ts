import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import type { LoopAgent, LoopEvent } from '../../src/runtime/loop/index.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { temporaryFolder } from '../support/storages.ts';
import { HOUR, MINUTE, World } from './world.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const DAY = 24 * HOUR;
const DAYS = 9;

/** The part of a form that is wrong, by how often it was tested. */
const wrongPart = (tests: number) => 'left right upper lower first last'.split(' ')[(tests * tests) % 6];
let tests = 0;

/** Works through orders; some fail, some need a guarded operation or are mended bit by bit, and one kind makes it ask the same for ever. */
const clerk = (): LoopAgent => ({
  tools: {
    book: { run: (input) => `booked ${String(input)}`, undo: () => undefined },
    refuse: {
      run: () => {
        throw new Error('no seats');
      },
    },
    look: { run: () => 'nothing new' },
    patch: { run: () => 'ok' },
    test: { run: () => `the ${wrongPart(++tests)} part of the form is wrong` },
  },
  async handle({ id, body }, turn) {
    const { context, memory } = turn.state;
    if (body === 'fails') throw new Error('unreadable order');
    if (body === 'maze')
      while (!context.notes.some(({ kind }) => kind === 'drift')) await turn.call('look', { at: 'the wall' });
    if (body === 'form')
      for (let at = 0; at < 12; at++) {
        await turn.call('patch', { form: 'order.txt', old: wrongPart(at), new: `${wrongPart(at + 1)} ${at}` });
        await turn.call('test', { form: 'order.txt' });
      }
    if (body === 'risky') await turn.guard('book', (operation) => operation.call('book', id));
    if (body === 'doomed') await turn.guard('charter', (operation) => operation.call('refuse', id));
    memory.shortTerm[id] = body;
    memory.session.orders = Number(memory.session.orders ?? 0) + 1;
  },
});

/** What the outside sends, by the number of the half hour since the beginning. */
function orderAt(halfHour: number): string {
  const hour = halfHour / 2;
  if (hour === 100.5) return 'maze'; // on the fifth day
  if (halfHour % 48 === 20) return 'fails'; // once a day
  if (halfHour % 48 === 30) return 'doomed'; // once a day
  if (halfHour % 48 === 40) return 'form'; // once a day
  return halfHour % 6 === 3 ? 'risky' : 'plain';
}

test('[loop.26] nine days by the clock: exact counts, retention to the rule, flat memory', async () => {
  const path = join(temporaryFolder(), 'week.db');
  const world = new World(new SqliteCheckpointStorage({ path, durability: 'process' }));
  const startMs = world.clock.now();
  const taken: (LoopEvent & { kind: 'checkpoint'; atMinutes: number })[] = [];
  const life = await world.start({ createAgent: clerk, settings: { maxFailures: 1 } });
  life.loop.on((event) => {
    if (event.kind === 'checkpoint') taken.push({ ...event, atMinutes: (world.clock.now() - startMs) / MINUTE });
  });
  await world.clock.settle();
  const heapBytes: number[] = [];
  const HALF_HOURS = DAYS * 48;
  for (let halfHour = 0; halfHour < HALF_HOURS; halfHour++) {
    await world.clock.pass(10 * MINUTE);
    await life.loop.deliver({ id: `order ${halfHour}`, body: orderAt(halfHour) });
    await world.clock.pass(20 * MINUTE);
    if ((halfHour + 1) % 48 !== 0) continue;
    life.events.length = 0;
    collectGarbage();
    heapBytes.push(process.memoryUsage().heapUsed);
  }

  const countOf = (trigger: string) => taken.filter((event) => event.trigger === trigger).length;
  const orders = Array.from({ length: HALF_HOURS }, (_, halfHour) => orderAt(halfHour));
  const numberOf = (order: string) => orders.filter((one) => one === order).length;
  expect({
    started: countOf('started'),
    schedule: countOf('schedule'),
    refresh: countOf('refresh'),
    guard: countOf('guard'),
    error: countOf('error'),
    operation_failed: countOf('operation_failed'),
    drift: countOf('drift'),
    restored: countOf('restored'),
    all: taken.length,
  }).toEqual({
    started: 1,
    schedule: DAYS * 48,
    refresh: DAYS * 12,
    guard: numberOf('risky') + numberOf('doomed'),
    error: DAYS,
    operation_failed: DAYS,
    drift: 1,
    restored: 1,
    all: 1 + DAYS * (48 + 12 + 1 + 1) + numberOf('risky') + numberOf('doomed') + 2,
  });
  // Not a minute off after nine days.
  const minutes = taken.filter(({ trigger }) => trigger === 'schedule').map(({ atMinutes }) => atMinutes);
  expect(minutes).toEqual(Array.from({ length: DAYS * 48 }, (_, at) => (at + 1) * 30));
  const refreshes = taken.filter(({ trigger }) => trigger === 'refresh').map(({ atMinutes }) => atMinutes);
  expect(refreshes).toEqual(Array.from({ length: DAYS * 12 }, (_, at) => (at + 1) * 120));

  // What is left: 3 routine, the last failed charter, and what was saved for recovery within 7 days before the last of its kind.
  const left = await world.history();
  const leftOf = (type: string) => left.filter((checkpoint) => checkpoint.type === type);
  expect(leftOf('routine').map(({ timestamp }) => (timestamp.getTime() - startMs) / HOUR)).toEqual([215, 215.5, 216]);
  expect(leftOf('pre_operation').map(({ metadata }) => metadata?.operation)).toEqual(['charter']);
  const lastMinutes = taken.findLast(({ type }) => type === 'recovery')?.atMinutes ?? 0;
  const due = taken.filter(
    ({ type, atMinutes }) => type === 'recovery' && lastMinutes - atMinutes <= (7 * DAY) / MINUTE,
  );
  expect(leftOf('recovery').map(({ id }) => id)).toEqual(due.map(({ id }) => id));
  expect(left.length).toBe(3 + 1 + due.length);

  // Of what was recorded before the oldest of them, nothing is left.
  const oldest = Math.min(...left.map(({ header }) => header.effectCount ?? 0));
  const recorded = await world.storage.readEffects({ sessionId: 'agent-1', branch: 'main' });
  expect(oldest).toBeGreaterThan(50);
  expect(recorded[0]?.ordinal).toBeGreaterThanOrEqual(oldest);

  // Cleared by hand, they go with the next routine checkpoint.
  for (const { id } of due.slice(0, 5)) await life.manager.clearRecovery(id);
  await world.clock.pass(30 * MINUTE);
  expect((await world.history({ type: 'recovery' })).length).toBe(due.length - 5);

  const { mailbox, memory } = life.loop.state;
  expect(mailbox.processedCount + mailbox.setAside.length).toBe(HALF_HOURS);
  expect(memory.session.orders).toBe(HALF_HOURS - DAYS); // the maze was got out of, and the restore lost nothing
  expect(Math.max(...heapBytes.slice(2)) - (heapBytes[1] ?? 0)).toBeLessThan(4e6);
  console.log('heap at the end of each day, MB:', heapBytes.map((bytes) => Math.round(bytes / 1e5) / 10).join(' '));
  await life.loop.stop();
});
