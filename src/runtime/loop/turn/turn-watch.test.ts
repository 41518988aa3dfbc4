import { describe, expect, test } from 'vitest';
import { HOUR, MINUTE, World } from '../../../../test/loop/world.ts';
import { TestClock } from '../../../../test/support/clock.ts';
import type { DriftEvent } from '../../drift/index.ts';
import type { DriftReading, DriftWatch, LoopAgent, Turn } from '../index.ts';
import { EMPTY_SECTIONS } from '../state/sections.ts';
import { Watch } from './drift-watch.ts';
import { LiveAgent } from './live-agent.ts';
import { OpenWorks } from './open-works.ts';

const WELL: DriftReading = { status: 'healthy', score: 0, signals: [], summary: '' };

/** Writes down what it is shown. */
class NotingWatch implements DriftWatch {
  readonly seen: DriftEvent[] = [];
  assessment: () => Promise<DriftReading> = async () => WELL;

  observe(event: DriftEvent): DriftReading {
    this.seen.push(event);
    return WELL;
  }

  async assess(): Promise<DriftReading> {
    return this.assessment();
  }

  snapshot(): unknown {
    return null;
  }

  restore(): void {
    this.seen.push({ kind: 'restore' });
  }

  reset(): void {
    this.seen.push({ kind: 'reset' });
  }

  digests(): (string | undefined)[] {
    return this.seen.filter(({ kind }) => kind === 'call').map(({ stateDigest }) => stateDigest);
  }
}

const handling =
  (handle: LoopAgent['handle'], tools: LoopAgent['tools'] = {}) =>
  (): LoopAgent => ({ tools, handle });

describe('a witness of a loop', () => {
  const next = (items: readonly unknown[]) => {
    let at = 0;
    return { next: { run: () => items[at++ % items.length] } };
  };

  test('[loop.28] is not an agent that hears something new each time and keeps it to itself', async () => {
    const world = new World();
    const createAgent = handling(
      async (_, turn) => {
        const got: unknown[] = [];
        for (let at = 0; at < 6; at++) got.push(await turn.call('next', {}));
        turn.state.context.decisions.push(got);
      },
      next([1, 2, 3, 4, 5, 6]),
    );
    const life = await world.start({ createAgent }); // with the real detector
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(MINUTE);
    expect(life.loop.state.context.decisions).toEqual([[1, 2, 3, 4, 5, 6]]);
    expect(life.kinds()).not.toContain('drift');
  });

  test('[loop.28] is one that asks the same and hears the same, also in turns', async () => {
    const world = new World();
    const createAgent = handling(
      async (_, turn) => {
        while (turn.state.context.notes.length === 0) await turn.call('next', {});
        turn.state.context.decisions.push('gave it up');
      },
      next(['a', 'b']),
    );
    const life = await world.start({ createAgent });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(MINUTE);
    expect(life.kinds()).toContain('restored');
    expect(life.loop.state.context.decisions).toEqual(['gave it up']);
  });

  test('[loop.28] goes by state, message, and what steps and calls of the turn answered', async () => {
    const world = new World();
    const watch = new NotingWatch();
    const tools = {
      echo: { run: (input: unknown) => input },
      break: {
        run: () => {
          throw new Error('broken');
        },
      },
    };
    const createAgent = handling(async (_, turn) => {
      const look = () => turn.call('echo', 1);
      await look(); // 0: nothing heard yet
      await look(); // 1
      await look(); // 2: as 1
      await turn.step('think', () => 'so'); // says something new
      await look(); // 3
      await turn.step('think', () => 'so');
      await look(); // 4: as 3
      await turn.call('break', 1).catch(() => undefined); // 5: as 3
      await look(); // 6
      turn.state.memory.shortTerm.n = turn.attempt;
      await look(); // 7
      delete turn.state.memory.shortTerm.n;
      await look(); // 8: as 6
    }, tools);
    const { loop } = await world.start({ createAgent, drift: { watch } });
    await loop.deliver({ id: 'm1', body: null });
    await loop.deliver({ id: 'm2', body: null });
    await world.clock.settle();
    const digests = watch.digests();
    const sameAs = digests.map((digest) => digests.indexOf(digest));
    expect(sameAs).toEqual([0, 1, 1, 3, 3, 3, 6, 7, 6, ...[0, 1, 1, 3, 3, 3, 6, 7, 6].map((at) => at + 9)]);
  });

  test('[loop.28] is none where the state cannot be digested for a while', async () => {
    const world = new World();
    const watch = new NotingWatch();
    const createAgent = handling(
      async (_, turn) => {
        turn.state.memory.shortTerm.timer = () => undefined;
        await turn.call('echo', 1);
        delete turn.state.memory.shortTerm.timer;
        turn.state.context.decisions.push('done');
      },
      { echo: { run: (input) => input } },
    );
    const { loop } = await world.start({ createAgent, drift: { watch } });
    await loop.deliver({ id: 'm1', body: null });
    await world.clock.settle();
    expect(watch.digests()).toEqual([undefined]);
    expect(loop.state.context.decisions).toEqual(['done']);
  });
});

