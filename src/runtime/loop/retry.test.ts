import { describe, expect, test } from 'vitest';
import { HOUR, MINUTE, World } from '../../../test/loop/world.ts';
import { LATER } from '../../../test/support/later.ts';
import { STRIDE, trials } from '../../../test/support/trials.ts';
import type { LoopAgent, Turn } from './index.ts';

const handling =
  (handle: LoopAgent['handle'], tools: LoopAgent['tools'] = {}) =>
  (): LoopAgent => ({ tools, handle });

describe('a message that is tried again', () => {
  test('[loop.3] does not repeat steps that ended; what did not keeps its key, and the turn keeps its own', async () => {
    const world = new World();
    const keys: string[] = [];
    const mails: string[] = [];
    const turns: Turn['idempotencyKey'][] = [];
    const attempts: number[] = [];
    const createAgent = handling(async (_, turn) => {
      turns.push(turn.idempotencyKey);
      attempts.push(turn.attempt);
      await turn.step('charge the card', ({ idempotencyKey }) => void keys.push(idempotencyKey));
      await turn.step('send mail', ({ idempotencyKey }) => {
        mails.push(idempotencyKey);
        if (mails.length < 3) throw new Error('smtp down');
      });
    });
    const { loop } = await world.start({ createAgent });
    await loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(MINUTE);
    expect(loop.state.mailbox.processedCount).toBe(1);
    expect(keys.length).toBe(1);
    expect([mails.length, new Set(mails).size]).toEqual([3, 1]);
    expect(new Set(turns).size).toBe(1);
    expect(attempts).toEqual([1, 2, 3]);
    await loop.deliver({ id: 'm2', body: null });
    await world.clock.pass(MINUTE);
    expect(keys.length).toBe(2);
    expect(new Set(turns).size).toBe(2);
  });

  test('[loop.3] goes on so in another process, from any moment', LATER, async () => {
    const run = async (dieAt: number): Promise<boolean> => {
      const world = new World();
      const charges: string[] = [];
      let tries = 0;
      const createAgent = handling(
        async (_, turn) => {
          await turn.call('charge', { order: 17 });
          await turn.step('mail', () => {
            if (++tries < 3) throw new Error('503');
          });
        },
        { charge: { run: (_, { idempotencyKey }) => void charges.push(idempotencyKey) } },
      );
      const settings = { maxFailures: 10 };
      const first = await world.start({ createAgent, settings });
      await world.clock.settle();
      first.dieAtCommit(first.commits + dieAt);
      await Promise.race([first.loop.deliver({ id: 'm1', body: null }), first.death]);
      await world.clock.pass(MINUTE);
      const isOver = first.loop.state.mailbox.processedCount === 1;
      first.die();
      const second = await world.start({ createAgent, settings });
      await second.loop.deliver({ id: 'm1', body: null });
      await world.clock.pass(HOUR);
      expect(second.loop.state.mailbox.processedCount, `died at commit ${dieAt}`).toBe(1);
      expect(new Set(charges).size, `died at commit ${dieAt}`).toBe(1);
      expect(charges.length, `died at commit ${dieAt}`).toBeLessThanOrEqual(2);
      return isOver;
    };
    let dieAt = 1;
    for (let isOver = false; !isOver; dieAt += STRIDE / 2) isOver = await run(dieAt);
    expect(dieAt).toBeGreaterThan(8);
  });

  test('[loop.3] that was set aside and taken back does not repeat them either', async () => {
    const world = new World();
    let charged = 0;
    let isDown = true;
    const createAgent = handling(async (_, turn) => {
      await turn.step('charge', () => ++charged);
      await turn.step('mail', () => {
        if (isDown) throw new Error('smtp down');
      });
    });
    const first = await world.start({ createAgent });
    await first.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(MINUTE);
    expect(first.loop.state.mailbox.setAside).toMatchObject([{ message: { id: 'm1' }, work: { name: 'message m1' } }]);
    first.die();
    isDown = false;
    const { loop } = await world.start({ createAgent });
    await world.clock.settle();
    await loop.resume({ retry: ['m1'] });
    await world.clock.pass(MINUTE);
    expect(loop.state.mailbox.processedCount).toBe(1);
    expect(charged).toBe(1);
  });

  test('[loop.3] that was set aside because its process died again and again does not repeat them either', async () => {
    const world = new World();
    const done: string[] = [];
    let kill: (() => void) | undefined;
    const createAgent = handling(
      async (_, turn) => {
        await turn.step('book', () => void done.push('book'));
        await turn.call('pay', 17);
        kill?.();
        if (kill !== undefined) await new Promise(() => undefined);
      },
      { pay: { run: () => void done.push('pay') } },
    );
    for (let death = 1; death <= 3; death++) {
      const life = await world.start({ createAgent }, { run: false });
      kill = () => life.die();
      void life.loop.run();
      void life.loop.deliver({ id: 'm1', body: null });
      await world.clock.settle();
    }
    kill = undefined;
    const { loop } = await world.start({ createAgent });
    await world.clock.settle();
    expect(loop.state.mailbox.setAside).toMatchObject([
      { error: { name: 'Interrupted' }, work: { name: 'message m1', done: [{ name: 'book' }, { name: 'pay' }] } },
    ]);
    await loop.resume({ retry: ['m1'] });
    await world.clock.pass(MINUTE);
    expect(loop.state.mailbox.processedCount).toBe(1);
    expect(done).toEqual(['book', 'pay']);
  });

  test('[loop.3] a task whose work fails does not repeat what the work had done', async () => {
    const world = new World();
    const done: string[] = [];
    const createAgent = (): LoopAgent => ({
      handle: () => undefined,
      async work(turn) {
        const { task } = turn.state;
        await turn.step('pay', () => done.push(`pay ${turn.attempt}`));
        if (turn.attempt === 1) throw new Error('503');
        if (task !== null)
          turn.state.task = {
            ...task,
            progress: task.progress + 0.5,
            status: task.progress === 0.5 ? 'done' : 'active',
          };
      },
    });
    const { loop } = await world.start({ createAgent, initial: { task: { id: 't', status: 'active', progress: 0 } } });
    await world.clock.pass(MINUTE);
    expect(loop.state.task?.status).toBe('done');
    expect(done).toEqual(['pay 1', 'pay 1']);
  });
});

