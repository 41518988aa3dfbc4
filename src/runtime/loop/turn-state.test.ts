import { describe, expect, test } from 'vitest';
import { HOUR, type Life, MINUTE, World } from '../../../test/loop/world.ts';
import type { LoopAgent, LoopTool, Turn } from './index.ts';

const tools: { readonly [name: string]: LoopTool } = {
  echo: { run: (input) => input },
  break: {
    run: () => {
      throw new Error('broken');
    },
  },
};

const acting = (act: (turn: Turn) => unknown) => (): LoopAgent => ({
  tools,
  handle: async (_, turn) => void (await act(turn)),
});

/** Takes one message, dies at a moment of the turn, and goes on in a new process. */
async function dieInTurn(act: (turn: Turn, die: () => Promise<void>) => unknown): Promise<Life> {
  const world = new World();
  let life: Life | undefined;
  let isDead = false;
  const die = async (): Promise<void> => {
    if (isDead) return;
    isDead = true;
    life?.die();
    await new Promise(() => undefined);
  };
  const createAgent = acting((turn) => act(turn, die));
  life = await world.start({ createAgent });
  await life.loop.deliver({ id: 'm1', body: null });
  await world.clock.settle();
  expect(isDead).toBe(true);
  const next = await world.start({ createAgent });
  await world.clock.pass(MINUTE);
  expect(next.loop.state.mailbox.processedCount).toBe(1);
  return next;
}

