import { expect, test } from 'vitest';
import { describeOn } from '../../test/support/later.ts';
import { STORAGES } from '../../test/support/storages.ts';
import { InMemoryCheckpointStorage } from '../storage/memory/memory-storage.ts';
import { CheckpointManager } from './checkpoint-manager.ts';

type Price = { cents: number };

/** What a program of version 2 knows of its earlier states. */
const VERSION_2 = {
  schemaVersion: 2,
  migrations: [
    { from: 0, migrate: ({ cents }: Price) => ({ cents: cents * 100 }) },
    { from: 1, migrate: (state: Price) => void state.cents++ },
  ],
};

describeOn(STORAGES)('on %s', (_, create) => {
  test('[restore.5] old states are migrated step by step when restored, and stay as they are', async () => {
    const { storage } = create();
    const old = new CheckpointManager({ storage, schemaVersion: 1 });
    const id = await old.save({ name: 'Ann' });
    const migrations = [
      { from: 1, migrate: (state: unknown) => ({ names: [(state as { name: string }).name] }) },
      { from: 2, migrate: (state: unknown) => void (state as { names: string[] }).names.push('Bob') },
    ];
    const current = new CheckpointManager({ storage, schemaVersion: 3, migrations });
    const restored = await current.restore<object>(id);
    expect(restored).toEqual({ names: ['Ann', 'Bob'] });
    expect(current.reportOf(restored)?.migratedThrough).toEqual([1, 2, 3]);
    expect(await old.load(id)).toEqual({ name: 'Ann' });
    await expect(new CheckpointManager({ storage, schemaVersion: 0 }).load(id)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining(id),
    });
    await expect(new CheckpointManager({ storage, schemaVersion: 4, migrations }).load(id)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining(id),
    });
    await old.close();
  });

  test('[restore.5] whoever knows no version keeps the one of the state that is built on', async () => {
    const { storage } = create();
    const program = new CheckpointManager({ storage, ...VERSION_2 });
    const origin = await program.save({ cents: 500 }, { sessionId: 's' });
    const editor = new CheckpointManager({ storage });
    const restored = await editor.restore<Price>(origin);
    restored.cents = 1;
    const session = await editor.session('s', { initial: { cents: 0 } });
    const [fork, edited] = [
      await editor.fork(origin, { edit: () => ({ cents: 2 }) }),
      await session.fork({ edit: [{ op: 'replace', path: '/cents', value: 3 }] }),
    ];
    await edited.save({ cents: 4 });
    const saved = [
      fork.headId,
      edited.head?.parentId ?? '',
      edited.head?.id ?? '',
      await session.update(() => ({ cents: 5 })),
      await editor.save(restored),
    ];
    for (const [at, id] of saved.entries()) {
      expect((await editor.open(id)).schemaVersion).toBe(2);
      expect(await program.load(id)).toEqual({ cents: [2, 3, 4, 5, 1][at] });
    }
    expect((await editor.open(await editor.save({ cents: 6 }))).schemaVersion).toBeUndefined();
    await program.close();
  });
});

test('[restore.5] the report of a session says what was run, until the state is saved as it is now', async () => {
  const storage = new InMemoryCheckpointStorage();
  const id = await new CheckpointManager({ storage }).save({ cents: 5 }, { sessionId: 's' });
  const program = new CheckpointManager({ storage, ...VERSION_2 });
  const session = await program.session('s', { initial: { cents: 0 } });
  expect([session.state, program.reportOf(session)]).toMatchObject([
    { cents: 501 },
    { checkpointId: id, migratedThrough: [0, 1, 2] },
  ]);
  await session.save();
  expect(program.reportOf(session)).toMatchObject({ checkpointId: session.head?.id, migratedThrough: [] });
  await session.rewind(id);
  expect(program.reportOf(session)).toMatchObject({ checkpointId: id, migratedThrough: [0, 1, 2] });
  const again = await program.session('s', { branch: 'main', initial: { cents: 0 }, replayFrom: 'start' });
  expect(program.reportOf(again)?.migratedThrough).toEqual([]);
  const first = new CheckpointManager({ storage, schemaVersion: 0 });
  expect(first.reportOf(await first.restore<object>(id))?.migratedThrough).toEqual([]);
});

test('[restore.5] a migration that throws, or is async, is an error that names the checkpoint', async () => {
  const storage = new InMemoryCheckpointStorage();
  const id = await new CheckpointManager({ storage }).save({ cents: 5 }, { sessionId: 's' });
  const failing = (migrate: () => unknown) =>
    new CheckpointManager({ storage, schemaVersion: 1, migrations: [{ from: 0, migrate }] });
  const cause = new TypeError('no such field');
  const broken = failing(() => {
    throw cause;
  });
  const named = {
    code: 'UNSUPPORTED',
    message: expect.stringMatching(`checkpoint ${id} of session "s".*no such field`),
    details: { checkpointId: id, sessionId: 's', from: 0 },
    cause,
  };
  for (const read of [() => broken.load(id), () => broken.session('s'), () => broken.restore(id)])
    await expect(read()).rejects.toMatchObject(named);
  await expect(failing(() => Promise.reject(cause)).load(id)).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: expect.stringMatching(`checkpoint ${id} of session "s".*async`),
  });
});
