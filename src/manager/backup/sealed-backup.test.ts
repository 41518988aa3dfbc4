import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { openDatabase } from '../../storage/database/sqlite-driver.ts';
import { encrypted } from '../../storage/encryption/encrypted.ts';
import { Keyring } from '../../storage/encryption/keyring.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { SqliteCheckpointStorage } from '../../storage/sqlite/sqlite-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { backup, restoreBackup } from './backup.ts';

const keys = Keyring.create();

/** An encrypted database with steps and a tombstone. */
async function fill(path: string): Promise<void> {
  const manager = new CheckpointManager({ storage: encrypted(new SqliteCheckpointStorage({ path }), { keys }) });
  const session = await manager.session('trip', { initial: { messages: [] as string[] } });
  const ids: string[] = [];
  for (let n = 0; n < 4; n++) {
    await session.step(`step ${n}`, () => `result ${n}`);
    session.state.messages.push(`message ${n}`);
    ids.push(await session.save());
  }
  await manager.delete(ids[1] ?? '');
  await manager.close();
}

/** Changes one character of a column, from its end, in the last row. */
function damage(path: string, table: string, column: string): void {
  const db = openDatabase(path);
  const where = table === 'checkpoint' ? 'deleted=0' : '1';
  const row = db.prepare(`SELECT n, ${column} AS value FROM ${table} WHERE ${where} ORDER BY n DESC LIMIT 1`).get();
  const { n, value } = row as { n: number; value: string };
  const at = value.length - 9;
  const changed = `${value.slice(0, at)}${value[at] === 'A' ? 'B' : 'A'}${value.slice(at + 1)}`;
  db.prepare(`UPDATE ${table} SET ${column}=? WHERE n=?`).run(changed, n);
  db.close();
}

describe.each(['checkpoint.body', 'checkpoint.root_text', 'effect.body', 'effect.text'])('damage of %s', (place) => {
  const [table = '', column = ''] = place.split('.');

  test('[backup.2] with its keys the backup of an encrypted storage names it', async () => {
    const path = join(temporaryFolder(), 'e.db');
    await fill(path);
    damage(path, table, column);
    const report = await backup(path, new InMemoryCheckpointStorage(), { keys });
    expect(report).toMatchObject({
      status: 'partial',
      sessions: [{ problem: expect.stringMatching(/damaged/) }],
    });
  });

  test('[backup.2] without them it says that it was not checked, and a restore with them names it', async () => {
    const path = join(temporaryFolder(), 'e.db');
    await fill(path);
    damage(path, table, column);
    const copy = new InMemoryCheckpointStorage();
    expect(await backup(path, copy)).toMatchObject({ status: 'complete', unchecked: 8 });
    const restored = new InMemoryCheckpointStorage();
    expect(await restoreBackup(copy, restored)).toMatchObject({ status: 'complete', unchecked: 8 });
    const checked = await restoreBackup(copy, new InMemoryCheckpointStorage(), { keys });
    expect(checked).toMatchObject({ status: 'partial', sessions: [{ problem: expect.stringMatching(/damaged/) }] });
    expect((await restoreBackup(copy, restored, { keys })).findings).not.toEqual([]);
  });
});

test('[backup.2] with the keys of an undamaged storage all is checked; with others that is told', async () => {
  const path = join(temporaryFolder(), 'e.db');
  await fill(path);
  const copy = new InMemoryCheckpointStorage();
  expect(await backup(path, copy, { keys })).toMatchObject({ status: 'complete', checkpoints: 3, unchecked: 0 });
  const restored = await restoreBackup(copy, new InMemoryCheckpointStorage(), { keys });
  expect(restored).toMatchObject({ status: 'complete', unchecked: 0, findings: [] });
  expect(await restoreBackup(copy, new InMemoryCheckpointStorage(), { keys: Keyring.create() })).toMatchObject({
    status: 'partial',
    checkpoints: 3,
    unchecked: 8,
    findings: [expect.stringContaining('which is not among the keys here')],
  });
});

test('[backup.2] what a removed key made unreadable is copied, and is no damage', async () => {
  const inner = new InMemoryCheckpointStorage();
  const ring = Keyring.create().add('ann').add('bob');
  const manager = new CheckpointManager({ storage: encrypted(inner, { keys: ring, keyFor: (id) => id }) });
  for (const name of ['ann', 'bob']) await (await manager.session(name, { initial: { n: 1 } })).save();
  const copy = new InMemoryCheckpointStorage();
  const left = ring.remove('ann');
  expect(await backup(inner, copy, { keys: left })).toMatchObject({ checkpoints: 2, unchecked: 1, findings: [] });
  expect((await copy.stats()).checkpoints).toBe(2);
});