describe('the drift watch and the loop itself', () => {
  test('[loop.28] one transient failure is no drift', async () => {
    const world = new World();
    let tries = 0;
    const createAgent = handling(
      async (_, turn) => {
        await turn.call('read', { order: 17 });
        await turn.call('pay', { order: 17 });
      },
      {
        read: { run: () => 'order 17: two books' },
        pay: {
          run: () => {
            if (++tries < 3) throw new Error('503');
            return 'paid';
          },
        },
      },
    );
    const life = await world.start({ createAgent });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(MINUTE);
    expect(life.loop.state.mailbox.processedCount).toBe(1);
    expect(life.kinds()).not.toContain('drift');
    expect(life.loop.state.context.notes).toEqual([]);
  });

  test('[loop.28] two single failures an hour: every message is handled once, nothing drifts', LATER, async () => {
    const world = new World();
    const failed = new Set<string>();
    const handled: string[] = [];
    const createAgent = handling(
      async ({ id, body }, turn) => {
        await turn.call('read', { order: id });
        await turn.call('pay', { order: id, fails: body });
        handled.push(id);
      },
      {
        read: { run: (input) => `the order ${JSON.stringify(input)}: two books, paid by card` },
        pay: {
          run: (input) => {
            const { order, fails } = input as { order: string; fails: boolean };
            if (fails && !failed.has(order)) {
              failed.add(order);
              throw new Error('503');
            }
            return `paid ${order}`;
          },
        },
      },
    );
    const life = await world.start({ createAgent });
    const hours = trials(240);
    for (let at = 0; at < hours * 10; at++) {
      await life.loop.deliver({ id: `m${at}`, body: at % 5 === 2 });
      await world.clock.pass(6 * MINUTE);
    }
    expect(failed.size).toBe(hours * 2);
    expect(handled.length).toBe(hours * 10);
    expect(new Set(handled).size).toBe(hours * 10);
    expect(life.loop.status).toBe('running');
    expect(life.kinds().filter((kind) => ['drift', 'restored', 'escalated', 'set_aside'].includes(kind))).toEqual([]);
  });

  test('[loop.18] after a drift, what the turn did is not done again, and the note says so', async () => {
    const world = new World();
    const keys: string[] = [];
    let thoughts = 0;
    const createAgent = handling(
      async (_, turn) => {
        await turn.step('think', () => ++thoughts);
        await turn.call('charge', { order: 17 });
        if (turn.state.context.notes.length === 0)
          for (let at = 0; at < 10; at++) await turn.call('poll', { order: 17 });
      },
      {
        charge: { run: (_, { idempotencyKey }) => void keys.push(idempotencyKey) },
        poll: { run: () => 'still pending' },
      },
    );
    const life = await world.start({ createAgent });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(MINUTE);
    expect(life.kinds()).toContain('restored');
    expect(life.loop.state.mailbox.processedCount).toBe(1);
    expect([keys.length, thoughts]).toEqual([1, 2]);
    const [note] = life.loop.state.context.notes;
    expect(note?.text).toContain('not done again: charge({"order":17}), poll({"order":17}) (3 times).');
    expect(note?.text).toContain('Done again if you ask for it: think.');
    expect(note?.text).not.toContain('fails'); // its own abort is no failure of a call
  });

  test('[loop.18] after a drift, none of several equal calls is made again', async () => {
    const world = new World();
    const keys: string[] = [];
    const createAgent = handling(
      async (_, turn) => {
        for (let at = 0; at < 2; at++) await turn.call('charge', { customer: 'ann' });
        if (turn.state.context.notes.length === 0) for (;;) await turn.call('look', { at: 'shelf' });
      },
      {
        charge: { run: (_, { idempotencyKey }) => void keys.push(idempotencyKey) },
        look: { run: () => 'nothing' },
      },
    );
    const life = await world.start({ createAgent });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(MINUTE);
    expect(life.loop.state.mailbox.processedCount).toBe(1);
    expect([keys.length, new Set(keys).size]).toEqual([2, 2]);
    expect(life.loop.state.context.notes[0]?.text).toContain('charge({"customer":"ann"}) (2 times)');
  });

  test('[loop.18] a loop that goes on after the restore is noticed again', async () => {
    const world = new World();
    let runs = 0;
    const createAgent = handling(
      async (_, turn) => {
        for (let at = 0; at < 300; at++) await turn.call('look', { at: 'shelf' });
      },
      { look: { run: () => (++runs > 0 ? 'nothing' : '') } },
    );
    const life = await world.start({ createAgent });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(MINUTE);
    expect(life.kinds().filter((kind) => kind === 'drift').length).toBe(2);
    expect(runs).toBeLessThan(30);
  });
});