describe('ordinary work', () => {
  const alarms = (kinds: readonly string[]) => kinds.filter((kind) => /drift|restored|escalated/.test(kind));

  test('[loop.28] the same look-up for each of many messages is no loop', async () => {
    const world = new World();
    const look = { run: () => 'The shop is open from nine to five on all days but Sunday.' };
    const createAgent = handling(
      async ({ body }, turn) => {
        await turn.call('look', { at: 'opening hours' });
        turn.state.context.decisions.push(body);
      },
      { look },
    );
    const life = await world.start({ createAgent });
    for (let n = 0; n < 20; n++) {
      await life.loop.deliver({ id: `m${n}`, body: `May I come on day ${n}?` });
      await world.clock.settle();
    }
    expect(alarms(life.kinds())).toEqual([]);
    expect(life.loop.state.context.decisions.length).toBe(20);
  });

  test('[loop.28] a call that fails three times and is made again is no drift; one that is made again for ever is', async () => {
    const world = new World();
    let failures = 3;
    const pay = {
      run: () => {
        if (failures-- > 0) throw new Error('503 service unavailable');
        return 'paid';
      },
    };
    let tries = 0;
    const createAgent = handling(
      async (_, turn) => {
        const isWarned = turn.state.context.notes.some(({ kind }) => kind === 'drift');
        while (!isWarned && !turn.signal.aborted) {
          const paid = await turn.call('pay', { order: 17 }).catch(() => undefined);
          if (paid !== undefined) return void turn.state.context.decisions.push(paid);
          tries++;
        }
      },
      { pay },
    );
    const life = await world.start({ createAgent });
    await life.loop.deliver({ id: 'm1', body: 'pay' });
    await world.clock.pass(MINUTE);
    expect(alarms(life.kinds())).toEqual([]);
    expect(life.loop.state.context.decisions).toEqual(['paid']);
    [failures, tries] = [1000, 0];
    await life.loop.deliver({ id: 'm2', body: 'pay' });
    await world.clock.pass(MINUTE);
    expect(alarms(life.kinds())).toContain('drift');
    expect(tries).toBeLessThanOrEqual(13);
  });

  test('[loop.28] a task that polls after the pauses of the loop is no loop, however short they are', async () => {
    const world = new World();
    let polls = 0;
    const createAgent = (): LoopAgent => ({
      tools: { poll: { run: () => (++polls < 12 ? 'the order is still pending' : 'shipped') } },
      handle: () => undefined,
      async work(turn) {
        if ((await turn.call('poll', { order: 17 })) === 'shipped')
          Object.assign(turn.state.task ?? {}, { status: 'done' });
      },
    });
    const initial = { task: { id: 't', status: 'active', progress: 0 } } as const;
    const life = await world.start({ createAgent, initial, settings: { retryDelayMs: 100 } });
    await world.clock.pass(HOUR);
    expect(life.loop.state.task?.status).toBe('done');
    expect([polls, alarms(life.kinds())]).toEqual([12, []]);
  });

  test('[loop.28] polling in which only a number changes is no loop, and loses no note', async () => {
    const world = new World();
    let percent = 0;
    const status = { run: () => `The export is running, ${percent++} percent of the rows are written` };
    const createAgent = handling(
      async (_, turn) => {
        turn.state.memory.shortTerm.note = 'kept';
        while (!String(await turn.call('status', { job: 7 })).includes('40'));
      },
      { status },
    );
    const life = await world.start({ createAgent });
    await life.loop.deliver({ id: 'm1', body: 'export' });
    await world.clock.pass(MINUTE);
    expect(alarms(life.kinds())).toEqual([]);
    expect([percent, life.loop.state.memory.shortTerm.note]).toEqual([41, 'kept']);
  });

  test('[loop.28] a model that is asked the same by turn.step and answers the same is a loop', async () => {
    const world = new World();
    let asked = 0;
    const createAgent = handling(async (_, turn) => {
      const ask = () => turn.step('ask', () => ++asked && 'I shall look at the file again.', { input: 'What next?' });
      while (!turn.state.context.notes.some(({ kind }) => kind === 'drift')) await ask();
    });
    const life = await world.start({ createAgent });
    await life.loop.deliver({ id: 'm1', body: 'go' });
    await world.clock.pass(MINUTE);
    expect(alarms(life.kinds())).toContain('drift');
    expect(asked).toBeLessThan(8);
  });
});

