import { describe, expect, test } from 'vitest';
import { HOUR, MINUTE, World } from '../../../test/loop/world.ts';
import { TestClock } from '../../../test/support/clock.ts';
import { few } from '../../../test/support/later.ts';
import type { SetTimer } from '../../core/time/timer.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import type { DriftReading, DriftWatch, LoopAgent, LoopEvent } from './index.ts';
import { nextPoint, onEveryPoint } from './loop-clocks.ts';
import { withinDay } from './turn/agent-checkpoints.ts';

const DAY = 24 * HOUR;

/** A clock that can be set, beside timers that go on by themselves. */
function settableClock() {
  const clock = new TestClock();
  const { now: elapsed, setTimer } = clock;
  const delaysMs: number[] = [];
  let aheadMs = 0;
  return Object.assign(clock, {
    /** The time that has passed; nobody sets it. */
    elapsed,
    /** How long the timers were set for. */
    delaysMs,
    now: () => elapsed() + aheadMs,
    setTimer: ((run, timer) => {
      delaysMs.push(timer.delayMs);
      return setTimer(run, timer);
    }) satisfies SetTimer,
    set(byMs: number): void {
      aheadMs += byMs;
    },
  });
}

class SettableWorld extends World {
  override readonly clock = settableClock();
  override readonly storage = this.clock.watch(new InMemoryCheckpointStorage());
}

const idle = (): LoopAgent => ({ handle: () => undefined });

const JUMPS = few(
  [
    ['2 minutes back', -2 * MINUTE],
    ['20 minutes back', -20 * MINUTE],
    ['a day back', -DAY],
    ['30 days back', -30 * DAY],
    ['400 days back', -400 * DAY],
    ['11 minutes forward', 11 * MINUTE],
    ['a day forward', DAY],
    ['30 days forward', 30 * DAY],
  ] as const,
  { from: 4, count: 2 },
);

/** When events of a kind were told, in minutes that passed since a moment. */
function minutesOf(clock: SettableWorld['clock'], on: (listener: (event: LoopEvent) => void) => unknown) {
  const startMs = clock.elapsed();
  const seen: { readonly what: string; readonly at: number }[] = [];
  on((event) => {
    const what = event.kind === 'checkpoint' ? event.trigger : event.kind;
    seen.push({ what, at: (clock.elapsed() - startMs) / MINUTE });
  });
  return (what: string) => seen.filter((one) => one.what === what).map(({ at }) => at);
}

/** The longest pause within a time, in minutes. */
function longestPause(minutes: readonly number[], endMinutes: number): number {
  const points = [0, ...minutes, endMinutes];
  return Math.max(...points.slice(1).map((at, before) => at - (points[before] ?? 0)));
}

describe.each(JUMPS)('a clock that is set %s', (_, jumpMs) => {
  test('[loop.10] moves no checkpoint, refresh or heartbeat by more than its interval', async () => {
    const world = new SettableWorld();
    const life = await world.start({ createAgent: idle, heartbeatMs: MINUTE });
    await world.clock.pass(10 * MINUTE);
    world.clock.set(jumpMs);
    const told = minutesOf(world.clock, (listener) => life.loop.on(listener));
    world.clock.delaysMs.length = 0;
    await world.clock.pass(4 * HOUR);
    // What waits when the clock is set may come once more than the interval says.
    expect(longestPause(told('heartbeat'), 240)).toBeLessThanOrEqual(1.01);
    expect(told('heartbeat').length).toBeLessThanOrEqual(241);
    expect(longestPause(told('schedule'), 240)).toBeLessThanOrEqual(30.3);
    expect(told('schedule').length).toBeLessThanOrEqual(9);
    expect(longestPause(told('refresh'), 240)).toBeLessThanOrEqual(121.2);
    expect(told('refresh').length).toBeLessThanOrEqual(3);
    expect(Math.max(...world.clock.delaysMs)).toBeLessThanOrEqual(2 * HOUR);
    expect(Math.min(...world.clock.delaysMs)).toBeGreaterThan(0);
  });

  test('[loop.10] after it the grid is where it was', async () => {
    const world = new SettableWorld();
    const life = await world.start({ createAgent: idle });
    const startMs = world.clock.now();
    await world.clock.pass(10 * MINUTE);
    world.clock.set(jumpMs);
    await world.clock.pass(31 * MINUTE);
    const offGrid: number[] = [];
    life.loop.on((event) => {
      if (event.kind === 'checkpoint' && event.trigger === 'schedule')
        offGrid.push(Math.abs((world.clock.now() - startMs) % (30 * MINUTE)));
    });
    await world.clock.pass(5 * HOUR);
    expect(offGrid.length).toBe(10);
    expect(offGrid.every((offMs) => offMs === 0)).toBe(true);
  });

  test('[loop.10] makes no rest longer: a message that failed is tried again after a second', async () => {
    const world = new SettableWorld();
    let tries = 0;
    const createAgent = (): LoopAgent => ({
      handle: () => {
        tries++;
        throw new Error('not yet');
      },
    });
    const { loop } = await world.start({ createAgent });
    await loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(500);
    world.clock.set(jumpMs);
    expect(tries).toBe(1);
    await world.clock.pass(499);
    expect(tries).toBe(1);
    await world.clock.pass(1);
    expect(tries).toBe(2);
    await world.clock.pass(2000);
    expect(tries).toBe(3);
  });

  test('[loop.10] does not make a turn overdue before its time, nor later', async () => {
    const world = new SettableWorld();
    const createAgent = (): LoopAgent => ({ handle: () => new Promise(() => undefined) });
    const life = await world.start({ createAgent, heartbeatMs: MINUTE });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(2.5 * MINUTE);
    world.clock.set(jumpMs);
    const told = minutesOf(world.clock, (listener) => life.loop.on(listener));
    await world.clock.pass(30 * MINUTE);
    // 10 minutes are its time, of which 7.5 are left.
    expect(told('heartbeat').length).toBeGreaterThanOrEqual(7);
    expect(told('heartbeat').at(-1)).toBeLessThanOrEqual(7.5);
  });
});