describe('work that gets nowhere', () => {
  const idle = (work: LoopAgent['work']) => (): LoopAgent => ({ handle: () => undefined, ...(work && { work }) });
  const initial = { task: { id: 't', status: 'active', progress: 0.3 } } as const;

  test('[loop.30] slows down, also without a watch, and messages do not wait for it', async () => {
    const world = new World();
    let turns = 0;
    const life = await world.start({ createAgent: idle(() => void turns++), initial, drift: false });
    await world.clock.pass(HOUR);
    expect(turns).toBeGreaterThan(50);
    expect(turns).toBeLessThan(80);
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(100);
    expect(life.loop.state.mailbox.processedCount).toBe(1);
  });

  test.each<[string, LoopAgent['work']]>([
    ['nothing', () => undefined],
    ['the same answer of a model', async (turn) => void (await turn.step('model', () => 'I will go on.'))],
    [
      'one of two states',
      ({ state: { memory } }) => {
        memory.shortTerm.isOdd = memory.shortTerm.isOdd !== true;
      },
    ],
  ])('[loop.30] is noticed as a stall if a turn brings %s', async (_, work) => {
    const world = new World();
    const life = await world.start({ createAgent: idle(work), initial });
    await world.clock.pass(HOUR);
    const drift = life.events.find(({ kind }) => kind === 'drift');
    expect(drift).toMatchObject({
      reading: { signals: ['stall'], summary: expect.stringContaining('changed nothing') },
    });
  });

  test('[loop.30] messages that change nothing are no stall, however many', async () => {
    const world = new World();
    const life = await world.start({ createAgent: idle(() => undefined) });
    for (let n = 0; n < 50; n++) {
      await life.loop.deliver({ id: `m${n}`, body: 'ping' });
      await world.clock.pass(1000);
    }
    expect(life.loop.state.mailbox.processedCount).toBe(50);
    expect(life.kinds()).not.toContain('drift');
  });

  test('[loop.30] work that changes the state each time is neither', LATER, async () => {
    const world = new World();
    const work = (turn: Turn) => {
      const { task } = turn.state;
      if (task !== null)
        turn.state.task = { ...task, progress: task.progress + 0.01, status: task.progress > 0.9 ? 'done' : 'active' };
    };
    const life = await world.start({ createAgent: idle(work), initial });
    await world.clock.pass(1000);
    expect(life.loop.state.task?.status).toBe('done');
    expect(life.kinds()).not.toContain('drift');
  });
});

