import { expect, test } from 'vitest';
import { describeOn, LATER } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import type { CheckpointQuery, ChunkStorage } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { StorageCopy } from '../transfer/copy-storage.ts';

const FOLDING = STORAGES.filter(([name]) => name !== 'file'); // a folder keeps one small file for each entry of a log

/** A session whose routine checkpoints go, but for the last. */
async function saveMany(storage: ChunkStorage, count: number) {
  const manager = new CheckpointManager({ storage, retention: { types: { routine: { keepLast: 1 } } } });
  const session = await manager.session('s');
  const first = await session.save({ n: 0 }, { type: 'manual' });
  for (let n = 1; n <= count; n++) await session.save({ n }, { type: 'routine' });
  const last = await session.save({ n: count + 1 }, { type: 'manual' });
  await manager.stats(); // waits for retention
  return { manager, session, first, last };
}

describeOn(FOLDING)('%s', (_, create) => {
  test(
    '[retention.2] tombstones do not pile up, and the lineage can be walked across those that were folded',
    LATER,
    async () => {
      const { storage } = create();
      const { manager, first, last } = await saveMany(storage, 600);
      const before = await storage.stats();
      expect(before.tombstones).toBeLessThan(500);
      for (let round = 0; round < 2; round++) await manager.gc(); // one folds at most 250 into each
      const { tombstones } = await storage.stats();
      expect(tombstones).toBe(101);
      const path = await manager.pathToRoot(last);
      expect(path.at(-1)?.id).toBe(first);
      const [folded] = path.flatMap(({ tombstone }) => (tombstone?.folded === undefined ? [] : [tombstone]));
      expect(folded).toMatchObject({ parentId: first, sequence: 500, folded: 498 });
      expect((await manager.tree('s')).roots).toEqual([first]);
      expect(await manager.verify()).toMatchObject({ status: 'clean', tombstones: 101, checkpoints: 3 });
      await manager.gc();
      expect((await storage.stats()).tombstones).toBe(101);
      await manager.close();
    },
  );

  test('[retention.2] a deleted checkpoint from which a branch goes on is not folded away', LATER, async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('s');
    const ids: string[] = [];
    for (let n = 0; n < 130; n++) ids.push(await session.save({ n }));
    const [root = '', middle = '', head = ''] = [ids[0], ids[10], ids[129]];
    await manager.fork(middle, { branch: 'side' });
    const side = await (await manager.session('s', { branch: 'side' })).save({ side: true });
    for (const id of ids.slice(1, 129).reverse()) await manager.delete(id);
    await manager.gc();
    const rootOf = async (id: string) => (await manager.pathToRoot(id)).at(-1)?.id;
    expect([await rootOf(head), await rootOf(side)]).toEqual([root, root]);
    expect((await manager.pathToRoot(side)).map(({ id }) => id)).toContain(middle);
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 3 });
    expect((await storage.stats()).tombstones).toBeLessThan(108);
    await manager.close();
  });
});

/** Turns with a branch that is tried and deleted at each, of which pruning leaves the last two. */
async function tryMany(manager: CheckpointManager, count: number) {
  const session = await manager.session('s');
  for (let n = 0; n < count; n++) {
    const at = await session.save({ n });
    await manager.fork(at, { branch: `try ${n}` });
    const attempt = await manager.session('s', { branch: `try ${n}` });
    await attempt.save({ n, tried: 1 });
    await attempt.save({ n, tried: 2 });
    await attempt.close();
    await manager.deleteBranch('s', `try ${n}`);
    if (n % 20 === 19) await manager.prune({ policy: { keepLast: 2 } });
  }
  await manager.gc();
  return session;
}

describeOn(FOLDING)('%s', (_, create) => {
  test('[retention.2] tombstones of branches that were deleted go, and what is left is whole', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const session = await tryMany(manager, 120);
    const { tombstones, checkpoints } = await storage.stats();
    expect(tombstones).toBeLessThan(110);
    const head = await session.save({ last: true });
    expect((await manager.pathToRoot(head)).at(-1)?.parentId).toBeUndefined();
    expect(await manager.verify()).toMatchObject({ status: 'clean', tombstones, checkpoints: checkpoints + 1 });
    const there = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    await there.importSession(manager.exportSession('s'));
    expect((await there.verify()).status).toBe('clean');
    await manager.close();
  });
});

