import { describe, expect, test } from 'vitest';
import { HOUR, MINUTE, World } from '../../../test/loop/world.ts';
import { LATER } from '../../../test/support/later.ts';
import { STRIDE } from '../../../test/support/trials.ts';
import type { DriftReading, DriftWatch, LoopAgent } from './index.ts';

/** A watch that says what the test says. */
class ScriptedWatch implements DriftWatch {
  reading: DriftReading = { status: 'healthy', score: 0, signals: [], summary: '' };
  resets = 0;
  readonly restored: unknown[] = [];

  say(status: DriftReading['status'], sinceMs?: number): void {
    const isWell = status === 'healthy';
    this.reading = {
      status,
      score: isWell ? 0 : 1,
      signals: isWell ? [] : ['repetition'],
      summary: isWell ? '' : 'It asks the same again.',
      ...(sinceMs !== undefined && { sinceMs }),
    };
  }

  observe(): DriftReading {
    return this.reading;
  }

  async assess(): Promise<DriftReading> {
    return this.reading;
  }

  snapshot(): unknown {
    return { said: this.reading };
  }

  restore(snapshot: unknown): void {
    this.restored.push(snapshot);
  }

  reset(): void {
    this.resets++;
    this.say('healthy');
  }
}

/** Remembers its messages in every part of its mind. */
const rememberer = (): LoopAgent => ({
  handle({ id, body }, { state }) {
    if (body === 'fail') throw new Error(`cannot ${id}`);
    state.context.decisions.push(id);
    state.memory.shortTerm.last = id;
    state.memory.session.last = id;
  },
});

describe('errors', () => {
  test('[loop.16] an error is saved for recovery, but a storm of errors is not', LATER, async () => {
    const world = new World();
    const createAgent = (): LoopAgent => ({
      handle() {
        throw new Error('storm');
      },
    });
    const settings = { maxFailures: 1 };
    const { loop } = await world.start({ createAgent, settings });
    for (let second = 0; second < 900; second += 10) {
      await loop.deliver({ id: `m${second}`, body: null });
      await world.clock.pass(10_000);
    }
    const saved = await world.history({ type: 'recovery' });
    expect(saved.map(({ trigger, note }) => [trigger, note])).toEqual(Array(3).fill(['error', 'Error: storm'])); // every 5 minutes
    expect(loop.state.mailbox.setAside.length).toBe(90);
  });

  test('[loop.16] nor are more than so many a day, also when the process starts again and again', LATER, async () => {
    const world = new World();
    const settings = { maxFailures: 1, refreshEveryMs: 100 * HOUR };
    const errors = async () => (await world.history({ type: 'recovery' })).length;
    for (let hour = 0; hour < 23; hour++) {
      const life = await world.start({ createAgent: rememberer, settings });
      for (const half of [0, 30]) {
        await life.loop.deliver({ id: `m${hour}:${half}`, body: 'fail' });
        await world.clock.pass(30 * MINUTE);
      }
      life.die();
    }
    expect(await errors()).toBe(24);
    const life = await world.start({ createAgent: rememberer, settings });
    await world.clock.pass(2 * HOUR);
    await life.loop.deliver({ id: 'next day', body: 'fail' });
    await world.clock.settle();
    expect(await errors()).toBe(25);
  });
});

