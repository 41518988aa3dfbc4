import { runInNewContext } from 'node:vm';
import { afterEach, describe, expect, test } from 'vitest';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { Workers } from '../workers/workers.ts';

const createManager = () => new CheckpointManager({ storage: new InMemoryCheckpointStorage() });

/** A plain object with an own key `__proto__`. */
const withProto = (fields: object = {}): object =>
  Object.assign(JSON.parse('{"__proto__":{"polluted":"yes"}}') as object, fields);

const protoOf = (value: object): unknown => Reflect.getOwnPropertyDescriptor(value, '__proto__')?.value;

describe('a state with an own key `__proto__`', () => {
  class Inner {
    v = 1;
    run() {
      return this.v;
    }
  }
  class Bot {
    id = 'bot';
    n = 0;
    inner: object = { v: 1 };
  }
  const bot = () => Object.defineProperties(new Bot(), Object.getOwnPropertyDescriptors(withProto({ n: 2 })));

  afterEach(() => {
    for (const { prototype } of [Object, Bot, Inner]) Reflect.deleteProperty(prototype, 'polluted');
  });

  const expectRestored = (agent: object, manager: CheckpointManager, lost: readonly string[] = []) => {
    expect(protoOf(agent)).toEqual({ polluted: 'yes' });
    expect([Reflect.get({}, 'polluted'), Reflect.get(new Bot(), 'polluted')]).toEqual([undefined, undefined]);
    expect(Reflect.get(new Inner(), 'polluted')).toBeUndefined();
    expect(manager.reportOf(agent)?.problems.map(({ path }) => path)).toEqual(lost);
  };

  test('[restore.2] has it again as a field, in a class (factory, into)', async () => {
    const manager = createManager();
    const id = await manager.save(bot());
    for (const options of [{ factory: () => new Bot() }, { into: new Bot() }]) {
      const restored = await manager.restore<Bot>(id, options);
      expectRestored(restored, manager, ['$.__proto__']); // the class does not have it
      expect([restored.n, Object.getPrototypeOf(restored)]).toEqual([2, Bot.prototype]);
    }
  });

  test('[restore.2] has it again in plain data, also from another realm', async () => {
    const manager = createManager();
    const id = await manager.save(withProto({ id: 'plain' }));
    for (const into of [{ id: 'plain' }, Object.assign(Object.create(null), { id: 'plain' })])
      expectRestored(await manager.restore<object>(id, { into }), manager);
    const foreign = runInNewContext('({ id: "plain" })') as object;
    const prototype: unknown = Object.getPrototypeOf(foreign);
    await manager.restore(id, { into: foreign, allowOther: true });
    expect([Object.getPrototypeOf(foreign) === prototype, protoOf(foreign)]).toEqual([true, { polluted: 'yes' }]);
  });

  test('[restore.2] has it again in a nested object, with and without code', async () => {
    const manager = createManager();
    const id = await manager.save(Object.assign(new Bot(), { inner: withProto({ v: 3 }) }));
    const restored = await manager.restore<Bot>(id, {
      factory: () => Object.assign(new Bot(), { inner: new Inner() }),
    });
    expect([restored.inner instanceof Inner, protoOf(restored.inner)]).toEqual([true, { polluted: 'yes' }]);
    const plain = await manager.restore<Bot>(id, { into: new Bot() });
    expect(protoOf(plain.inner)).toEqual({ polluted: 'yes' });
    expect([Reflect.get({}, 'polluted'), Reflect.get(new Inner(), 'polluted')]).toEqual([undefined, undefined]);
  });

  test('[group.3] has it again in a member of a group', async () => {
    const manager = createManager();
    const saved = await new Workers(manager).saveGroup([{ name: 'a', agent: withProto({ id: 'a' }) }], {
      groupId: 'g',
    });
    const into = { id: 'a' };
    await new Workers(manager).restoreGroup(saved.id, { into: { a: into } });
    expectRestored(into, manager);
  });
});

test('[restore.2] an object of the class, not of the agent, is not written to', async () => {
  class Bot {
    id = 'bot';
    declare opts: { a: number; run?: () => number };
  }
  Bot.prototype.opts = { a: 1, run: () => 1 };
  const manager = createManager();
  const id = await manager.save(Object.assign(new Bot(), { opts: { a: 2 } }));
  const restored = await manager.restore<Bot>(id, { factory: () => new Bot() });
  expect([restored.opts.a, new Bot().opts.a]).toEqual([2, 1]);
});

