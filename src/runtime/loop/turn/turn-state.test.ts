import { describe, expect, test } from 'vitest';
import { type Life, MINUTE, World } from '../../../../test/loop/world.ts';
import type { LoopAgent, LoopTool, Turn } from '../index.ts';

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

describe('the state of a turn', () => {
  test('[loop.4] is changed between steps: inside a step or an operation that is refused, with what to do', async () => {
    const world = new World();
    const refused: unknown[] = [];
    const createAgent = acting(async (turn) => {
      const { decisions } = turn.state.context; // held across steps, as handlers do
      const attempts: (() => unknown)[] = [
        () => void decisions.push('held'),
        () => void turn.state.context.goals.push('found'),
        () => Object.assign(turn.state.memory.session, { x: 1 }),
        () => Reflect.deleteProperty(turn.state.memory, 'session'),
      ];
      for (const [at, attempt] of attempts.entries()) {
        refused.push(await turn.step(`step ${at}`, attempt).catch((error: unknown) => error));
        refused.push(
          await turn.guard(`guard ${at}`, attempt, { onFailure: 'rethrow' }).catch((error: unknown) => error),
        );
        refused.push(
          await turn.step(`later ${at}`, async () => Promise.resolve().then(attempt)).catch((error: unknown) => error),
        );
      }
      const read = await turn.step('read', () => [...turn.state.context.decisions, decisions.length]);
      const aside = turn.step('aside', async () => 'aside');
      decisions.push('between', read.length, await aside);
    });
    const { loop } = await world.start({ createAgent });
    await loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(MINUTE);
    expect(refused.length).toBe(12);
    for (const error of refused)
      expect(error).toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringContaining('change the state after it'),
      });
    expect(loop.state.context).toMatchObject({ decisions: ['between', 1, 'aside'], goals: [] });
    expect(loop.state.memory.session).toEqual({});
  });

  test('[loop.4] is changed in its parts: replaced, deleted, with a field more, or after the turn, it is refused', async () => {
    const world = new World();
    const held: Turn[] = [];
    const thrown: unknown[] = [];
    const tryTo = (act: () => unknown): void => {
      try {
        thrown.push(act());
      } catch (error) {
        thrown.push(error);
      }
    };
    const createAgent = acting((turn) => {
      held.push(turn);
      const { state } = turn;
      tryTo(() => Object.assign(turn, { state: { task: null } }));
      tryTo(() => Reflect.deleteProperty(state, 'context'));
      tryTo(() => Object.assign(state, { mood: 'fine' }));
      state.context = { ...state.context, goals: ['sell'] };
      if (held.length > 1) throw new Error('fails');
    });
    const { loop } = await world.start({ createAgent });
    await loop.deliver({ id: 'm1', body: null });
    await world.clock.settle();
    expect(thrown).toMatchObject([
      { code: 'INVALID_INPUT', message: expect.stringContaining('turn.state cannot be replaced') },
      { code: 'INVALID_INPUT', message: expect.stringContaining('turn.state.context cannot be deleted') },
      { code: 'INVALID_INPUT', message: expect.stringContaining('turn.state has no "mood"') },
    ]);
    expect(loop.state.context.goals).toEqual(['sell']);
    await loop.deliver({ id: 'm2', body: null });
    await world.clock.settle();
    thrown.length = 0;
    for (const { state } of held.slice(0, 2)) {
      tryTo(() => state.context);
      tryTo(() => ((state as { task: unknown }).task = null));
      tryTo(() => Object.keys(state));
      tryTo(() => 'task' in state);
    }
    expect(thrown).toMatchObject(Array(8).fill({ code: 'CLOSED', message: expect.stringContaining('turn has ended') }));
  });

  test('[loop.4] is what results lead to, also if the process dies later in the turn', async () => {
    let runs = 0;
    const { loop } = await dieInTurn(async (turn, die) => {
      const { decisions } = turn.state.context;
      const outcome = await turn.guard('g', async (operation) => {
        runs++;
        return operation.call('echo', 'in guard');
      });
      if (outcome.status === 'done') decisions.push(outcome.value);
      decisions.push(await turn.step('s', () => `in step ${++runs}`));
      await die();
      decisions.push('after');
    });
    expect(runs).toBe(2);
    expect(loop.state.context.decisions).toEqual(['in guard', 'in step 2', 'after']);
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

  test.each(Object.keys(edits))('[loop.4] counts however a list is changed: %s', async (name) => {
    const world = new World();
    const items = () => [{ n: 3 }, { n: 1 }, { n: 2 }];
    const expected = items();
    edits[name]?.(expected);
    const createAgent = acting((turn) => {
      edits[name]?.(turn.state.memory.session.list as Item[]);
      expect(turn.state.memory.session.list).toEqual(expected);
    });
    const initial = { memory: { shortTerm: {}, session: { list: items() } } };
    const life = await world.start({ createAgent, initial });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.settle();
    expect(life.loop.state.memory.session.list).toEqual(expected);
    life.die();
    const { loop } = await world.start({ createAgent });
    await world.clock.pass(MINUTE);
    expect(loop.state.memory.session.list).toEqual(expected);
  });

  test('[loop.4] counts also where it was not made through `turn.state`', async () => {
    const world = new World();
    const createAgent = acting((turn) => {
      const { session } = turn.state.memory;
      const made = { n: 1, at: new Date(1), tags: new Set(['a']) };
      session.made = made;
      session.first = new Map([['k', 1]]);
      made.n = 2;
      made.at.setTime(2);
      made.tags.add('b');
      (session.first as Map<string, number>).set('l', 2);
    });
    const life = await world.start({ createAgent });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.settle();
    life.die();
    const { loop } = await world.start({ createAgent });
    await world.clock.pass(MINUTE);
    const first = new Map(Object.entries({ k: 1, l: 2 }));
    expect(loop.state.memory.session).toEqual({ made: { n: 2, at: new Date(2), tags: new Set(['a', 'b']) }, first });
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

  test('[loop.4] changed in place in a turn that fails, or inside a step, they are as before', async () => {
    const world = new World();
    const createAgent = (): LoopAgent => ({
      async handle({ body }, turn) {
        const { session } = turn.state.memory;
        const act = (): void => {
          if (body === 'begin') session.values = begin();
          else spoil(session.values as Values);
          if (body === 'fail' || body === 'guard') throw new Error('broken');
        };
        if (body === 'guard') await turn.step('s', act).catch(() => undefined);
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

  test('[loop.5] nor does what a handler does to a message change the mailbox', async () => {
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

  test.each(unsavable)('[loop.4] fails its turn, and the loop goes on: %o', async (value) => {
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

  test('[loop.4] fails its turn also where it contains itself', async () => {
    const world = new World();
    const createAgent = (): LoopAgent => ({
      handle(_, { state }) {
        state.memory.session.whole = state;
      },
    });
    const life = await world.start({ createAgent });
    await life.loop.deliver({ id: 'm1', body: 'bad' });
    await world.clock.pass(MINUTE);
    const [aside] = life.loop.state.mailbox.setAside;
    const message = expect.stringContaining('contains itself');
    expect(aside).toMatchObject({ message: { id: 'm1' }, error: { code: 'INVALID_INPUT', message } });
  });

  test('[loop.4] only when it ends: what is gone by then is none, and a result that cannot be saved fails its step', async () => {
    const world = new World();
    const createAgent = acting(async (turn) => {
      Object.assign(turn.state.memory.session, { bad: () => 1 });
      await turn.step('s', () => 1);
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
  test('[loop.3] a step is not taken for another, whatever it is called', async () => {
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

  test('[input.1] what every object has is no tool', async () => {
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
