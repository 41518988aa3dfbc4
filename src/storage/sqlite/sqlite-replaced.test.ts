import { cpSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { SqliteMemoryStorage } from '../../memory/storage/sqlite/sqlite-memory-storage.ts';
import { SqliteCheckpointStorage } from './sqlite-storage.ts';

async function openSession() {
  const path = join(temporaryFolder(), 'a.db');
  const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path }) });
  const session = await manager.session('s');
  const id = await session.save({ n: 1 });
  return { path, manager, session, id };
}

const CHANGES: readonly [string, (path: string) => void][] = [
  ['deleted', (path) => rmSync(path)],
  ['moved', (path) => renameSync(path, `${path}.old`)],
  [
    'replaced by a backup',
    (path) => {
      cpSync(path, `${path}.bak`);
      renameSync(`${path}.bak`, path);
    },
  ],
  ['left without its log', (path) => rmSync(`${path}-wal`)],
  ['left without the index of its log', (path) => rmSync(`${path}-shm`)],
];

test.each(CHANGES)(
  '[durability.8] a database that is %s while it is open acknowledges nothing more',
  async (_, change) => {
    const { path, manager, session, id } = await openSession();
    change(path);
    const refused = { code: 'STORAGE', message: expect.stringContaining('open it again') };
    await expect(session.save({ n: 2 })).rejects.toMatchObject({ ...refused, details: { outcome: 'unknown' } });
    await expect(session.step('pay', () => 1)).rejects.toMatchObject(refused);
    await expect(manager.load(id)).rejects.toMatchObject(refused);
    await expect(manager.list()).rejects.toMatchObject(refused);
    await expect(manager.tag(id, 'good')).rejects.toMatchObject(refused);
    await expect(manager.delete(id)).rejects.toMatchObject(refused);
    const report = await manager.verify();
    expect(report.status).toBe('damaged');
    expect(report.findings[0]?.problem).toContain('open it again');
    await manager.close();
  },
);

test('[durability.8] a database that is put back is used again', async () => {
  const { path, manager, session } = await openSession();
  renameSync(path, `${path}.old`);
  await expect(session.save({ n: 2 })).rejects.toMatchObject({ code: 'STORAGE' });
  renameSync(`${path}.old`, path);
  const again = await manager.session('s');
  expect(await manager.load(await again.save({ n: 3 }))).toEqual({ n: 3 });
  await manager.close();
});

test('[durability.8] the database of a long-term memory that is deleted while it is open acknowledges nothing more', async () => {
  const path = join(temporaryFolder(), 'memory.db');
  const storage = new SqliteMemoryStorage({ path });
  rmSync(path);
  await expect(storage.append([])).rejects.toMatchObject({ code: 'STORAGE' });
  await storage.close();
});