describe('drift', () => {
  test('[loop.18] it is saved, and goes on from the last healthy state with clean context and a note', async () => {
    const world = new World();
    const watch = new ScriptedWatch();
    const life = await world.start({ createAgent: rememberer, drift: { watch } });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(31 * MINUTE); // saved healthy, with m1
    const [, healthy] = await world.history();
    await life.loop.deliver({ id: 'm2', body: null });
    await world.clock.pass(MINUTE);
    watch.say('drifting');
    await life.loop.deliver({ id: 'm3', body: null });
    await life.loop.deliver({ id: 'm4', body: null });
    await world.clock.pass(MINUTE);

    const history = await world.history();
    expect(history.map(({ type, trigger }) => `${type} ${trigger}`)).toEqual([
      'routine started',
      'routine schedule',
      'recovery drift',
      'recovery restored',
    ]);
    expect(history[2]).toMatchObject({
      note: 'It asks the same again.',
      metadata: { health: 'drifting', driftSignals: ['repetition'] },
    });
    expect(history[3]?.metadata).toMatchObject({
      health: 'healthy',
      restoredFrom: healthy?.id,
      drifted: history[2]?.id,
    });
    expect(await world.look().load(history[2]?.id ?? '')).toMatchObject({ context: { decisions: ['m1', 'm2', 'm3'] } });

    const { context, memory, mailbox } = life.loop.state;
    expect(context.decisions).toEqual(['m1', 'm4']);
    expect(memory).toEqual({ shortTerm: { last: 'm4' }, session: { last: 'm4' } });
    expect(mailbox).toMatchObject({ processedCount: 4, pending: [], lastProcessed: { id: 'm4' } }); // not handled again, not lost
    expect(context.notes).toMatchObject([{ kind: 'drift', restoredFrom: healthy?.id, handledSince: ['m2', 'm3'] }]);
    expect(context.notes[0]?.text).toContain('It asks the same again.');
    const kinds = life.kinds().filter((kind) => ['drift', 'checkpoint', 'restored'].includes(kind));
    expect(kinds.slice(2)).toEqual(['drift', 'checkpoint', 'checkpoint', 'restored']);
    expect(watch.resets).toBe(1);
  });

  test('[loop.18] the state must be from before the drift began', async () => {
    const world = new World();
    const watch = new ScriptedWatch();
    const life = await world.start({ createAgent: rememberer, drift: { watch } });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(31 * MINUTE);
    const beganMs = world.clock.now();
    await life.loop.deliver({ id: 'spoiled', body: null });
    await world.clock.pass(30 * MINUTE); // saved as healthy: nobody knew yet
    watch.say('drifting', beganMs);
    await life.loop.deliver({ id: 'm3', body: null });
    await world.clock.settle();
    expect(life.loop.state.context.decisions).toEqual(['m1']);
  });

  test('[loop.18] a turn that drifts is ended, and its message is handled again after the restore', async () => {
    const world = new World();
    const heard: string[] = [];
    const createAgent = (): LoopAgent => ({
      tools: { search: { run: () => 'nothing found' } },
      async handle({ id }, turn) {
        heard.push(id);
        // Until it is told that this leads nowhere, it asks the same question for ever.
        while (turn.state.context.notes.length === 0) await turn.call('search', { query: 'the same' });
        turn.state.context.decisions.push('gave it up');
      },
    });
    const life = await world.start({ createAgent }); // with the real detector
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(MINUTE);
    expect(heard).toEqual(['m1', 'm1']);
    expect(life.loop.state.context.decisions).toEqual(['gave it up']);
    expect(life.kinds().filter((kind) => kind === 'restored')).toEqual(['restored']);
    expect((await world.history()).map(({ trigger }) => trigger)).toEqual(['started', 'drift', 'restored']);
    expect(life.loop.state.context.notes[0]?.text).toMatch(/search|repeat|same/i);
  });

  test('[loop.20] while it is not well, its last healthy checkpoint is not pushed out', async () => {
    const world = new World();
    const watch = new ScriptedWatch();
    const life = await world.start({
      createAgent: rememberer,
      drift: { watch },
      settings: { refreshEveryMs: 100 * HOUR },
    });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(31 * MINUTE);
    watch.say('suspect');
    await life.loop.deliver({ id: 'm2', body: null });
    await world.clock.pass(10 * HOUR);
    const healths = async () => (await world.history()).map(({ metadata }) => metadata?.health);
    expect(await healths()).toEqual(['healthy', 'suspect', 'suspect', 'suspect']);
    watch.say('drifting');
    await life.loop.deliver({ id: 'm3', body: null });
    await world.clock.settle();
    expect(life.loop.state.context.decisions).toEqual(['m1']);
    await world.clock.pass(2 * HOUR); // well again: three routine ones, and the two of the recovery
    expect(await world.look().tags('agent-1')).toEqual([]);
    expect((await world.history()).map(({ type }) => type)).toEqual([
      'recovery',
      'recovery',
      'routine',
      'routine',
      'routine',
    ]);
  });

  test('[loop.20] what the watch knows against an agent is saved with it; of a healthy one nothing is', async () => {
    const world = new World();
    const watch = new ScriptedWatch();
    const first = await world.start({ createAgent: rememberer, drift: { watch } });
    await world.clock.pass(31 * MINUTE);
    first.die();
    const second = await world.start({ createAgent: rememberer, drift: { watch } });
    expect(watch.restored).toEqual([]);
    watch.say('suspect');
    await second.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(31 * MINUTE);
    second.die();
    await world.start({ createAgent: rememberer, drift: { watch } });
    expect(watch.restored).toEqual([{ said: watch.reading }]);
    await world.clock.pass(31 * MINUTE); // nothing happened since: it is still under suspicion
    expect((await world.history()).map(({ metadata }) => metadata?.health)).toEqual(['healthy', 'suspect', 'suspect']);
  });

  test('[loop.20] what another detector remembered is no obstacle', async () => {
    const world = new World();
    const watch = new ScriptedWatch();
    const first = await world.start({ createAgent: rememberer, drift: { watch } });
    watch.say('suspect');
    await first.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(31 * MINUTE);
    first.die();
    const { loop } = await world.start({ createAgent: rememberer }); // with the real one
    expect(loop.state.context.decisions).toEqual(['m1']);
  });

  test('[loop.21] it rests between restores; after too many a person is called, also across a restart', async () => {
    const world = new World();
    const watch = new ScriptedWatch();
    const at: number[] = [];
    const createAgent = (): LoopAgent => ({
      handle(_, { state }) {
        at.push((world.clock.now() - startMs) / MINUTE);
        state.context.decisions.push('again');
        watch.say('drifting');
      },
    });
    const startMs = world.clock.now();
    const life = await world.start({ createAgent, drift: { watch } });
    for (let number = 1; number <= 6; number++) await life.loop.deliver({ id: `m${number}`, body: null });
    await world.clock.pass(50 * MINUTE);
    expect(at).toEqual([0, 0, 10, 20]); // the second restore came too soon after the first
    expect(life.loop.status).toBe('escalated');
    expect(life.events.at(-1)).toMatchObject({ kind: 'checkpoint' });
    expect(life.kinds()).toContain('escalated');
    expect((await world.history()).findLast(({ type }) => type === 'recovery')).toMatchObject({ trigger: 'escalated' });
    life.die();

    const next = await world.start({ createAgent, drift: { watch } });
    await world.clock.pass(HOUR);
    expect(next.loop.status).toBe('escalated');
    expect(at.length).toBe(4);
    expect(await next.loop.deliver({ id: 'm7', body: null })).toBe(true);
    await next.loop.resume();
    await world.clock.pass(5 * MINUTE);
    expect(next.loop.status).toBe('running');
    expect(at.length).toBeGreaterThan(4);
  });

  test('[loop.21] one that drifts and has no healthy checkpoint is not restored', async () => {
    const world = new World();
    const watch = new ScriptedWatch();
    const life = await world.start({ createAgent: rememberer, drift: { watch } });
    watch.say('suspect');
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(31 * MINUTE);
    const [healthy] = await world.history();
    expect(await world.look().tags('agent-1')).toEqual([{ name: 'last-healthy', checkpointId: healthy?.id }]);
    await world.look().untag('agent-1', 'last-healthy');
    expect(await world.look().delete(healthy?.id ?? '')).toBe(true);
    watch.say('drifting');
    await life.loop.deliver({ id: 'm2', body: null });
    await world.clock.settle();
    expect(life.loop.status).toBe('escalated');
    expect(life.loop.state.loop.escalation?.reason).toContain('never saved healthy');
    expect(life.kinds()).not.toContain('restored');
  });

  test('[loop.22] a crash at any commit of a recovery: it is brought back all the same, once', async () => {
    const run = async (dieAt: number) => {
      const world = new World();
      const watches = [new ScriptedWatch(), new ScriptedWatch()] as const;
      const first = await world.start({ createAgent: rememberer, drift: { watch: watches[0] } });
      await first.loop.deliver({ id: 'm1', body: null });
      await world.clock.pass(31 * MINUTE);
      first.dieAtCommit(first.commits + dieAt);
      watches[0].say('drifting');
      await Promise.race([first.loop.deliver({ id: 'm2', body: null }), first.death]);
      await world.clock.settle();
      const isOver = first.kinds().includes('restored');
      first.die();
      const second = await world.start({ createAgent: rememberer, drift: { watch: watches[1] } });
      await second.loop.deliver({ id: 'm2', body: null });
      await world.clock.settle();
      const triggers = (await world.history({ type: 'recovery' })).map(({ trigger }) => trigger);
      return { triggers, decisions: second.loop.state.context.decisions, isOver, handled: second.loop.state.mailbox };
    };
    let dieAt = 1;
    for (let isOver = false; !isOver; dieAt += STRIDE / 2) {
      const result = await run(dieAt);
      const where = `died at commit ${dieAt}`;
      expect(result.handled, where).toMatchObject({ processedCount: 2, pending: [], setAside: [] });
      // Before its drift was saved, nobody knows of it; then it is gone through to the end.
      if (result.triggers.length === 0) expect(result.decisions, where).toEqual(['m1', 'm2']);
      else {
        expect(result.triggers, where).toEqual(['drift', 'restored']);
        expect(result.decisions, where).toEqual(['m1']);
      }
      isOver = result.isOver;
    }
    expect(dieAt).toBeGreaterThan(8);
  });
});