test('[retention.2] what was saved on while tombstones are folded keeps what it was saved on', async () => {
  let meanwhile: (() => Promise<void>) | undefined;
  class Busy extends InMemoryCheckpointStorage {
    override async listCheckpoints(query: CheckpointQuery) {
      const rows = await super.listCheckpoints(query);
      if (query.order === 'newest' && query.include === 'all' && query.after === undefined) await meanwhile?.();
      return rows;
    }
  }
  const storage = new Busy();
  const manager = new CheckpointManager({ storage });
  const session = await manager.session('s');
  const ids: string[] = [];
  for (let n = 0; n < 130; n++) ids.push(await session.save({ n }));
  const middle = ids[10] ?? '';
  for (const id of ids.slice(1, 129)) if (id !== middle) await manager.delete(id);
  for (let n = 0; n < 520; n++) await session.save({ n }); // more than a page
  let reads = 0;
  meanwhile = async () => {
    if (++reads !== 2) return; // the first read says what was deleted before
    await manager.fork(middle, { branch: 'side' });
    await (await manager.session('s', { branch: 'side' })).save({ side: true });
    await manager.delete(middle);
  };
  await manager.gc();
  expect(reads).toBeGreaterThan(1);
  expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 523 });
});

test('[backup.2] a branch there that was deleted here, and whose tombstones are gone, stops no copy', async () => {
  const from = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await from.session('s');
  await from.fork(await session.save({ n: 0 }), { branch: 'early' });
  const early = await (await from.session('s', { branch: 'early' })).save({ early: true });
  const storage = new InMemoryCheckpointStorage();
  const copy = (mirror: boolean) => new StorageCopy(from.engine.storage, storage, { mirror }).run();
  await copy(false);
  await from.deleteBranch('s', 'early');
  await tryMany(from, 60);
  expect(await from.engine.storage.readCheckpoint(early as CheckpointId)).toBeUndefined();
  for (const mirror of [false, true]) expect((await copy(mirror)).sessions).toMatchObject([{ problems: [] }]);
  const there = new CheckpointManager({ storage });
  expect((await there.branches('s')).map(({ branch }) => branch).toSorted()).toEqual(['early', 'main']);
  expect(await there.load(early)).toEqual({ early: true });
  expect((await there.verify()).status).toBe('clean');
  await (await there.session('s', { branch: 'early' })).save({ own: true });
  expect((await copy(true)).sessions).toMatchObject([{ problems: [expect.stringContaining('went on by itself')] }]);
});

test('[session.4] an export with folded tombstones is brought in as it was', async () => {
  const { manager, last } = await saveMany(new InMemoryCheckpointStorage(), 300);
  await manager.gc();
  const there = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  await there.importSession(manager.exportSession('s'));
  expect(await there.pathToRoot(last)).toEqual(await manager.pathToRoot(last));
  expect((await there.verify()).status).toBe('clean');
});

test('[session.4] a repeated copy does not bring back what was deleted and folded there', async () => {
  const from = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await from.session('s');
  for (let n = 0; n < 150; n++) await session.save({ n });
  const storage = new InMemoryCheckpointStorage();
  const copy = () => new StorageCopy(from.engine.storage, storage).run();
  await copy();
  const there = new CheckpointManager({ storage });
  await there.prune({ policy: { keepLast: 2 } });
  await there.gc();
  const { checkpoints, tombstones } = await storage.stats();
  expect({ checkpoints, tombstones }).toEqual({ checkpoints: 2, tombstones: 101 });
  await session.save({ more: true });
  expect((await copy()).sessions).toMatchObject([{ checkpoints: 1, present: 150, problems: [] }]);
  expect(await storage.stats()).toMatchObject({ checkpoints: 3, tombstones: 101 });
  expect((await there.verify()).status).toBe('clean');
});

test.each(STORAGES)('gc rejects with the reason of a signal that was aborted before: %s', async (_, create) => {
  await using manager = new CheckpointManager({ storage: create().storage });
  await manager.save({ n: 1 }, { sessionId: 's' });
  await expect(manager.gc({ signal: AbortSignal.abort(new Error('not now')) })).rejects.toThrow('not now');
});
