import { expect, test } from 'vitest';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';

test('[durability.2] a tree without a head or parent that is stored is CORRUPT, as a damaged index makes it', async () => {
  for (const hidden of [0, 1, 2]) {
    const storage = new InMemoryCheckpointStorage();
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('s');
    const ids = [await session.save({ n: 1 }), await session.save({ n: 2 }), await session.save({ n: 3 })];
    const listCheckpoints = storage.listCheckpoints.bind(storage);
    storage.listCheckpoints = async (query) => (await listCheckpoints(query)).filter(({ id }) => id !== ids[hidden]);
    await expect(manager.tree('s')).rejects.toMatchObject({ code: 'CORRUPT', details: { id: ids[hidden] } });
  }
});

test('[input.1] what is no name of a branch or tag is refused, and the current branch stays', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  await (await manager.session('s')).save({ n: 1 });
  for (const name of [undefined, null, 5, '']) {
    await expect(manager.switchBranch('s', name as never)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expect(manager.deleteBranch('s', name as never)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expect(manager.untag('s', name as never)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  }
  expect(await manager.currentBranch('s')).toBe('main');
});

test('[session.1] of a deletion of a branch and a switch to it at once, one wins', async () => {
  const storage = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({ storage });
  const session = await manager.session('s');
  await session.save({ n: 1 });
  await session.fork({ branch: 'other' });
  const outcomes = await Promise.allSettled([manager.deleteBranch('s', 'other'), manager.switchBranch('s', 'other')]);
  const branches = (await manager.branches('s')).map(({ branch }) => branch);
  expect(branches).toContain(await manager.currentBranch('s'));
  expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
});

test('[session.2] a checkpoint is forked and rewound to any number of times, at a cost that does not grow with that', async () => {
  const storage = new InMemoryCheckpointStorage();
  const session = await new CheckpointManager({ storage }).session('s');
  const first = await session.save({ n: 1 });
  await session.save({ n: 2 });
  const branches = new Set<string>();
  for (let i = 0; i < 130; i++) branches.add((await session.fork({ at: first })).branch);
  let commits = 0;
  const commit = storage.commit.bind(storage);
  storage.commit = (request) => {
    commits++;
    return commit(request);
  };
  for (let i = 0; i < 20; i++) branches.add((await session.fork({ at: first })).branch);
  const atOnce = await Promise.all(Array.from({ length: 20 }, () => session.fork({ at: first })));
  for (const { branch } of atOnce) branches.add(branch);
  expect(branches.size).toBe(170);
  expect(commits).toBeLessThanOrEqual(20 * 2 + 20 * 21);
});
