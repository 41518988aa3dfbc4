import { EventEmitter } from 'node:events';
import { describe, expect, test } from 'vitest';
import { HOUR, MINUTE, World } from '../../../test/loop/world.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { LoopAgent, Turn } from './index.ts';
import { nextPoint } from './loop-clocks.ts';

const idle = (): LoopAgent => ({ handle: () => undefined });

/** Minutes since the world began at which checkpoints of a type were taken. */
async function minutesOf(world: World, startMs: number, type: string): Promise<number[]> {
  return (await world.history({ type })).map(({ timestamp }) => (timestamp.getTime() - startMs) / MINUTE);
}

describe('the schedule', () => {
  test('[loop.10] a new agent is saved at once, and then every 30 minutes', async () => {
    const world = new World();
    const startMs = world.clock.now();
    await world.start({ createAgent: idle });
    await world.clock.pass(61 * MINUTE);
    expect(await minutesOf(world, startMs, 'routine')).toEqual([0, 30, 60]);
    expect((await world.history()).map(({ trigger }) => trigger)).toEqual(['started', 'schedule', 'schedule']);
  });

  test('work that waits for nothing gives way to timers', async () => {
    let hasGivenWay = false;
    let turns = 0;
    const work: LoopAgent['work'] = ({ state }) => {
      state.memory.session.turns = ++turns;
      if (state.task !== null && (hasGivenWay || turns === 5000)) state.task.status = 'done';
    };
    const task = { id: 'count', status: 'active', progress: 0 } as const;
    const { loop } = await new World().start({ createAgent: () => ({ ...idle(), work }), initial: { task } });
    setImmediate(() => {
      hasGivenWay = true;
    });
    await new Promise<void>((resolve) => loop.on(() => loop.state.task?.status === 'done' && resolve()));
    await loop.stop();
    expect(turns).toBeLessThan(5000);
  });

  test('[retention.14] with each checkpoint it prunes its own session only', async () => {
    const world = new World();
    const past = new CheckpointManager({ storage: world.storage, now: () => world.clock.now() - 192 * HOUR });
    const ids: string[] = [];
    for (const sessionId of ['agent-1', 'other', 'agent-1', 'other'])
      ids.push(await past.save({}, { sessionId, agentId: sessionId, type: 'recovery' }));
    await world.start({ createAgent: idle, sessionId: 'agent-1', prune: true });
    await world.clock.pass(31 * MINUTE);
    const left = await world.history({ type: 'recovery' });
    expect(left.map(({ id }) => ids.indexOf(id))).toEqual([1, 3]);
  });

  test('[loop.10] the grid does not move: late timers, pauses and restarts change nothing', async () => {
    const world = new World();
    const startMs = world.clock.now();
    const first = await world.start({ createAgent: idle });
    await world.clock.settle();
    world.clock.skip(40 * MINUTE); // paused: the one at 30 comes late
    await world.clock.pass(21 * MINUTE);
    expect(await minutesOf(world, startMs, 'routine')).toEqual([0, 40, 60]);
    first.die();
    await world.clock.pass(44 * MINUTE);
    await world.start({ createAgent: idle });
    await world.clock.pass(46 * MINUTE);
    expect(await minutesOf(world, startMs, 'routine')).toEqual([60, 120, 150]);
  });

  test('[loop.10] points of a grid stay where they are, and what was missed together is one point', () => {
    const grid = { startMs: 1000, everyMs: 30 };
    expect(nextPoint(grid, 1000)).toBe(1030);
    expect(nextPoint(grid, 1029.5)).toBe(1030);
    expect(nextPoint(grid, 1030)).toBe(1060);
    expect(nextPoint(grid, 1000 + 3_000_007)).toBe(1000 + 3_000_030);
    expect(nextPoint(grid, 0)).toBe(10);
  });

  test('[loop.11] during a turn too: what the turn did so far is in the checkpoint, and is not done again', async () => {
    const world = new World();
    const outside: string[] = [];
    let isStuck = true;
    const createAgent = (): LoopAgent => ({
      async handle(_, turn) {
        await turn.step('first', () => outside.push('first'));
        if (isStuck) await new Promise(() => undefined);
        await turn.step('second', () => outside.push('second'));
        turn.state.memory.session.isDone = true;
      },
    });
    const settings = { turnTimeoutMs: 24 * HOUR };
    const first = await world.start({ createAgent, settings });
    await first.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(31 * MINUTE);
    expect((await world.history()).at(-1)).toMatchObject({ trigger: 'schedule' });
    first.die();
    isStuck = false;
    const second = await world.start({ createAgent, settings });
    await world.clock.settle();
    expect(outside).toEqual(['first', 'second']);
    expect(second.loop.state).toMatchObject({ memory: { session: { isDone: true } }, mailbox: { processedCount: 1 } });
  });

  test('[loop.12] after 2 hours it is saved for recovery and goes on as a new agent with clean context', async () => {
    const world = new World();
    const startMs = world.clock.now();
    let made = 0;
    const createAgent = (): LoopAgent => {
      made++;
      return {
        handle(_, { state }) {
          state.memory.shortTerm.draft = 'half a thought';
          state.memory.session.fact = 'a fact';
          state.context.decisions.push('a decision');
          state.task = { id: 't', status: 'waiting', progress: 0.5 };
        },
      };
    };
    const life = await world.start({
      createAgent,
      initial: { context: { goals: ['g'], constraints: ['c'], decisions: [], notes: [] } },
    });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(119 * MINUTE);
    expect(life.loop.state.memory.shortTerm).toEqual({ draft: 'half a thought' });
    await world.clock.pass(2 * MINUTE);
    expect(made).toBe(2);
    expect(await minutesOf(world, startMs, 'recovery')).toEqual([120]);
    expect(life.loop.state).toMatchObject({
      memory: { shortTerm: {}, session: { fact: 'a fact' } },
      context: { goals: ['g'], constraints: ['c'], decisions: ['a decision'] },
      task: { id: 't', progress: 0.5 },
    });
    const refreshed = life.events.find(({ kind }) => kind === 'refreshed');
    expect(refreshed).toMatchObject({ report: { status: 'complete' } });
    life.die(); // right after: the next process begins with the same clean context
    const { loop } = await world.start({ createAgent });
    expect(loop.state.memory).toEqual({ shortTerm: {}, session: { fact: 'a fact' } });
  });

  test('[loop.12] or the run ends for a new process to go on', async () => {
    const world = new World();
    const createAgent = (): LoopAgent => ({
      handle(_, { state }) {
        state.memory.shortTerm.draft = 1;
        state.memory.session.fact = 2;
      },
    });
    const first = await world.start({ createAgent, refresh: 'exit' });
    await first.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(2 * HOUR);
    expect(await first.ended).toBe('refresh');
    const second = await world.start({ createAgent, refresh: 'exit' });
    expect(second.loop.state.memory).toEqual({ shortTerm: {}, session: { fact: 2 } });
    await world.clock.settle();
    expect(second.loop.status).toBe('running');
  });

  test('[loop.12] a refresh waits for the turn under way', async () => {
    const world = new World();
    let finish: () => void = () => undefined;
    const createAgent = (): LoopAgent => ({
      handle: () =>
        new Promise<void>((resolve) => {
          finish = resolve;
        }),
    });
    const life = await world.start({ createAgent, settings: { turnTimeoutMs: 24 * HOUR } });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(3 * HOUR);
    expect(life.kinds()).not.toContain('refreshed');
    finish();
    await world.clock.settle();
    expect(life.kinds().filter((kind) => kind === 'refreshed' || kind === 'turn')).toEqual(['turn', 'refreshed']);
  });

  test('[loop.13] a heartbeat is told while no turn is overdue; an overdue turn is aborted', async () => {
    const world = new World();
    const seen: Turn[] = [];
    const createAgent = (): LoopAgent => ({
      handle(_, turn) {
        seen.push(turn);
        return new Promise(() => undefined);
      },
    });
    const life = await world.start({ createAgent, heartbeatMs: 10_000, settings: { turnTimeoutMs: 5 * MINUTE } });
    const beats = () => life.kinds().filter((kind) => kind === 'heartbeat').length;
    await world.clock.pass(MINUTE);
    expect(beats()).toBe(6);
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(5 * MINUTE);
    expect(beats()).toBe(36);
    expect(seen[0]?.signal.aborted).toBe(true);
    await world.clock.pass(5 * MINUTE);
    expect(beats()).toBe(36);
  });
});

