import { describe, expect, test } from 'vitest';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';

const createManager = () => new CheckpointManager({ storage: new InMemoryCheckpointStorage() });

const pathsOf = (manager: CheckpointManager, agent: object) =>
  manager.reportOf(agent)?.problems.map(({ path }) => path);

describe('a checkpoint of another agent or class', () => {
  class Bot {
    id = 'bot';
    n = 0;
    run() {
      return this.n;
    }
  }
  test.each([
    ['a factory of plain data', { factory: () => ({}) }],
    ['plain data', { into: {} }],
  ])('[restore.3] is not put into %s unless asked for', async (_, options) => {
    const manager = createManager();
    const id = await manager.save(Object.assign(new Bot(), { n: 7 }));
    await expect(manager.restore(id, options)).rejects.toThrow('of type Bot, and it was to be put into');
    const other = await manager.restore<Bot>(id, { ...options, allowOther: true });
    expect([other.n, manager.reportOf(other)?.status]).toEqual([7, 'partial']);
  });

  test('[restore.3] a list is no agent', async () => {
    const manager = createManager();
    const id = await manager.save(new Bot());
    await expect(manager.restore(id, { into: [] })).rejects.toThrow('must be an agent; found a list');
  });

  test.each([
    class Reg extends Map<string, number> {},
    class Bag extends Set<number> {},
    class Row extends Array<number> {},
    class Day extends Date {},
  ])('[restore.4] an agent whose content is in no field is refused at save: %s', async (Holder) => {
    const manager = createManager();
    await expect(manager.save(Object.assign(new Holder(), { id: 'reg' }))).rejects.toThrow('Give it saveState');
  });
});

describe('secrets that a live agent has', () => {
  const SECRET = 'Xk29fJq81LmZp0Wv';
  class Client {
    id = 'c';
    password = SECRET;
    cfg = { url: 'x', password: SECRET, inner: { apiKey: SECRET } };
    list = [
      { user: 'ann', password: SECRET },
      { user: 'bob', password: SECRET },
    ];
    byName = new Map([['ann', { password: SECRET }]]);
    note = 'old';
  }

  test('[secret.1] stay at any depth, and nobody is asked to set them again', async () => {
    const manager = createManager();
    const agent = new Client();
    const id = await manager.save(agent);
    agent.note = 'new';
    await manager.restore(id, { into: agent });
    expect(agent).toEqual(new Client());
    expect(manager.reportOf(agent)).toMatchObject({ status: 'complete', problems: [] });
  });

  test('[secret.1] are not mixed up when a list has other items, and what is not there is named', async () => {
    const manager = createManager();
    const agent = new Client();
    const id = await manager.save(agent);
    agent.list.reverse();
    agent.cfg = { url: 'x' } as never;
    await manager.restore(id, { into: agent });
    expect(pathsOf(manager, agent)).toEqual([
      '$.cfg.password',
      '$.cfg.inner.apiKey',
      '$.list[0].password',
      '$.list[1].password',
    ]);
  });
});

test.each([undefined, {}, new Map()])('[restore.4] a class codec that decodes to %j is refused', async (made) => {
  class Point {
    x = 1;
  }
  const codec = { tag: 'point', class: Point, encode: () => ({ x: 1 }), decode: () => made as never };
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), classes: [codec] });
  const id = await manager.save({ at: new Point() });
  await expect(manager.restore(id)).rejects.toThrow('"point" must decode to an instance of Point; found');
});