describe('the rest between two restores', () => {
  test.each([
    ['a day back', -DAY],
    ['30 days back', -30 * DAY],
    ['a day forward', DAY],
  ])('[loop.10] is no longer if the clock is set %s', async (_, jumpMs) => {
    const world = new SettableWorld();
    const drifting: DriftReading = { status: 'drifting', score: 1, signals: ['mine'], summary: 'It is lost.' };
    const healthy: DriftReading = { status: 'healthy', score: 0, signals: [], summary: '' };
    let reading = healthy;
    const watch: DriftWatch = {
      observe: () => reading,
      assess: async () => reading,
      snapshot: () => null,
      restore: () => undefined,
      reset: () => {
        reading = healthy;
      },
    };
    const createAgent = (): LoopAgent => ({
      handle: ({ body }) => {
        if (body === 'lost') reading = drifting;
      },
    });
    const life = await world.start({ createAgent, drift: { watch } });
    const told = minutesOf(world.clock, (listener) => life.loop.on(listener));
    await life.loop.deliver({ id: 'm1', body: 'lost' });
    await world.clock.pass(MINUTE);
    world.clock.set(jumpMs);
    await life.loop.deliver({ id: 'm2', body: 'lost' });
    await world.clock.pass(HOUR);
    const [first = -1, second = -1, ...more] = told('restored').filter((_at, index) => index % 2 === 0);
    expect([first, more.length]).toEqual([0, 0]);
    expect(second).toBeGreaterThanOrEqual(jumpMs < 0 ? 10 : 1);
    expect(second).toBeLessThanOrEqual(11);
  });
});

describe('times that are noted', () => {
  test('[loop.10] and lie ahead, because the clock was set back, count as just now', () => {
    const noted = withinDay([1000, 1005], 500);
    expect(noted).toEqual([500, 500]);
    expect(withinDay(noted, 499 + DAY)).toEqual([500, 500]);
    expect(withinDay(noted, 500 + DAY)).toEqual([]);
  });
});

describe('a grid', () => {
  test('[loop.10] whose timers come a little early, as timers do, has no point twice and none less', () => {
    let nowMs = 0;
    let fire = (): void => undefined;
    let delayMs = 0;
    const setTimer: SetTimer = (run, timer) => {
      fire = run;
      delayMs = timer.delayMs;
      return () => undefined;
    };
    const at: number[] = [];
    onEveryPoint({ now: () => nowMs, setTimer }, { startMs: 0, everyMs: 1000 }, () => at.push(nowMs));
    for (let point = 1; point <= 100; point++) {
      nowMs += delayMs - 1;
      fire();
    }
    expect(at).toEqual(Array.from({ length: 100 }, (_, index) => (index + 1) * 1000 - 1));
  });

  test('[loop.10] has its next point within the interval, wherever the clock is', () => {
    for (const nowMs of [-1e13, -1, 0, 1, 1e13])
      for (const startMs of [0, 1_767_225_600_000]) {
        const waitMs = nextPoint({ startMs, everyMs: 1_800_000 }, nowMs) - nowMs;
        expect(waitMs).toBeGreaterThan(0);
        expect(waitMs).toBeLessThanOrEqual(1_800_000);
      }
  });
});