describe('what steps and operations change in the state', () => {
  test('[Y40] is there also if the process dies later in the turn', async () => {
    let runs = 0;
    const { loop } = await dieInTurn(async (turn, die) => {
      const { decisions } = turn.state.context; // held across steps, as handlers do
      await turn.guard('g', async (operation) => {
        runs++;
        await operation.call('echo', 'x');
        decisions.push('in guard');
        await turn.step('inner', () => void decisions.push('in step of guard'));
      });
      await turn.step('s', async () => {
        runs++;
        turn.state.task = { id: 't', status: 'waiting', progress: 0.5 };
        turn.state.memory.session.map = { a: 1, gone: true };
      });
      await turn.step('t', () => {
        const { map } = turn.state.memory.session as { map: { a: number; gone?: boolean } };
        map.a = 2;
        delete map.gone;
      });
      await die();
      decisions.push('after');
    });
    expect(runs).toBe(2);
    expect(loop.state.context.decisions).toEqual(['in guard', 'in step of guard', 'after']);
    expect(loop.state.task).toEqual({ id: 't', status: 'waiting', progress: 0.5 });
    expect(loop.state.memory.session).toEqual({ map: { a: 2 } });
  });

  test('[Y40] is there after a checkpoint in the turn, too', async () => {
    const world = new World();
    let isStuck = true;
    const createAgent = acting(async (turn) => {
      await turn.step('s', () => void turn.state.context.decisions.push('in step'));
      if (isStuck) await new Promise(() => undefined);
      turn.state.context.decisions.push('after');
    });
    const life = await world.start({ createAgent, settings: { turnTimeoutMs: 5 * HOUR } });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(31 * MINUTE);
    life.die();
    isStuck = false;
    const { loop } = await world.start({ createAgent });
    await world.clock.pass(MINUTE);
    expect(loop.state.context.decisions).toEqual(['in step', 'after']);
  });

  test('[Y40] a crash at any commit: steps side by side change each its own, once', async () => {
    const run = async (dieAt: number) => {
      const world = new World();
      const createAgent = acting(async (turn) => {
        const { context, memory } = turn.state;
        const one = async (name: string, turns: number) => {
          for (let at = 0; at < turns; at++) await new Promise((resolve) => setImmediate(resolve));
          context.decisions.push(name);
          memory.session[name] = { by: name };
          await Promise.resolve();
          (memory.session[name] as { by: string }).by += '!';
        };
        const guarded = turn.guard('g', async (operation) => {
          await one('guard', 1);
          await operation.call('echo', 1);
          context.constraints.push('wrong');
          throw new Error('broken');
        });
        const steps = ['a', 'b', 'c'].map((name, at) => turn.step(name, () => one(name, 2 - at)));
        context.goals.push('by the turn');
        await Promise.all([guarded, ...steps]);
        await turn.step('end', () => undefined);
      });
      const first = await world.start({ createAgent });
      await world.clock.settle();
      first.dieAtCommit(first.commits + dieAt);
      await Promise.race([first.loop.deliver({ id: 'm1', body: null }), first.death]);
      await world.clock.settle();
      const isOver = first.loop.state.mailbox.processedCount === 1;
      first.die();
      const { loop } = await world.start({ createAgent });
      await loop.deliver({ id: 'm1', body: null });
      await world.clock.pass(MINUTE);
      const { context, memory } = loop.state;
      expect([...context.decisions].sort(), `died at commit ${dieAt}`).toEqual(['a', 'b', 'c']);
      expect(memory.session, `died at commit ${dieAt}`).toEqual({ a: { by: 'a!' }, b: { by: 'b!' }, c: { by: 'c!' } });
      expect(context, `died at commit ${dieAt}`).toMatchObject({ goals: ['by the turn'], constraints: [] });
      return isOver;
    };
    let dieAt = 1;
    for (let isOver = false; !isOver; dieAt += 0.5) isOver = await run(dieAt);
    expect(dieAt).toBeGreaterThan(10);
  });

  test('[Y40] counts also where it was not made through `turn.state`', async () => {
    const { loop } = await dieInTurn(async (turn, die) => {
      const { session } = turn.state.memory;
      const made = { n: 1, at: new Date(1), tags: new Set(['a']) };
      session.made = made;
      session.first = new Map([['k', 1]]);
      await turn.step('s', () => {
        made.n = 2;
        made.at.setTime(2);
      });
      const held = session.first as Map<string, number>;
      await turn.step('t', () => void made.tags.add('b'));
      await turn.step('u', () => void held.set('l', 2));
      await die();
    });
    expect(loop.state.memory.session).toEqual({
      made: { n: 2, at: new Date(2), tags: new Set(['a', 'b']) },
      first: new Map([
        ['k', 1],
        ['l', 2],
      ]),
    });
  });

  type Item = { n: number };
  const edits: { readonly [name: string]: (list: Item[]) => unknown } = {
    push: (list) => list.push({ n: 9 }),
    pop: (list) => list.pop(),
    shift: (list) => list.shift(),
    unshift: (list) => list.unshift({ n: 9 }),
    splice: (list) => list.splice(1, 1, { n: 8 }, { n: 9 }),
    sort: (list) => list.sort((a, b) => a.n - b.n),
    reverse: (list) => list.reverse(),
    fill: (list) => list.fill({ n: 9 }, 1),
    copyWithin: (list) => list.copyWithin(0, 1),
    'an item found': (list) => Object.assign(list.find(({ n }) => n === 1) ?? {}, { n: 7 }),
    'an item at': (list) => Object.assign(list.at(-1) ?? {}, { n: 7 }),
    'items in a loop': (list) => {
      for (const item of list) item.n++;
    },
    'items for each': (list) => list.forEach((item) => void item.n++),
    'items of a slice': (list) => list.slice(1).map((item) => item.n++),
    'items of entries': (list) => Object.entries(list).map(([, item]) => item.n++),
    length: (list) => {
      list.length = 1;
    },
  };

  test.each(Object.keys(edits))('[Y40] counts however a list is changed: %s', async (name) => {
    const world = new World();
    const items = () => [{ n: 3 }, { n: 1 }, { n: 2 }];
    const expected = items();
    edits[name]?.(expected);
    let runs = 0;
    let edited = 0;
    const createAgent = acting(async (turn) => {
      await turn.step('s', () => {
        edited++;
        edits[name]?.(turn.state.memory.session.list as Item[]);
      });
      expect(turn.state.memory.session.list).toEqual(expected);
      runs++;
      if (runs > 1) return;
      life.die();
      await new Promise(() => undefined);
    });
    const initial = { memory: { shortTerm: {}, session: { list: items() } } };
    const life = await world.start({ createAgent, initial });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.settle();
    const { loop } = await world.start({ createAgent });
    await world.clock.pass(MINUTE);
    expect({ runs, edited }).toEqual({ runs: 2, edited: 1 });
    expect(loop.state.memory.session.list).toEqual(expected);
  });

  test('[Y40] a result that looks like a record of the loop is a result', async () => {
    const results: unknown[] = [];
    const odd = { 'savestate:changes': [{ op: 'add', path: ['context', 'goals', 0], value: 'x' }], result: 1 };
    const { loop } = await dieInTurn(async (turn, die) => {
      results.push(await turn.step('s', () => odd));
      await die();
    });
    expect(results).toEqual([odd, odd]);
    expect(loop.state.context.goals).toEqual([]);
  });

  test('[Y40] what was changed by a step that is not done again can be changed further', async () => {
    const { loop } = await dieInTurn(async (turn, die) => {
      await turn.step('s', () => void Object.assign(turn.state.memory.session, { list: [{ n: 1 }] }));
      await die();
      const list = turn.state.memory.session.list as { n: number }[];
      list.push({ n: 2 });
      for (const item of list) item.n *= 10;
    });
    expect(loop.state.memory.session.list).toEqual([{ n: 10 }, { n: 20 }]);
  });

  test('[Y20] a rollback puts back what was made in the turn before it, and lists that were changed otherwise', async () => {
    const world = new World();
    const createAgent = acting(async (turn) => {
      const { session } = turn.state.memory;
      const made = { n: 1 };
      session.made = made;
      session.list = [1, 2, 3];
      await turn.guard('g', () => {
        made.n = 2; // by whoever made it, not through the draft
        (session.list as number[]).reverse().pop();
        session.other = 1;
        throw new Error('broken');
      });
    });
    const { loop } = await world.start({ createAgent });
    await loop.deliver({ id: 'm1', body: null });
    await world.clock.settle();
    expect(loop.state.memory.session).toEqual({ made: { n: 1 }, list: [1, 2, 3] });
  });
});

