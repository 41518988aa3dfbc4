import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES, temporaryFolder } from '../../../test/support/storages.ts';
import { backup, restoreBackup } from '../../manager/backup/backup.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../contract.ts';
import { encrypted } from '../encryption/encrypted.ts';
import { Keyring } from '../encryption/keyring.ts';
import { InMemoryCheckpointStorage } from '../memory/memory-storage.ts';
import { SqliteCheckpointStorage } from '../sqlite/sqlite-storage.ts';
import { FolderObjects } from './folder-objects.ts';
import { withObjects } from './with-objects.ts';

const text = (word: string) => Array.from({ length: 20_000 }, (_, n) => `${word} ${(n * 7919) % 20_011}`).join(' ');
const REFUSAL = {
  code: 'UNSUPPORTED',
  message: expect.stringContaining('keeps large values in an object store: open it with withObjects'),
};

/** A storage whose large values are in a folder. */
async function fill(storage: ChunkStorage, around: (storage: ChunkStorage) => ChunkStorage = (inner) => inner) {
  const through = around(withObjects(storage, new FolderObjects(join(temporaryFolder(), 'objects'))));
  const manager = new CheckpointManager({ storage: through });
  const id = await (await manager.session('s', { initial: { document: text('first') } })).save();
  return { id, through, manager };
}

describeOn(STORAGES)('%s', (_, create) => {
  test('[objects.1] read without its objects it says so, verify finds that, and through them it is clean', async () => {
    const { storage } = create();
    const { id, manager } = await fill(storage);
    const plain = new CheckpointManager({ storage });
    await expect(plain.load(id)).rejects.toMatchObject(REFUSAL);
    expect(await plain.verify({ readData: false })).toMatchObject({
      status: 'damaged',
      findings: [{ problem: expect.stringContaining('object store') }],
    });
    expect((await manager.verify({ readData: false })).status).toBe('clean');
    expect((await manager.verify()).status).toBe('clean');
    await storage.close();
  });

  test('[objects.1] what is saved without the objects can be read without them, though they have it', async () => {
    const { storage } = create();
    const { id, manager } = await fill(storage);
    const plain = new CheckpointManager({ storage });
    await plain.verify(); // which looks at all there is
    const other = await (await plain.session('other', { initial: { document: text('first') } })).save();
    expect(await new CheckpointManager({ storage }).load(other)).toEqual({ document: text('first') });
    expect(await manager.load(id)).toEqual({ document: text('first') });
    await storage.close();
  });
});

test('[objects.1] a compressed database is known for what it is, too', async () => {
  const storage = new SqliteCheckpointStorage({ path: join(temporaryFolder(), 'c.db'), compress: true });
  await fill(storage);
  expect((await new CheckpointManager({ storage }).verify({ readData: false })).status).toBe('damaged');
  await storage.close();
});

describe.each(['plain', 'encrypted'])('%s', (kind) => {
  const keys = Keyring.create();
  const around = (storage: ChunkStorage) => (kind === 'plain' ? storage : encrypted(storage, { keys }));

  test('[objects.1] a backup without the objects is refused, and so is one to a storage with objects', async () => {
    const inner = new InMemoryCheckpointStorage();
    const { id } = await fill(inner, around);
    const to = new InMemoryCheckpointStorage();
    await expect(backup(inner, to)).rejects.toMatchObject(REFUSAL);
    expect(await to.readRefs()).toEqual([]);
    await expect(restoreBackup(inner, new InMemoryCheckpointStorage())).rejects.toMatchObject(REFUSAL);
    await expect(new CheckpointManager({ storage: around(inner) }).load(id)).rejects.toMatchObject(REFUSAL);
  });
});