test('[restore.2] an accessor that changes the saved value is reported, the own ones of an object too', async () => {
  class Capped {
    id = 'capped';
    #y = 0;
    constructor() {
      const [get, set] = [() => this.#y, (y: number) => (this.#y = Math.min(y, 10))];
      Object.defineProperty(this, 'y', { enumerable: true, get, set });
    }
    force(y: number): this {
      this.#y = y;
      return this;
    }
  }
  const manager = createManager();
  for (const [y, paths] of [
    [18, ['$.y']],
    [8, []],
  ] as const) {
    const id = await manager.save(new Capped().force(y), { sessionId: `capped-${y}` });
    const restored = await manager.restore<Capped>(id, { factory: () => new Capped() });
    expect(manager.reportOf(restored)?.problems.map(({ path }) => path)).toEqual(paths);
  }
});

describe('what is not made of named fields', () => {
  const values: readonly (readonly [string, () => object])[] = [
    ['Map', () => new Map([[1, 2]])],
    ['Set', () => new Set([1])],
    ['Date', () => new Date(5)],
    ['Uint8Array', () => new Uint8Array([1])],
    ['TypeError', () => new TypeError('a')],
    ['URL', () => new URL('http://a')],
    ['RegExp', () => /a/],
  ];
  test.each(values)('[restore.4] is neither an agent nor put into one: %s', async (name, make) => {
    const manager = createManager();
    const id = await manager.save(make(), { sessionId: 's' });
    const other = await manager.save({ n: 1 }, { sessionId: 'other' });
    const found = `must be an agent; found a ${name}. load() returns the state.`;
    for (const one of [id, other]) {
      await expect(manager.restore(one, { into: make() })).rejects.toThrow(found);
      await expect(manager.restore(one, { factory: make })).rejects.toThrow(found);
    }
    await expect(manager.restore(id, { into: { n: 0 } })).rejects.toThrow(`found a ${name}. load() returns it.`);
    expect(await manager.restore(id)).toEqual(make());
  });

  test('[restore.4] goes into an agent that has loadState', async () => {
    class Bag extends Map<string, number> {
      id = 'bag';
      saveState() {
        return new Map(this);
      }
      loadState(state: Map<string, number>) {
        for (const [key, value] of state) this.set(key, value);
      }
    }
    const manager = createManager();
    const id = await manager.save(new Bag([['a', 1]]));
    const bag = await manager.restore<Bag>(id, { factory: () => new Bag() });
    expect([bag.get('a'), manager.reportOf(bag)?.status]).toEqual([1, 'complete']);
  });
});

describe('an agent that says what is saved of it and not how it is put back', () => {
  class Task {
    readonly title: string;
    constructor(title: string) {
      this.title = title;
    }
    run() {
      return this.title;
    }
  }
  class Worker {
    id = 'worker';
    list: Task[] = [];
    byName = new Map<string, Task>();
    all = new Set<Task>();
    current: Task | undefined = undefined;
    notes: object[] = [];
    saveState() {
      const plain = ({ title }: Task) => ({ title });
      return {
        id: this.id,
        list: this.list.map(plain),
        byName: new Map([...this.byName].map(([name, task]) => [name, plain(task)])),
        all: new Set([...this.all].map(plain)),
        current: this.current && plain(this.current),
        notes: this.notes,
      };
    }
  }

  test('[restore.4] is reported where it has nothing, and instances of a class were', async () => {
    const manager = createManager();
    const [worker, task] = [new Worker(), new Task('write')];
    Object.assign(worker, { list: [task], byName: new Map([['a', task]]), all: new Set([task]), current: task });
    worker.notes.push({ text: 'plain' });
    const restored = await manager.restore<Worker>(await manager.save(worker), { factory: () => new Worker() });
    const report = manager.reportOf(restored);
    expect(report?.status).toBe('partial');
    const fields = new Set(report?.problems.map(({ path }) => /\w+/.exec(path)?.[0]));
    expect(fields).toEqual(new Set(['list', 'byName', 'all', 'current']));
  });

  test('[restore.4] is whole where it held plain data', async () => {
    const manager = createManager();
    const worker = new Worker();
    worker.notes.push({ text: 'plain' });
    const restored = await manager.restore<Worker>(await manager.save(worker), { factory: () => new Worker() });
    expect([manager.reportOf(restored)?.status, restored.notes]).toEqual(['complete', [{ text: 'plain' }]]);
  });
});

test('[save.1] a saveState that returns nothing, or a promise, saves nothing', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  class Silent {
    readonly id = 'a';
    saveState(): unknown {
      return undefined;
    }
    loadState(): undefined {
      return undefined;
    }
  }
  class Late extends Silent {
    override async saveState(): Promise<never> {
      throw new Error('mine');
    }
  }
  const refused = (message: string) => ({ code: 'INVALID_INPUT', message: expect.stringContaining(message) });
  await expect(manager.save(new Silent())).rejects.toMatchObject(refused('saveState of the agent (Silent) returned'));
  await expect(manager.save(new Late())).rejects.toMatchObject(refused('(Late) must not be async'));
  expect((await manager.list()).checkpoints).toEqual([]);
});