describe('values that freezing does not protect', () => {
  const begin = () => ({
    date: new Date(0),
    url: new URL('https://a.example/'),
    bytes: new Uint8Array([1, 2]),
    map: new Map([['k', { n: 1 }]]),
    list: [{ at: new Date(5) }],
  });
  type Values = ReturnType<typeof begin>;
  const spoil = (values: Values): void => {
    values.date.setTime(99);
    values.url.hostname = 'b.example';
    values.bytes[0] = 99;
    values.map.set('k', { n: 99 });
    values.list[0]?.at.setTime(99);
  };

  test('[Y3] changed in place in a turn that fails, or in an operation, they are as before', async () => {
    const world = new World();
    const createAgent = (): LoopAgent => ({
      async handle({ body }, turn) {
        const { session } = turn.state.memory;
        const act = (): void => {
          if (body === 'begin') session.values = begin();
          else spoil(session.values as Values);
          if (body === 'fail' || body === 'guard') throw new Error('broken');
        };
        if (body === 'guard') await turn.guard('g', act);
        else act();
      },
    });
    const life = await world.start({ createAgent, settings: { maxFailures: 1 } });
    for (const body of ['begin', 'fail', 'guard']) {
      await life.loop.deliver({ id: body, body });
      await world.clock.settle();
      expect(life.loop.state.memory.session.values, body).toEqual(begin());
    }
    expect(life.loop.state.mailbox).toMatchObject({ processedCount: 2, setAside: [{ message: { id: 'fail' } }] });
    await life.loop.deliver({ id: 'change', body: 'change' });
    await world.clock.settle();
    const changed = begin();
    spoil(changed);
    expect(life.loop.state.memory.session.values).toEqual(changed);
    life.die();
    const { loop } = await world.start({ createAgent });
    await world.clock.settle();
    expect(loop.state.memory.session.values).toEqual(changed);
  });

  test('[Y5] nor does what a handler does to a message change the mailbox', async () => {
    const world = new World();
    const seen: number[] = [];
    const createAgent = (): LoopAgent => ({
      handle({ body }) {
        const date = body as Date;
        seen.push(date.getTime());
        date.setTime(99);
        throw new Error('broken');
      },
    });
    const { loop } = await world.start({ createAgent });
    await loop.deliver({ id: 'm1', body: new Date(1) });
    await world.clock.pass(MINUTE);
    expect(seen).toEqual([1, 1, 1]);
  });
});

