import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { TestClock } from '../../../../test/support/clock.ts';
import { SCRATCH_ROOT } from '../../../../test/support/scratch-root.ts';
import { STORAGES, temporaryFolder } from '../../../../test/support/storages.ts';
import { ConflictError } from '../../../core/errors.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import { SqliteCheckpointStorage } from '../../../storage/sqlite/sqlite-storage.ts';
import { langGraphClasses, SavestateStore } from '../index.ts';

const SESSION = 'lg-store/default';

function openFile() {
  const path = join(temporaryFolder(SCRATCH_ROOT), 'store.db');
  return { path, open: () => new SqliteCheckpointStorage({ path, durability: 'process' }) };
}

describe('[langgraph.14] stores that write at once', () => {
  test('are never refused on one SQLite file, and lose nothing', async () => {
    const { open } = openFile();
    const storages = Array.from({ length: 6 }, open);
    const puts = storages.flatMap((storage, at) => {
      const store = new SavestateStore(storage);
      return Array.from({ length: 25 }, (_, n) => store.put(['u', String(at)], `k${n}`, { n }));
    });
    await Promise.all(puts);
    const found = await new SavestateStore(storages[0] as SqliteCheckpointStorage).search([], { limit: 1000 });
    expect(found).toHaveLength(150);
    for (const storage of storages) await storage.close();
  });

  test.each(STORAGES)('so on %s; of one item the last put counts', async (_, create) => {
    const { storage, reopen = () => storage } = create();
    const others = [reopen(), reopen(), reopen()];
    const stores = [storage, ...others].map((one) => new SavestateStore(one));
    await Promise.all(
      stores.flatMap((store, at) => Array.from({ length: 8 }, (_, n) => store.put(['n'], `k${n % 3}`, { at, n }))),
    );
    const [seen, ...rest] = await Promise.all(stores.map((store) => store.search(['n'])));
    expect(seen).toHaveLength(3);
    for (const other of rest) expect(other).toEqual(seen);
    for (const { key, value } of seen ?? []) expect(value.n).toBe({ k0: 6, k1: 7, k2: 5 }[key]);
    for (const one of new Set([storage, ...others])) await one.close();
  });

  test('pause and try again, and give up only after a minute', async () => {
    const clock = new TestClock();
    const storage = new InMemoryCheckpointStorage();
    const manager = new CheckpointManager({ storage, now: clock.now, setTimer: clock.setTimer });
    let tries = 0;
    storage.commit = async () => {
      tries++;
      throw new ConflictError('always');
    };
    let isRefused = false;
    const refused = expect(new SavestateStore({ manager }).put(['n'], 'k', { n: 1 })).rejects.toThrow('always');
    void refused.finally(() => {
      isRefused = true;
    });
    await clock.pass(59_000);
    expect(isRefused).toBe(false);
    await clock.pass(2000);
    await refused;
    expect(tries).toBeGreaterThan(240);
  });
});

test.each(STORAGES)(
  '[langgraph.13] on %s changes of a store are told of, and counted by the retention of its manager',
  async (_, create) => {
    const retention = { types: { auto: { keepLast: 2 } } };
    const manager = new CheckpointManager({ storage: create().storage, classes: langGraphClasses, retention });
    const store = new SavestateStore({ manager });
    const told: number[] = [];
    manager.on(
      'checkpoint_saved',
      async ({ sequence }) => {
        told.push(sequence);
        if (sequence === 1) await store.put(['n'], 'first', { sequence }); // it may change the store again
      },
      { await: true },
    );
    for (let n = 0; n < 4; n++) await store.put(['n'], 'k', { n });
    await store.put(['n'], 'k', { n: 3 }, false);
    await store.get(['n'], 'k');
    expect(told).toEqual([1, 2, 3, 4, 5, 6]);
    expect((await manager.list({ sessionId: SESSION })).checkpoints.map(({ sequence }) => sequence)).toEqual([6, 5]);
    expect((await store.search(['n'])).map(({ key }) => key)).toEqual(['k', 'first']);
    await manager.close();
  },
);