test.each([
  ['set aside', { waitMs: HOUR, reason: 'status waiting_for_retry' }],
  ['under way', { waitMs: HOUR, reason: 'status waiting_for_turn' }],
  ['accepted after the last checkpoint', { waitMs: 0, reason: '1 accepted since its last checkpoint' }],
  ['handled', { waitMs: HOUR, reason: undefined }],
])('[retention.7] age ends no loop whose process died with a message %s', async (kind, { waitMs, reason }) => {
  const world = new World();
  const createAgent = handling(async ({ id }) => {
    if (id === 'm1' || kind === 'handled') return;
    if (kind === 'set aside') throw new Error('503');
    await new Promise(() => undefined);
  });
  const life = await world.start({ createAgent, settings: { maxFailures: 1 } });
  await life.loop.deliver({ id: 'm1', body: 'begin' });
  await world.clock.pass(HOUR);
  await life.loop.deliver({ id: 'm2', body: 'pay' });
  await world.clock.pass(waitMs);
  life.die();
  world.clock.skip(40 * 24 * HOUR);
  const { verdicts } = await world.look().prune({ policy: { maxAgeDays: 30 } });
  const kept = verdicts.filter((verdict) => verdict.keep).map((verdict) => verdict.reason);
  expect(kept).toEqual(reason === undefined ? [] : [`head of branch main; still waits: ${reason}`]);
});

test.each([
  ['waiting', ['head of branch main; still waits: status waiting_on_task']],
  ['done', []],
] as const)('[retention.7] age ends no loop without messages whose task is %s', async (status, reasons) => {
  const world = new World();
  const task = { id: 't', status, progress: 0.5, details: 'until the goods arrive' };
  const life = await world.start({ createAgent: handling(async () => undefined), initial: { task } });
  await world.clock.pass(HOUR);
  await life.loop.stop();
  world.clock.skip(40 * 24 * HOUR);
  const { verdicts } = await world.look().prune({ policy: { maxAgeDays: 30 } });
  expect(verdicts.filter(({ keep }) => keep).map(({ reason }) => reason)).toEqual(reasons);
});