describe('stopping', () => {
  test('[loop.14] saves once more, and the next process goes on from there', async () => {
    const world = new World();
    const createAgent = (): LoopAgent => ({
      handle({ id }, { state }) {
        state.context.decisions.push(id);
      },
    });
    const source = new EventEmitter();
    const first = await world.start({ createAgent });
    source.on('SIGTERM', () => void first.loop.stop());
    await first.loop.deliver({ id: 'm1', body: null });
    await world.clock.settle();
    source.emit('SIGTERM');
    expect(await first.ended).toBe('stopped');
    expect((await world.history()).at(-1)).toMatchObject({ type: 'routine', trigger: 'stopped' });
    const second = await world.start({ createAgent });
    expect(second.loop.state.context.decisions).toEqual(['m1']);
    await first.loop.stop();
  });

  test('[loop.14] a turn that does not end in time is aborted and taken up again', async () => {
    const world = new World();
    const outside: string[] = [];
    let isSlow = true;
    const createAgent = (): LoopAgent => ({
      async handle(_, turn) {
        await turn.step('first', () => outside.push('first'));
        if (isSlow)
          await new Promise((_resolve, reject) =>
            turn.signal.addEventListener('abort', () => reject(turn.signal.reason)),
          );
        await turn.step('second', () => outside.push('second'));
      },
    });
    const first = await world.start({ createAgent });
    await first.loop.deliver({ id: 'm1', body: null });
    await world.clock.settle();
    const stopped = first.loop.stop({ graceMs: 1000 });
    await world.clock.pass(2000);
    await stopped;
    isSlow = false;
    const second = await world.start({ createAgent });
    await world.clock.settle();
    expect(outside).toEqual(['first', 'second']);
    expect(second.loop.state.mailbox).toMatchObject({ processedCount: 1, pending: [] });
    expect(first.kinds().at(-1)).toBe('stopped');
  });

  test('[loop.14] a turn that ignores its signal is not waited for, and what it does later does no harm', async () => {
    const world = new World();
    const keys: string[] = [];
    const late: unknown[] = [];
    let end = (): void => undefined;
    const hanging = new Promise<void>((resolve) => {
      end = resolve;
    });
    let isDeaf = true;
    const createAgent = (): LoopAgent => ({
      tools: { mail: { run: () => late.push('sent') } },
      async handle(_, turn) {
        const isLate = isDeaf;
        await turn
          .step('book', async ({ idempotencyKey }) => {
            keys.push(idempotencyKey);
            if (isDeaf) await hanging;
          })
          .catch((error: unknown) => late.push(error));
        turn.state.context.decisions.push(isLate ? 'late' : 'in time');
        if (isLate) await turn.call('mail', 'too late').catch((error: unknown) => late.push(error));
      },
    });
    const first = await world.start({ createAgent });
    await first.loop.deliver({ id: 'm1', body: null });
    await world.clock.settle();
    const stopped = first.loop.stop({ graceMs: 1000 });
    await world.clock.pass(1000);
    await stopped;
    expect(await first.ended).toBe('stopped');
    isDeaf = false;
    const second = await world.start({ createAgent });
    await world.clock.settle();
    end();
    await world.clock.settle();
    second.die();
    const { loop } = await world.start({ createAgent });
    await world.clock.settle();
    expect(loop.state.context.decisions).toEqual(['in time']);
    expect(loop.state.mailbox).toMatchObject({ processedCount: 1, pending: [], setAside: [] });
    expect([keys.length, new Set(keys).size]).toEqual([2, 1]);
    expect(late).toMatchObject([{ code: 'CLOSED' }, { name: 'AbortError' }]);
  });
});
