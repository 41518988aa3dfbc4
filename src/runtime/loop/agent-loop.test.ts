import { describe, expect, test } from 'vitest';
import { HOUR, MINUTE, World } from '../../../test/loop/world.ts';
import { hasErrorCode } from '../../core/errors.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { faultyStorage } from '../../testing/index.ts';
import type { LoopAgent, Message, Turn } from './index.ts';

/** Adds up the bodies of its messages, and notes outside which ones it was handed. */
function adder(heard: string[]): () => LoopAgent {
  return () => ({
    handle({ id, body }, turn) {
      heard.push(id);
      const { session } = turn.state.memory;
      session.sum = Number(session.sum ?? 0) + Number(body);
    },
  });
}

/** An agent whose handler the test gives. */
const handling = (handle: (message: Message, turn: Turn) => unknown) => () =>
  ({ handle: async (message: Message, turn: Turn) => void (await handle(message, turn)) }) satisfies LoopAgent;

describe('turns', () => {
  test('[loop.1] a loop whose manager is closed while it runs says so', async () => {
    const world = new World();
    const { loop, manager, ended } = await world.start({ createAgent: adder([]) });
    await loop.deliver({ id: 'm1', body: 1 });
    await world.clock.settle();
    await manager.close();
    await world.clock.pass(2 * HOUR);
    expect(await ended).toMatchObject({
      code: 'CLOSED',
      message: expect.stringMatching(
        /CheckpointManager .* was closed while its loop ran.*Call stop\(\) of the loop first/,
      ),
    });
  });

  test('[loop.1] messages are handled one by one, in the order in which they came', async () => {
    const world = new World();
    const heard: string[] = [];
    const { loop, ended } = await world.start({ createAgent: adder(heard) });
    await Promise.all([loop.deliver({ id: 'm1', body: 1 }), loop.deliver({ id: 'm2', body: 2 })]);
    await world.clock.settle();
    expect(heard).toEqual(['m1', 'm2']);
    expect(loop.state.memory.session).toEqual({ sum: 3 });
    expect(loop.state.mailbox).toMatchObject({ pending: [], processedCount: 2, lastProcessed: { id: 'm2' } });
    expect(loop.status).toBe('running');
    await loop.stop();
    expect(await ended).toBe('stopped');
    expect(loop.status).toBe('ended');
  });

  test('[loop.2] after a crash turns that ended count, without being taken again', async () => {
    const world = new World();
    const heard: string[] = [];
    const first = await world.start({ createAgent: adder(heard) });
    await first.loop.deliver({ id: 'm1', body: 1 });
    await world.clock.settle();
    await first.loop.deliver({ id: 'm2', body: 2 });
    await world.clock.settle();
    first.die();
    const second = await world.start({ createAgent: adder(heard) });
    await second.loop.deliver({ id: 'm3', body: 3 });
    await world.clock.settle();
    expect(heard).toEqual(['m1', 'm2', 'm3']);
    expect(second.loop.state.memory.session).toEqual({ sum: 6 });
    expect((await world.history()).map(({ trigger }) => trigger)).toEqual(['started']);
  });

  test('[loop.2] the turn that was under way is taken up: its steps that ended are not done again', async () => {
    const world = new World();
    const outside: string[] = [];
    let isStuck = true;
    const createAgent = handling(async ({ id }, turn) => {
      const found = await turn.step('look up', () => outside.push(`look up ${id}`));
      const again = await turn.step('look up', () => outside.push(`look again ${id}`));
      if (isStuck) await new Promise(() => undefined);
      await turn.step('write', ({ attempt }) => outside.push(`write ${found} ${again} ${attempt}`));
      turn.state.memory.session.attempt = turn.attempt;
    });
    const first = await world.start({ createAgent });
    await first.loop.deliver({ id: 'm1', body: null });
    await world.clock.settle();
    first.die();
    isStuck = false;
    const second = await world.start({ createAgent });
    await world.clock.settle();
    expect(outside).toEqual(['look up m1', 'look again m1', 'write 1 2 1']);
    expect(second.loop.state.memory.session).toEqual({ attempt: 2 });
  });

  test('[loop.2] work and messages are gone through in the order in which they happened', async () => {
    const world = new World();
    const createAgent = (): LoopAgent => ({
      handle({ id }, { state }) {
        state.memory.session.log = [...asList(state.memory.session.log), id];
      },
      work: async ({ state }) => {
        const log = [...asList(state.memory.session.log), 'work'];
        state.memory.session.log = log;
        if (state.task !== null && log.filter((entry) => entry === 'work').length % 2 === 0)
          state.task.status = 'waiting';
      },
    });
    const initial = { task: { id: 't', status: 'active', progress: 0 } } as const;
    const first = await world.start({ createAgent, initial });
    await world.clock.settle();
    await first.loop.deliver({ id: 'm1', body: null });
    await world.clock.settle();
    const { log } = first.loop.state.memory.session;
    expect(log).toEqual(['work', 'work', 'm1']);
    first.die();
    const second = await world.start({ createAgent, initial });
    await world.clock.settle();
    expect(second.loop.state.memory.session.log).toEqual(log);
  });

  test('[loop.4] a turn that fails changes nothing, and a handler cannot change the state later', async () => {
    const world = new World();
    let kept: Turn['state'] | undefined;
    const createAgent = handling(({ body }, turn) => {
      turn.state.context.goals.push(String(body));
      kept = turn.state;
      if (body === 'bad') throw new Error('no');
    });
    const { loop } = await world.start({ createAgent, settings: { maxFailures: 1 } });
    await loop.deliver({ id: 'm1', body: 'bad' });
    await loop.deliver({ id: 'm2', body: 'good' });
    await world.clock.settle();
    expect(loop.state.context.goals).toEqual(['good']);
    expect(() => kept?.context.goals.push('late')).toThrow();
    expect(() => (loop.state.context.goals as string[]).push('mine')).toThrow(TypeError);
  });

  test('[loop.1] a task goes on by itself while it is active; after failures in a row it is given up with a note', async () => {
    const world = new World();
    let rounds = 0;
    const createAgent = (): LoopAgent => ({
      handle: () => undefined,
      work({ state }) {
        rounds++;
        if (rounds === 2 || rounds > 4) throw new Error('no network');
        if (state.task !== null) state.task.progress += 0.25;
      },
    });
    const { loop, events } = await world.start({
      createAgent,
      initial: { task: { id: 't', status: 'active', progress: 0 } },
    });
    await world.clock.pass(MINUTE);
    expect(loop.state.task).toEqual({ id: 't', status: 'failed', progress: 0.75 });
    expect(rounds).toBe(7);
    expect(loop.state.context.notes.map(({ text }) => text)).toEqual(['The task "t" was given up: no network']);
    expect(events).toContainEqual({ kind: 'task_failed', error: { name: 'Error', message: 'no network' } });
  });
});