describe('[langgraph.17] prune', () => {
  test('leaves the latest state, and nothing of what was deleted or replaced, not a byte in the file', async () => {
    const { path, open } = openFile();
    const storage = open();
    const store = new SavestateStore(storage);
    const secret = (n: number) => `SECRET-${n}-${'x'.repeat(n * 40)}`;
    for (let n = 0; n < 30; n++) await store.put(['u', String(n % 4)], `hidden-${n}`, { secret: secret(n) });
    await store.put(['u', '0'], 'kept', { text: 'SECRET-replaced' });
    await store.put(['u', '0'], 'kept', { text: 'what stays' });
    for (let n = 0; n < 30; n++) await store.delete(['u', String(n % 4)], `hidden-${n}`);
    const before = await store.search([]);
    const report = await store.prune();
    expect(report.checkpoints).toBe(61);
    expect(report.bytes).toBeGreaterThan(0);
    expect(await store.search([])).toEqual(before);
    expect(await new SavestateStore(storage).search([])).toEqual(before);
    await store.put(['u', '0'], 'next', { n: 1 });
    await storage.close();
    const bytes = readFileSync(path, 'latin1');
    expect(bytes.match(/SECRET|hidden-/g)).toBeNull();
    expect(bytes).toContain('what stays');
  });

  test('before it, deleted items are in the history', async () => {
    const { path, open } = openFile();
    const storage = open();
    const store = new SavestateStore(storage);
    await store.put(['u'], 'k', { secret: 'SECRET-1' });
    await store.delete(['u'], 'k');
    await storage.close();
    expect(readFileSync(path, 'latin1')).toContain('SECRET-1');
  });

  test.each(STORAGES)('on %s leaves what has a tag, and other sessions', async (_, create) => {
    const { storage } = create();
    const [store, other] = [new SavestateStore(storage), new SavestateStore({ storage, name: 'other' })];
    const manager = new CheckpointManager({ storage, classes: langGraphClasses });
    for (const one of [store, other]) for (let n = 0; n < 3; n++) await one.put(['n'], 'k', { n });
    const [, , first] = (await manager.list({ sessionId: SESSION })).checkpoints;
    await manager.tag(first?.id ?? '', 'begin');
    expect((await store.prune()).checkpoints).toBe(1);
    expect((await manager.list({ sessionId: SESSION })).checkpoints).toHaveLength(2);
    expect((await manager.list({ sessionId: 'lg-store/other' })).checkpoints).toHaveLength(3);
    expect((await manager.verify()).findings).toEqual([]);
    expect((await store.get(['n'], 'k'))?.value).toEqual({ n: 2 });
  });

  test('by another store does not disturb one that is in use', async () => {
    const { open } = openFile();
    const [a, b] = [open(), open()];
    const [one, two] = [new SavestateStore(a), new SavestateStore(b)];
    await one.put(['n'], 'k1', { n: 1 });
    expect(await two.search(['n'])).toHaveLength(1);
    await Promise.all([
      ...Array.from({ length: 20 }, (_, n) => one.put(['n'], `k${n}`, { n })),
      ...Array.from({ length: 20 }, () => two.prune()),
      ...Array.from({ length: 20 }, (_, n) => two.put(['m'], `k${n}`, { n })),
    ]);
    expect(await one.search([], { limit: 99 })).toHaveLength(40);
    await a.close();
    await b.close();
  });
});

describe('[langgraph.17] a store whose state something else saved', () => {
  test('is read as it was, in its order and with its times; only a change stores it in its own form', async () => {
    const storage = new InMemoryCheckpointStorage();
    const manager = new CheckpointManager({ storage, classes: langGraphClasses });
    const store = new SavestateStore(storage);
    const value = (n: number) => ({ n, at: new Date(n), text: 'x'.repeat(300) });
    for (let group = 0; group < 12; group++)
      await store.batch(
        Array.from({ length: 12 }, (_, n) => ({
          namespace: ['users', `u${(group * 7) % 12}`],
          key: `k${(n * 5) % 12}`,
          value: value(group * 100 + n),
        })),
      );
    await store.put(['users', 'u99'], 'k', { n: 'last' }, ['n']);
    const before = await store.search(['users'], { limit: 1000 });
    expect(before).toHaveLength(145);
    const session = await manager.session(SESSION);
    await session.save(await manager.load(session.head?.id ?? ''));
    await session.close();
    const saved = await storage.stats();
    expect(await store.search(['users'], { limit: 1000 })).toEqual(before);
    expect(await store.get(['users', 'u7'], 'k5')).toMatchObject({ value: value(101) });
    expect(await storage.stats()).toEqual(saved);

    await store.put(['users', 'u7'], 'k5', { n: 'new' });
    await store.delete(['users', 'u99'], 'k');
    const changed = await new SavestateStore(storage).search(['users'], { limit: 1000 });
    expect(changed).toHaveLength(144);
    expect(changed[13]).toMatchObject({ key: 'k5', value: { n: 'new' }, createdAt: before[13]?.createdAt });
    expect((await manager.verify()).findings).toEqual([]);
    await store.prune();
    expect((await manager.gc()).chunks).toBe(0);
  });

  test('but a state that no store saved is refused', async () => {
    const storage = new InMemoryCheckpointStorage();
    const manager = new CheckpointManager({ storage });
    await (await manager.session(SESSION)).save({ other: 1 });
    await expect(new SavestateStore(storage).get(['n'], 'k')).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });
});