describe('a state that cannot be saved', () => {
  class Own {}
  const holed = [1, 2, 3];
  delete holed[1];
  const unsavable = [Promise.resolve(), new Own(), () => 1, Symbol('s'), holed, { [Symbol('s')]: 1 }];

  test.each(unsavable)('[Y41] fails its turn, and the loop goes on: %o', async (value) => {
    const world = new World();
    const createAgent = (): LoopAgent => ({
      handle({ body }, { state }) {
        state.memory.session[String(body)] = body === 'bad' ? value : body;
      },
    });
    const life = await world.start({ createAgent });
    await life.loop.deliver({ id: 'm1', body: 'bad' });
    await life.loop.deliver({ id: 'm2', body: 'good' });
    await world.clock.pass(MINUTE);
    expect(life.loop.status).toBe('running');
    expect(life.loop.state.memory.session).toEqual({ good: 'good' });
    const [aside] = life.loop.state.mailbox.setAside;
    expect(aside).toMatchObject({ message: { id: 'm1' }, error: { code: 'INVALID_INPUT' } });
    expect(aside?.error.message).toContain('bad');
  });

  test('[Y41] also in a step, during which checkpoints can be taken', async () => {
    const world = new World();
    const createAgent = acting(async (turn) => {
      const spoil = () => void Object.assign(turn.state.memory.session, { bad: () => 1 });
      await turn.step('s', spoil).catch(() => undefined);
      await turn.step('t', () => () => 1).catch(() => undefined);
      delete turn.state.memory.session.bad;
      await turn.guard('g', () => undefined);
      turn.state.context.decisions.push('done');
    });
    const { loop } = await world.start({ createAgent });
    await loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(MINUTE);
    expect(loop.state.context.decisions).toEqual(['done']);
  });
});

describe('names', () => {
  test('[Y42] a step is not taken for another, whatever it is called', async () => {
    const world = new World();
    const ran: string[] = [];
    const names = ['a', 'a', 'a ~2', 'a ~2', 'a ~2 ~1', 'choose', 'guard g', 'guard g: undo 1 echo'];
    const createAgent = acting(async (turn) => {
      for (const [at, name] of names.entries()) ran.push(await turn.step(name, () => `${at} ${name}`));
      await turn.guard('g', () => undefined);
    });
    const { loop } = await world.start({ createAgent });
    await loop.deliver({ id: 'm1', body: null });
    await world.clock.settle();
    expect(ran).toEqual(names.map((name, at) => `${at} ${name}`));
    expect(loop.state.mailbox.processedCount).toBe(1);
  });

  test('[Y23] what every object has is no tool', async () => {
    const world = new World();
    const thrown: unknown[] = [];
    const createAgent = acting(async (turn) => {
      for (const name of ['constructor', 'toString', '__proto__'])
        thrown.push(await turn.call(name, 1).catch((error: unknown) => error));
    });
    const { loop } = await world.start({ createAgent });
    await loop.deliver({ id: 'm1', body: null });
    await world.clock.settle();
    expect(thrown).toMatchObject(Array(3).fill({ code: 'INVALID_INPUT' }));
  });
});