describe('what does not end', () => {
  test('[loop.13] an assessment that takes longer than a turn may is given up, and turns go on', async () => {
    const world = new World();
    const watch = new NotingWatch();
    watch.assessment = () => new Promise(() => undefined);
    const life = await world.start({ createAgent: handling(() => undefined), drift: { watch } });
    const { loop } = life;
    for (const id of ['m1', 'm2', 'm3']) await loop.deliver({ id, body: null });
    await world.clock.pass(9 * MINUTE);
    expect(loop.state.mailbox.processedCount).toBe(0);
    await world.clock.pass(12 * MINUTE);
    expect(loop.state.mailbox.processedCount).toBe(2);
    expect(life.events).toContainEqual({
      kind: 'watch_failed',
      error: { name: 'TimeoutError', message: 'assess: it took longer than 600000 ms.' },
    });
    const stopped = loop.stop(); // while it is assessed
    await world.clock.pass(MINUTE);
    await stopped;
    expect(await life.ended).toBe('stopped');
  });

  test.each(['refresh', 'restore'])('[loop.13] a hook that hangs at a %s stops the heartbeat', async (when) => {
    const world = new World();
    let isHanging = false;
    let reading = WELL;
    const watch = new NotingWatch();
    watch.assessment = async () => reading;
    const createAgent = (): LoopAgent => ({
      handle: () => {
        reading = { ...WELL, status: 'drifting', score: 1 };
      },
      sections: { memory: { restore: async () => (isHanging ? new Promise<void>(() => undefined) : undefined) } },
    });
    const life = await world.start({ createAgent, drift: { watch }, heartbeatMs: MINUTE });
    await world.clock.pass(31 * MINUTE);
    isHanging = true;
    if (when === 'refresh') await world.clock.pass(91 * MINUTE);
    else {
      await life.loop.deliver({ id: 'm1', body: null });
      await world.clock.pass(MINUTE);
    }
    const beats = () => life.kinds().filter((kind) => kind === 'heartbeat').length;
    const before = beats();
    await world.clock.pass(6 * MINUTE);
    expect(beats() - before).toBeGreaterThan(4);
    await world.clock.pass(5 * MINUTE);
    const late = beats();
    await world.clock.pass(HOUR);
    expect(beats()).toBe(late);
  });
});

describe('a person who resumes during a turn', () => {
  test('[loop.12] does not disturb it', async () => {
    const world = new World();
    let end = (): void => undefined;
    const createAgent = handling(async ({ id }, turn) => {
      const { shortTerm } = turn.state.memory;
      shortTerm.list ??= [];
      if (id === 'm2') await new Promise<void>((resolve) => (end = resolve));
      (shortTerm.list as string[]).push(id);
      turn.state.context.decisions.push(id);
    });
    const { loop } = await world.start({ createAgent });
    for (const id of ['m1', 'm2']) {
      await loop.deliver({ id, body: null });
      await world.clock.settle();
    }
    await loop.resume();
    end();
    await world.clock.settle();
    expect(loop.state.context.decisions).toEqual(['m1', 'm2']);
    expect(loop.status).toBe('running');
  });

  test('[loop.12] does not change the mind that it works on: clean context begins with its end, also after a crash', () => {
    const mind = { ...EMPTY_SECTIONS, memory: { shortTerm: { list: ['m1'] }, session: {} } };
    const agentWith = (): LiveAgent =>
      new LiveAgent({
        createAgent: handling(() => undefined),
        watch: new Watch(undefined, { agentId: 'a', ports: new TestClock(), timeoutMs: 1, tell: () => undefined }),
        works: new OpenWorks(),
        mind,
        nowMs: 0,
        onProblem: () => undefined,
      });
    const job = { kind: 'work' } as const;
    const patches = [{ op: 'add' as const, path: ['memory', 'shortTerm', 'list', 1], value: 'm2' }];
    const live = agentWith();
    live.start(job);
    live.isActing = true;
    live.clean();
    expect(live.state.memory.shortTerm).toEqual({ list: ['m1'] });
    const saved = live.capture();
    const outcome = live.settle({ turn: 1, job, atMs: 0, status: 'done', patches });
    expect(live.state.memory.shortTerm).toEqual({});
    const replayed = agentWith();
    replayed.settle(outcome);
    expect(replayed.state.memory.shortTerm).toEqual({});
    const next = agentWith();
    next.load(saved);
    expect(next.state.memory.shortTerm).toEqual({ list: ['m1'] });
    next.settle({ turn: 1, job, atMs: 0, status: 'failed', error: { name: 'Error', message: 'x' }, isFinal: false });
    expect(next.state.memory.shortTerm).toEqual({});
  });
});

