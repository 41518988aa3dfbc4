import { describe, expect, test } from 'vitest';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { Workers } from '../workers/workers.ts';

const createManager = (agents: Record<string, () => object> = {}) =>
  new CheckpointManager({ storage: new InMemoryCheckpointStorage(), agents });

/** Saves a state as an earlier release of the class `Agent` would have. */
async function saveOld(manager: CheckpointManager, fields: object): Promise<string> {
  class Agent {
    id = 'a';
    constructor() {
      Object.assign(this, fields);
    }
  }
  return manager.save(new Agent());
}

const pathsOf = (manager: CheckpointManager, agent: object) =>
  manager.reportOf(agent)?.problems.map(({ path }) => path);

describe('a class that changed since', () => {
  class Agent {
    id = 'a';
    n = 0;
    retries = 0;
    tools = ['search'];
    limits = { rounds: 5, tokens: { in: 10, out: 20 } };
    draft: string | undefined = undefined;
  }
  const ways = [
    ['registered', async (manager: CheckpointManager, id: string) => manager.restore<Agent>(id)],
    [
      'factory',
      async (manager: CheckpointManager, id: string) => manager.restore<Agent>(id, { factory: () => new Agent() }),
    ],
    ['into', async (manager: CheckpointManager, id: string) => manager.restore<Agent>(id, { into: new Agent() })],
  ] as const;

  test.each(ways)(
    '[restore.2] what the code gained keeps its default, and the report names it (%s)',
    async (_, restore) => {
      const manager = createManager({ Agent: () => new Agent() });
      const id = await saveOld(manager, { n: 1, limits: { rounds: 3, tokens: { in: 1 } } });
      const agent = await restore(manager, id);
      expect({ ...agent }).toEqual({
        ...new Agent(),
        n: 1,
        limits: { rounds: 3, tokens: { in: 1, out: 20 } },
      });
      expect(manager.reportOf(agent)?.status).toBe('partial');
      expect(pathsOf(manager, agent)).toEqual(['$.retries', '$.tools', '$.limits.tokens.out']);
    },
  );

  test.each(ways)('[restore.2] what the code lost comes back, and the report names it (%s)', async (_, restore) => {
    const manager = createManager({ Agent: () => new Agent() });
    const id = await saveOld(manager, { ...new Agent(), notes: ['x'] });
    const agent = await restore(manager, id);
    expect({ ...agent }).toEqual({ ...new Agent(), notes: ['x'] });
    expect([manager.reportOf(agent)?.status, pathsOf(manager, agent)]).toEqual(['partial', ['$.notes']]);
  });

  test('[restore.2] in an agent that was saved before, nested objects become what they were', async () => {
    const manager = createManager();
    const agent = new Agent() as Agent & { collected: Record<string, string>; later?: string };
    agent.collected = { name: 'Ann' };
    const id = await manager.save(agent);
    agent.collected.email = 'ann@example.org';
    await manager.restore(id, { into: agent });
    expect([agent.collected, manager.reportOf(agent)?.status]).toEqual([{ name: 'Ann' }, 'complete']);
    agent.later = 'x';
    await manager.restore(id, { into: agent });
    expect([agent.later, pathsOf(manager, agent)]).toEqual(['x', ['$.later']]);
  });

  test('[restore.2] getters, setters and methods of the class are not covered by saved fields', async () => {
    class Changed {
      id = 'a';
      items = [1, 2];
      readonly agentType = 'Agent';
      #name = '';
      get count() {
        return this.items.length;
      }
      get half() {
        return this.items.length / 2;
      }
      get name() {
        return this.#name;
      }
      set name(name: string) {
        this.#name = name;
      }
      get strict() {
        return 'yes';
      }
      set strict(value: string) {
        if (value !== 'yes') throw new Error('Only yes.');
      }
      run() {
        return 'ran';
      }
    }
    const manager = createManager({ Agent: () => new Changed() });
    const old = { items: [1, 2, 3], count: 3, half: 7, name: 'Ann', strict: 'no', run: true, agentType: 'Agent' };
    const agent = await manager.restore<Changed>(await saveOld(manager, old));
    expect([agent.count, agent.half, agent.name, agent.strict, agent.run()]).toEqual([3, 1.5, 'Ann', 'yes', 'ran']);
    expect(pathsOf(manager, agent)?.toSorted()).toEqual(['$.half', '$.run', '$.strict']);
  });

  test('[restore.2] an agent without a word about its loadState is compared with what was saved', async () => {
    class Forgetful {
      readonly agentType = 'Agent';
      #a = 0;
      #b = 0;
      #new = 7;
      saveState() {
        return { id: 'a', a: this.#a, b: this.#b, new: this.#new };
      }
      loadState(state: unknown): undefined {
        this.#a = (state as { a: number }).a;
      }
    }
    class Outspoken extends Forgetful {
      override loadState(state: unknown): never {
        super.loadState(state);
        return [] as never;
      }
    }
    const manager = createManager();
    const id = await saveOld(manager, { a: 1, b: 2 });
    const agent = await manager.restore<Forgetful>(id, { factory: () => new Forgetful() });
    expect(agent.saveState()).toEqual({ id: 'a', a: 1, b: 0, new: 7 });
    expect(pathsOf(manager, agent)).toEqual(['$.b', '$.new']);
    const other = await manager.restore<Outspoken>(id, { factory: () => new Outspoken() });
    expect(manager.reportOf(other)?.status).toBe('complete');
  });
});

describe('objects with code inside an agent', () => {
  class Cart {
    items: string[] = [];
    note?: string;
    get size() {
      return this.items.length;
    }
    add(item: string) {
      this.items.push(item);
    }
  }
  class Counter {
    #n = 0;
    read() {
      return this.#n;
    }
    up() {
      this.#n++;
    }
  }
  /** An agent that says what is saved, and not how it is taken back. */
  abstract class Sayer {
    id = 's';
    readonly agentType = 'Sayer';
    abstract saveState(): unknown;
  }
  const restoreInto = async <Agent extends object>(agent: Agent, change: (agent: Agent) => void, target = agent) => {
    const manager = createManager();
    const id = await manager.save(agent);
    change(agent);
    await manager.restore(id, { into: target });
    return { status: manager.reportOf(target)?.status, paths: pathsOf(manager, target) };
  };

  test('[restore.2] an instance stays and gets its fields, also inside of lists, maps and plain objects', async () => {
    class Shop extends Sayer {
      cart = new Cart();
      list = [new Cart()];
      byName = new Map([['ann', new Cart()]]);
      deep = { inner: { cart: new Cart() }, n: 1 };
      saveState() {
        const { cart, list, byName, deep, id } = this;
        const named = [...byName].map(([key, one]) => [key, { ...one }] as const);
        const inner = { cart: { ...deep.inner.cart } };
        return {
          id,
          cart: { ...cart },
          list: list.map((one) => ({ ...one })),
          byName: new Map(named),
          deep: { inner, n: deep.n },
        };
      }
    }
    const carts = (shop: Shop) => [shop.cart, shop.list[0], shop.byName.get('ann'), shop.deep.inner.cart];
    for (const target of [undefined, new Shop()]) {
      const shop = new Shop();
      for (const cart of carts(shop)) cart?.add('a');
      const change = () => carts(shop).map((cart) => cart?.add('b'));
      const { status, paths } = await restoreInto(shop, change, target);
      expect([paths, status]).toEqual([[], 'complete']);
      for (const cart of carts(target ?? shop)) {
        expect([cart instanceof Cart, cart?.size, cart?.items]).toEqual([true, 1, ['a']]);
        expect(() => cart?.add('c')).not.toThrow();
      }
    }
  });

  test('[restore.2] getters and methods of nested plain objects stay; a getter that differs is named', async () => {
    class Plain {
      id = 'p';
      stats = {
        seen: [1],
        get count() {
          return this.seen.length;
        },
      };
    }
    const plain = new Plain();
    expect(await restoreInto(plain, () => plain.stats.seen.push(2))).toEqual({ status: 'complete', paths: [] });
    plain.stats.seen.push(3);
    expect(plain.stats).toEqual({ seen: [1, 3], count: 2 });

    class Other extends Sayer {
      ops = { n: 1, double: () => 2 };
      saveState() {
        return { id: this.id, ops: { n: this.ops.n } };
      }
    }
    const other = new Other();
    expect(await restoreInto(other, () => (other.ops.n = 5))).toEqual({ status: 'complete', paths: [] });
    expect([other.ops.n, other.ops.double()]).toEqual([1, 2]);
  });

  test('[restore.2] what was saved in another form than the agent has it is named, and the agent keeps its own', async () => {
    class Forms extends Sayer {
      cart = new Cart();
      seen = new Set(['a']);
      at = new Date(0);
      carts = [new Cart()];
      bag: Set<Cart> = new Set([new Cart()]);
      #secret = 1;
      counter = new Counter();
      bump() {
        this.#secret++;
        this.counter.up();
      }
      saveState() {
        const { cart, seen, at, carts, bag, counter, id } = this;
        return {
          id,
          cart: cart.items,
          seen: [...seen],
          at: at.toISOString(),
          carts: carts.map((one) => ({ ...one })),
          bag: new Set([...bag].map((one) => ({ ...one }))),
          hidden: this.#secret,
          counter: { n: counter.read() },
        };
      }
    }
    const forms = new Forms();
    forms.carts.push(new Cart());
    const change = () => {
      forms.carts.pop();
      forms.bump();
    };
    const { status, paths } = await restoreInto(forms, change);
    expect(status).toBe('partial');
    expect(paths?.toSorted()).toEqual([
      '$.at',
      '$.bag<element>',
      '$.cart',
      '$.carts[1]',
      '$.counter',
      '$.hidden',
      '$.seen',
    ]);
    expect([forms.cart instanceof Cart, forms.seen instanceof Set, forms.at instanceof Date]).toEqual([
      true,
      true,
      true,
    ]);
  });

  test('[restore.2] an agent whose saveState fails on what was put back is not called complete', async () => {
    class Strict extends Sayer {
      carts: Cart[] = [];
      saveState() {
        for (const cart of this.carts) cart.add('checked');
        return { id: this.id, carts: this.carts.map((cart) => ({ ...cart })) };
      }
    }
    const strict = new Strict();
    strict.carts.push(new Cart());
    expect(await restoreInto(strict, () => undefined, new Strict())).toEqual({
      status: 'partial',
      paths: ['$.carts[0]'],
    });
  });

  test('[restore.2] fields that may hold several kinds of data become what they were', async () => {
    class Varied {
      id = 'v';
      at: string | Date = 'never';
      error: Error = new Error('x');
      list: number[] | { n: number } = { n: 1 };
      bytes: Uint8Array = new Uint8Array([1]);
    }
    const varied = new Varied();
    const change = () =>
      Object.assign(varied, { at: new Date(0), error: new TypeError('y'), list: [1], bytes: Buffer.from('ab') });
    expect(await restoreInto(varied, change)).toEqual({ status: 'complete', paths: [] });
    expect([varied.at, varied.error.message, varied.list]).toEqual(['never', 'x', { n: 1 }]);
  });

  test('[restore.2] a group restore that fails puts the fields of nested instances back, too', async () => {
    const manager = createManager();
    class Shop extends Sayer {
      cart = new Cart();
      saveState() {
        return { id: this.id, cart: { ...this.cart } };
      }
    }
    class Refusing {
      id = 'r';
      saveState() {
        return { id: this.id };
      }
      loadState(): undefined {
        throw new Error('No.');
      }
    }
    const [shop, refusing] = [new Shop(), new Refusing()];
    const members = [
      { name: 'a', agent: shop },
      { name: 'b', agent: refusing },
    ];
    const group = await new Workers(manager).saveGroup(members, { groupId: 'g' });
    shop.cart.add('later');
    await expect(new Workers(manager).restoreGroup(group.id, { into: { a: shop, b: refusing } })).rejects.toThrow();
    expect(shop.cart.items).toEqual(['later']);
  });
});

describe('another agent', () => {
  class Cat {
    id = 'pet';
    lives = 9;
  }
  class Dog {
    id = 'pet';
    bark = true;
  }
  const refused = { code: 'INVALID_INPUT', message: expect.stringContaining('allowOther') };

  test('[restore.3] a checkpoint of another class or agent is refused, and the agent stays as it was', async () => {
    const manager = createManager();
    const id = await manager.save(new Cat());
    const dog = new Dog();
    await expect(manager.restore(id, { into: dog })).rejects.toMatchObject(refused);
    await expect(manager.restore(id, { factory: () => new Dog() })).rejects.toMatchObject(refused);
    const [one, two] = [
      { id: 'one', n: 1 },
      { id: 'two', n: 2 },
    ];
    const ofTwo = await manager.save(two);
    await expect(manager.restore(ofTwo, { into: one })).rejects.toMatchObject(refused);
    expect([dog, one]).toEqual([new Dog(), { id: 'one', n: 1 }]);
    const group = await new Workers(manager).saveGroup([{ name: 'm', agent: two }], { groupId: 'g' });
    await expect(new Workers(manager).restoreGroup(group.id, { into: { m: one } })).rejects.toMatchObject({
      message: expect.stringContaining('allowOther'),
    });
    expect(one.n).toBe(1);
  });

  test('[restore.3] with allowOther it is taken over, named, and saved in a session of its own', async () => {
    const manager = createManager();
    const [cat, dog] = [new Cat(), new Dog()];
    const id = await manager.save(cat);
    await manager.restore(id, { into: dog, allowOther: true });
    expect(dog).toEqual({ id: 'pet', bark: true, lives: 9 });
    expect([manager.reportOf(dog)?.status, pathsOf(manager, dog)]).toEqual(['partial', ['$', '$.bark', '$.lives']]);
    const saved = await manager.get(await manager.save(dog));
    expect([saved?.sessionId === 'pet', saved?.agentType, saved?.parentId]).toEqual([false, 'Dog', undefined]);

    const [one, two] = [
      { id: 'one', n: 1 },
      { id: 'two', n: 2 },
    ];
    await manager.restore(await manager.save(two), { into: one, allowOther: true });
    expect(one).toEqual({ id: 'one', n: 2 });
    expect(await manager.get(await manager.save(one))).toMatchObject({ sessionId: 'one', agentId: 'one' });
  });

  test('[restore.3] what the options of save called an agent is what it is; made agents have no id yet', async () => {
    const manager = createManager({ Cat: () => Object.assign(new Cat(), { id: `new-${Math.random()}` }) });
    const cat = new Cat();
    const id = await manager.save(cat, { agentId: 'tom', agentType: 'pet' });
    cat.lives = 3;
    await manager.restore(id, { into: cat });
    expect([cat.lives, manager.reportOf(cat)?.status]).toEqual([9, 'complete']);
    const made = await manager.restore<Cat>(await manager.save(new Cat()));
    expect([made.id, manager.reportOf(made)?.status]).toEqual(['pet', 'complete']);
  });
});

test('[save.7] the manager is never part of the state of an agent that has it as a field', async () => {
  const manager = createManager({ Worker: () => new Worker() });
  class Worker {
    id = 'w';
    n = 0;
    checkpointManager: CheckpointManager | undefined = manager;
  }
  const worker = new Worker();
  const id = await manager.save(worker);
  expect(await manager.load(id)).toEqual({ id: 'w', n: 0 });
  const restored = await manager.restore<Worker>(id);
  expect([restored.checkpointManager === manager, manager.reportOf(restored)?.status]).toEqual([true, 'complete']);
  const plain = { id: 'p', manager };
  expect(await manager.load(await manager.save(plain))).toEqual({ id: 'p' });
  const unset = await manager.save({ id: 'q', manager: undefined });
  const filled = { id: 'q', manager };
  await manager.restore(unset, { into: filled });
  expect(filled.manager === manager).toBe(true);
});

describe('what an agent says about itself', () => {
  const header = async (value: unknown, options = {}) => {
    const manager = createManager();
    return (await manager.get(await manager.save(value, options)))?.header;
  };

  test('[save.7] numbers are names, other values of a status are their JSON, and long texts are cut', async () => {
    expect(await header({ id: 5, userId: 42n, status: { code: 1 }, contextSummary: 'x'.repeat(2000) })).toMatchObject({
      agentId: '5',
      userId: '42',
      status: '{"code":1}',
      contextSummary: 'x'.repeat(2000),
    });
    const long = await header({ status: `a\nb${'x'.repeat(600)}`, contextSummary: 'y'.repeat(20_000) });
    expect(long?.status).toMatch(/^a bx+… \[cut off: 603 characters\]$/);
    expect(long?.contextSummary).toMatch(/^y{16000,}… \[cut off: 20000 characters\]$/);
    const big = await header({ collectedFields: { big: 'z'.repeat(70_000) }, requiredFields: ['a'] });
    expect(big).toMatchObject({ collectedFields: expect.stringContaining('see the state'), requiredFields: ['a'] });
  });

  test('[save.7] an id that nothing could be found by is refused, unless save is passed one', async () => {
    for (const userId of [{ name: 'ann' }, true, 'u'.repeat(600), Number.NaN])
      await expect(header({ userId })).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringContaining('"userId"'),
      });
    expect(await header({ userId: { name: 'ann' }, id: [] }, { userId: 'ann', agentId: 'x' })).toMatchObject({
      userId: 'ann',
      agentId: 'x',
    });
    class Quiet {
      id = '';
      userId = null;
      status() {
        return 'a method';
      }
    }
    const quiet = await header(new Quiet());
    expect([quiet?.agentId, quiet?.userId, quiet?.status]).toEqual([undefined, undefined, undefined]);
  });
});

test('[restore.2] a sealed agent gets its fields; a frozen one keeps its own, and the report names them', async () => {
  class Box {
    id = 'b';
    n = 0;
  }
  const manager = createManager();
  const id = await manager.save(Object.assign(new Box(), { n: 7, extra: 1 }));
  const sealed = Object.seal(new Box());
  await manager.restore(id, { into: sealed });
  expect(sealed.n).toBe(7);
  const notAsSaved = (field: string) => ({
    path: `$.${field}`,
    problem: `"${field}" is not as it was saved. Give the agent a loadState that takes it over.`,
  });
  expect(manager.reportOf(sealed)?.problems).toEqual([notAsSaved('extra')]);
  const frozen = Object.freeze(new Box());
  await manager.restore(id, { into: frozen });
  expect(manager.reportOf(frozen)?.problems).toEqual([notAsSaved('n'), notAsSaved('extra')]);
});