describe('the mailbox', () => {
  test('[loop.5] a message is durable when deliver resolves', async () => {
    const world = new World();
    const heard: string[] = [];
    const first = await world.start({ createAgent: adder(heard) }, { run: false });
    const body = { deep: [1] };
    const delivered = first.loop.deliver({ id: 'm1', body });
    body.deep.push(2);
    expect(await delivered).toBe(true);
    first.die();
    const second = await world.start({ createAgent: adder(heard) }, { run: false });
    expect(second.loop.state.mailbox.pending).toMatchObject([{ id: 'm1', body: { deep: [1] }, failures: 0 }]);
  });

  test('[loop.5] messages from several starts without a checkpoint in between are all there', async () => {
    const world = new World();
    const heard: string[] = [];
    for (const id of ['m1', 'm2', 'm3']) {
      const life = await world.start({ createAgent: adder(heard) }, { run: false });
      await life.loop.deliver({ id, body: 1 });
      life.die();
    }
    const last = await world.start({ createAgent: adder(heard) });
    await world.clock.settle();
    expect(heard).toEqual(['m1', 'm2', 'm3']);
    expect(last.loop.state.memory.session).toEqual({ sum: 3 });
  });

  test('[loop.5] a message that comes again is the same message, also at once, later, and after a restart', async () => {
    const world = new World();
    const heard: string[] = [];
    const first = await world.start({ createAgent: adder(heard) });
    const message = { id: 'm1', body: 1 };
    expect(await Promise.all([first.loop.deliver(message), first.loop.deliver(message)])).toEqual([true, false]);
    await world.clock.settle();
    expect(await first.loop.deliver(message)).toBe(false);
    first.die();
    const second = await world.start({ createAgent: adder(heard) });
    await world.clock.settle();
    expect(await second.loop.deliver(message)).toBe(false);
    await world.clock.settle();
    expect(heard).toEqual(['m1']);
  });

  test('[loop.5] what cannot be a message is refused', async () => {
    const { loop } = await new World().start({ createAgent: adder([]) });
    const bad = [
      { id: '', body: 1 },
      { id: 'm', body: () => 1 },
      { id: 'm', body: 1, delivery: 'maybe' as 'at-most-once' },
    ];
    for (const message of bad) await expect(loop.deliver(message)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    expect(loop.state.mailbox.pending).toEqual([]);
  });

  test.each([
    ['at-least-once', ['m1', 'm1'], []],
    ['at-most-once', ['m1'], ['m1']],
  ] as const)('[loop.6] in flight at a crash, %s', async (delivery, entered, setAside) => {
    const world = new World();
    const heard: string[] = [];
    const createAgent = handling(async ({ id }) => {
      heard.push(id);
      if (heard.length === 1) await new Promise(() => undefined);
    });
    const first = await world.start({ createAgent });
    await first.loop.deliver({ id: 'm1', body: null, delivery });
    await world.clock.settle();
    first.die();
    const { loop } = await world.start({ createAgent });
    await world.clock.settle();
    expect(heard).toEqual(entered);
    expect(loop.state.mailbox.setAside.map(({ message }) => message.id)).toEqual(setAside);
  });

  test('[loop.6] a message that waited behind one in flight is handled, whatever its delivery', async () => {
    const world = new World();
    const heard: string[] = [];
    const createAgent = handling(async ({ id }) => {
      heard.push(id);
      if (heard.length === 1) await new Promise(() => undefined);
    });
    const first = await world.start({ createAgent });
    await first.loop.deliver({ id: 'm1', body: null });
    await first.loop.deliver({ id: 'm2', body: null, delivery: 'at-most-once' });
    await world.clock.settle();
    first.die();
    await world.start({ createAgent });
    await world.clock.settle();
    expect(heard).toEqual(['m1', 'm1', 'm2']);
  });

  test('[loop.7] a failed message keeps its place, rests longer each time, and is set aside in the end', async () => {
    const world = new World();
    const at: [string, number][] = [];
    const startMs = world.clock.now();
    const createAgent = handling(({ id }) => {
      at.push([id, world.clock.now() - startMs]);
      if (id === 'm1') throw new RangeError('too big');
    });
    const { loop, events } = await world.start({ createAgent });
    await loop.deliver({ id: 'm1', body: 'kept' });
    await loop.deliver({ id: 'm2', body: null });
    await world.clock.pass(MINUTE);
    expect(at).toEqual([
      ['m1', 0],
      ['m1', 1000],
      ['m1', 3000],
      ['m2', 3000],
    ]);
    const error = { name: 'RangeError', message: 'too big' };
    expect(loop.state.mailbox.setAside).toMatchObject([
      { message: { id: 'm1', body: 'kept' }, error, atMs: startMs + 3000 },
    ]);
    expect(events).toContainEqual({ kind: 'set_aside', messageId: 'm1', error });
    await loop.resume({ retry: ['m1'] });
    await world.clock.settle();
    expect(at.length).toBe(5);
  });

  test('[loop.6] a message that kills its process again and again is set aside', async () => {
    const world = new World();
    const heard: string[] = [];
    const createAgent = handling(async ({ id }) => {
      heard.push(id);
      if (id === 'deadly') await new Promise(() => undefined);
    });
    let life = await world.start({ createAgent });
    await life.loop.deliver({ id: 'deadly', body: null });
    await life.loop.deliver({ id: 'm2', body: null });
    for (let start = 1; start <= 3; start++) {
      await world.clock.settle();
      life.die();
      life = await world.start({ createAgent });
    }
    await world.clock.settle();
    expect(heard).toEqual(['deadly', 'deadly', 'deadly', 'm2']);
    expect(life.loop.state.mailbox.setAside).toMatchObject([
      { message: { id: 'deadly' }, error: { name: 'Interrupted' } },
    ]);
  });

  test('[loop.7] too many messages set aside call a person, and none is lost', async () => {
    const world = new World();
    const createAgent = handling(() => {
      throw new Error('no');
    });
    const { loop, kinds } = await openWith(world, createAgent);
    for (let at = 1; at <= 102; at++) await loop.deliver({ id: `m${at}`, body: at });
    await world.clock.pass(MINUTE);
    expect(loop.status).toBe('escalated');
    expect(loop.state.mailbox.setAside.length).toBe(100);
    expect(loop.state.mailbox.pending.map(({ id }) => id)).toEqual(['m101', 'm102']);
    expect(kinds()).toContain('escalated');
    await loop.stop();
    const { loop: next } = await world.start({ createAgent });
    await world.clock.settle();
    expect(next.status).toBe('escalated');
  });

  async function openWith(world: World, createAgent: () => LoopAgent) {
    const life = await world.start({ createAgent, settings: { maxFailures: 1 } });
    return { loop: life.loop, kinds: () => life.kinds() };
  }
});

describe('listeners', () => {
  test('[loop.9] one that rejects is told like one that throws, and breaks nothing', async () => {
    const world = new World();
    const heard: string[] = [];
    const { loop } = await world.start({ createAgent: adder(heard) }, { run: false });
    const unhandled: unknown[] = [];
    const note = (error: unknown): void => void unhandled.push(error);
    process.on('unhandledRejection', note);
    const warned = new Promise((resolve) => process.once('warning', resolve));
    loop.on(async () => {
      throw new Error('mine, later');
    });
    const run = loop.run();
    await loop.deliver({ id: 'm1', body: 1 });
    await world.clock.settle();
    expect(String(await warned)).toContain('mine, later');
    process.off('unhandledRejection', note);
    expect(unhandled).toEqual([]);
    expect(heard).toEqual(['m1']);
    await loop.stop();
    expect(await run).toBe('stopped');
  });
});

describe('trouble outside', () => {
  test('[loop.9] a storage that fails at the first checkpoint holds the clocks up, and does not stop them', async () => {
    let isBroken = false;
    const commits = new Proxy({}, { get: () => (isBroken ? 'fails' : undefined) });
    const world = new World(faultyStorage(new InMemoryCheckpointStorage(), { commits }));
    const createAgent = () => {
      isBroken = true; // awake, and nothing stored yet
      return adder([])();
    };
    const life = await world.start({ createAgent });
    await world.clock.settle();
    expect(life.kinds()).toContain('storage_failed');
    isBroken = false;
    await world.clock.pass(65 * MINUTE);
    expect((await world.history()).map(({ trigger }) => trigger)).toContain('schedule');
    await life.loop.stop();
  });

  test('[loop.9] a storage that fails for a while is waited for, and told of', async () => {
    let isBroken = false;
    const commits = new Proxy({}, { get: () => (isBroken ? 'fails' : undefined) });
    const storage = faultyStorage(new InMemoryCheckpointStorage(), { commits });
    const world = new World(storage);
    const heard: string[] = [];
    const life = await world.start({ createAgent: adder(heard) });
    await life.loop.deliver({ id: 'm1', body: 1 });
    await world.clock.settle();
    isBroken = true;
    await expect(life.loop.deliver({ id: 'm2', body: 2 })).rejects.toMatchObject({ code: 'STORAGE' });
    await world.clock.pass(35 * MINUTE);
    expect(life.kinds()).toContain('checkpoint_failed');
    isBroken = false;
    expect(await life.loop.deliver({ id: 'm2', body: 2 })).toBe(true);
    await world.clock.pass(MINUTE);
    expect(heard).toEqual(['m1', 'm2']);
  });

  test('[loop.8] a process whose agent another one drives ends with CONFLICT', async () => {
    const world = new World();
    const heard: string[] = [];
    const first = await world.start({ createAgent: adder(heard) });
    await world.clock.settle();
    const second = await world.start({ createAgent: adder(heard) });
    await second.loop.deliver({ id: 'm1', body: 1 });
    await world.clock.pass(31 * MINUTE);
    const endings = await Promise.all([first, second].map(({ ended }) => Promise.race([ended, 'runs'])));
    expect(endings.filter((ending) => hasErrorCode(ending, 'CONFLICT')).length).toBe(1);
    expect(heard).toEqual(['m1']);
  });

  test('[loop.8] with a lease the second one is refused at once', async () => {
    const world = new World();
    await world.start({ createAgent: adder([]), lease: { owner: 'one' } });
    await expect(world.start({ createAgent: adder([]), lease: { owner: 'two' } })).rejects.toMatchObject({
      code: 'CONFLICT',
    });
  });

  test('[loop.8] one that waits for the lease goes on with what the first did meanwhile', async () => {
    const world = new World();
    const first = await world.start({ createAgent: adder([]), lease: { owner: 'one' } });
    const waiting = world.start({ createAgent: adder([]), lease: { owner: 'two', waitMs: MINUTE } });
    await world.clock.settle();
    for (const id of ['m1', 'm2']) await first.loop.deliver({ id, body: 1 });
    await world.clock.settle();
    await first.loop.stop();
    await world.clock.pass(2000);
    const second = await waiting;
    await second.loop.deliver({ id: 'm3', body: 1 });
    await world.clock.settle();
    expect(second.loop.state.memory.session).toEqual({ sum: 3 });
  });

  test('[input.1] a listener that throws breaks nothing; unknown settings are refused', async () => {
    const world = new World();
    const heard: string[] = [];
    const { loop } = await world.start({ createAgent: adder(heard) }, { run: false });
    const warned = new Promise((resolve) => process.once('warning', resolve));
    loop.on(() => {
      throw new Error('mine');
    });
    void loop.run();
    await loop.deliver({ id: 'm1', body: 1 });
    await world.clock.settle();
    expect(heard).toEqual(['m1']);
    expect(String(await warned)).toContain('mine');
    const settings = [{ routineEveryMs: 0 }, { every: 1 }];
    for (const bad of settings)
      await expect(world.start({ createAgent: adder([]), settings: bad })).rejects.toMatchObject({
        code: 'INVALID_INPUT',
      });
  });
});

describe('a person', () => {
  test('[loop.7] who resumes a loop before it runs is told to run it; during the start it is waited for', async () => {
    const world = new World();
    const life = await world.start({ createAgent: adder([]) }, { run: false });
    await expect(life.loop.resume()).rejects.toMatchObject({
      code: 'CLOSED',
      message: expect.stringContaining('run()'),
    });
    life.ended = life.loop.run();
    await life.loop.resume();
    expect((await world.history()).map(({ trigger }) => trigger)).toEqual(['started', 'resumed']);
    await life.loop.stop();
    await expect(life.loop.resume()).rejects.toMatchObject({ code: 'CLOSED' });
  });

  test('[loop.7] who resumes a loop that ends before its agent is awake is told so', async () => {
    const world = new World();
    const createAgent = (): LoopAgent => {
      throw new Error('no key');
    };
    const { loop } = await world.start({ createAgent }, { run: false });
    const run = loop.run();
    const resumed = loop.resume();
    await expect(resumed).rejects.toThrow('no key');
    await expect(run).rejects.toThrow('no key');
  });

  test('[loop.7] who names a message that is not set aside is told so, and nothing is resumed', async () => {
    const world = new World();
    const createAgent = handling(({ id }) => {
      if (id === 'm1') throw new Error('no');
    });
    const { loop } = await world.start({ createAgent, settings: { maxFailures: 1 } });
    await loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(MINUTE);
    const refusal = { code: 'NOT_FOUND', message: expect.stringContaining('m7 (set aside: m1)') };
    await expect(loop.resume({ retry: ['m1', 'm7'] })).rejects.toMatchObject(refusal);
    expect(loop.state.mailbox.setAside.length).toBe(1);
    await loop.resume({ retry: ['m1'] });
    expect(loop.state.mailbox.setAside).toEqual([]);
  });
});

describe('a loop whose agent another one took over', () => {
  test('[loop.8] ends when it is given a message, and says why; none is lost or handled twice', async () => {
    const world = new World();
    const heard: string[] = [];
    const first = await world.start({ createAgent: adder(heard) });
    await world.clock.settle();
    const second = await world.start({ createAgent: adder(heard) });
    await second.loop.deliver({ id: 'm1', body: 1 });
    await world.clock.settle();
    expect(first.loop.status).toBe('running');
    const message = expect.stringMatching(/Another loop drives agent "agent-1".*"lease"/);
    await expect(first.loop.deliver({ id: 'm2', body: 2 })).rejects.toMatchObject({ code: 'CONFLICT', message });
    expect(await first.ended).toMatchObject({ code: 'CONFLICT', message });
    expect(first.loop.status).toBe('ended');
    const error = { name: 'ConflictError', message };
    expect(first.events.at(-1)).toMatchObject({ kind: 'stopped', reason: 'failed', error });
    await first.loop.stop();
    const hasEnded = {
      code: 'CLOSED',
      message: expect.stringMatching(/loop of agent "agent-1" has ended.*AgentLoop\.open/),
    };
    await expect(first.loop.deliver({ id: 'm2', body: 2 })).rejects.toMatchObject(hasEnded);
    await expect(first.loop.resume()).rejects.toMatchObject(hasEnded);
    await expect(first.manager.save(first.loop)).rejects.toMatchObject(hasEnded);
    expect(await second.loop.deliver({ id: 'm2', body: 2 })).toBe(true);
    await world.clock.settle();
    expect(heard).toEqual(['m1', 'm2']);
    expect(second.loop.status).toBe('running');
  });
});

function asList(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