describe('goals', () => {
  test('[loop.29] are told when the watch begins anew, and when they change', async () => {
    const world = new World();
    const watch = new NotingWatch();
    const createAgent = handling(({ body }, { state }) => {
      if (typeof body === 'string') state.context.goals = [body];
    });
    const initial = { context: { goals: ['sell'], constraints: [], decisions: [], notes: [] } };
    const { loop } = await world.start({ createAgent, drift: { watch }, initial });
    const deliver = async (id: string, body: unknown = null) => {
      await loop.deliver({ id, body });
      await world.clock.settle();
    };
    await deliver('m1');
    await deliver('m2', 'buy');
    await deliver('m3');
    await deliver('m4');
    await world.clock.pass(2 * HOUR + MINUTE); // a refresh
    await deliver('m5');
    const told = watch.seen.filter(({ kind }) => kind === 'goal' || kind === 'reset');
    expect(told.map(({ kind, text }) => text ?? kind)).toEqual(['sell', 'buy', 'reset', 'buy']);
  });
});

test('[drift.8] a goal of the context that fades from what is said is drift, in whatever words it is written', async () => {
  const world = new World();
  const texts = ['caravan', 'porcelain', 'mountain', 'monsoon', 'falcon', 'granite', 'lantern', 'glacier', 'orchid'];
  const createAgent = handling(({ body }, turn) => {
    const n = Number(body);
    const said = Array.from({ length: 30 }, (_, at) => `${texts[(n * 7 + at * at) % 9]}${n * 100 + at}`).join(' ');
    turn.observe({ kind: 'message', agent: 'agent-1', text: said });
  });
  const goals = ['Fix the failing unit tests in the payment module'];
  const initial = { context: { goals, constraints: [], decisions: [], notes: [] } };
  const { loop, events } = await world.start({ createAgent, initial, drift: { without: ['stall'] } });
  for (let n = 0; n < 45; n++) {
    await loop.deliver({ id: `m${n}`, body: n });
    await world.clock.pass(MINUTE);
  }
  const drift = events.find(({ kind }) => kind === 'drift');
  expect(drift).toMatchObject({ reading: { signals: ['goal-adherence'], summary: expect.stringContaining('paymen') } });
});

test('[loop.28] the note on a drift does not say of a call that it fails again, unless it failed before', async () => {
  const world = new World();
  let calls = 0;
  const list = {
    run: () => {
      if (++calls % 2 === 0) throw new Error('down');
      return 'a b';
    },
  };
  const createAgent = handling(
    async (_, turn) => {
      if (turn.state.context.notes.length > 0) return;
      for (let n = 0; n < 12; n++) await turn.call('list', {}).catch(() => undefined);
    },
    { list },
  );
  const { loop } = await world.start({ createAgent });
  await loop.deliver({ id: 'm1', body: null });
  await world.clock.pass(MINUTE);
  expect(loop.state.context.notes[0]?.text).toContain('shows signs of drift (loop)');
  expect(loop.state.context.notes[0]?.text).not.toContain('fails again');
});

test('[input.1] what is no event is not shown to the watch', async () => {
  const world = new World();
  const watch = new NotingWatch();
  const createAgent = handling((_, turn: Turn) => {
    for (const event of [null, undefined, 5, 'text']) turn.observe(event as unknown as DriftEvent);
    turn.state.context.decisions.push('done');
  });
  const { loop } = await world.start({ createAgent, drift: { watch } });
  await loop.deliver({ id: 'm1', body: null });
  await world.clock.settle();
  expect(loop.state.context.decisions).toEqual(['done']);
  expect(watch.seen.map(({ kind }) => kind)).toEqual(['message']);
});
