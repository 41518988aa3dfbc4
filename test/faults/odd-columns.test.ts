import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { openDatabase } from '../../src/storage/database/sqlite-driver.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { reportFaults, seededRandom } from '../support/fault-report.ts';
import { compareReadings, knownIds, readEverything, writeHistory } from '../support/history.ts';
import { SCRATCH_ROOT } from '../support/scratch-root.ts';
import { temporaryFolder } from '../support/storages.ts';
import { trials } from '../support/trials.ts';

const TABLES = ['session', 'chunk', 'checkpoint', 'ref', 'effect'] as const;
/** What a column may hold if its page was written in the place of another. */
const VALUES = ["x'00'", "x'02'", "x''", "''", "'text'", '7', '-1', '1.5', '9e99', 'NULL'] as const;

test('[durability.2] a column that holds something of another kind is damage: nothing raw is thrown, nothing wrong is returned', async () => {
  const random = seededRandom();
  const original = join(temporaryFolder(SCRATCH_ROOT), 'original.db');
  const copy = `${original}-copy`;
  const open = (path: string) => new SqliteCheckpointStorage({ path, durability: 'process' });
  await writeHistory(open(original));
  const storage = open(original);
  const known = await knownIds(storage);
  const whole = await readEverything(new CheckpointManager({ storage }), known);
  await storage.close();
  const failures: string[] = [];
  const total = trials(300);
  for (let trial = 0; trial < total; ) {
    for (const suffix of ['', '-wal', '-shm']) rmSync(`${copy}${suffix}`, { force: true });
    copyFileSync(original, copy);
    const what = oddColumn(copy, random);
    if (what === undefined) continue;
    trial++;
    const manager = new CheckpointManager({ storage: open(copy) });
    try {
      const { altered, absent } = compareReadings(whole, await readEverything(manager, known));
      const { status } = await manager.verify({ readData: true });
      failures.push(...altered.map((each) => `${what}: altered: ${each}`));
      if (absent.length > 0 && status === 'clean') failures.push(`${what}: not found; absent: ${absent.join(', ')}`);
    } catch (error) {
      failures.push(`${what}: ${error instanceof Error ? error.stack : error}`);
    }
    await manager.close();
  }
  reportFaults('columns of another kind', { trials: total, failures, notes: `seed=${random.seed}` });
  expect(failures).toEqual([]);
});

/** Puts an odd value into a column of one row; says which, or nothing if the table does not take it. */
function oddColumn(path: string, random: ReturnType<typeof seededRandom>): string | undefined {
  const db = openDatabase(path);
  try {
    const table = random.pick(TABLES);
    const columns = (db.prepare(`PRAGMA table_info(${table})`).all() as { name: string }[]).map(({ name }) => name);
    const column = columns[random.below(columns.length)] ?? '';
    const value = random.pick(VALUES);
    const [key] = random.pick([['max'], ['min']]);
    const chosen = `SELECT ${key}(${columns[0]}) FROM ${table}`;
    const limit = table === 'ref' ? " AND kind='branch' AND name='main'" : '';
    const { changes } = db
      .prepare(`UPDATE ${table} SET ${column}=${value} WHERE ${columns[0]}=(${chosen})${limit}`)
      .run() as { changes: number };
    return Number(changes) === 0 ? undefined : `${table}.${column}=${value} (${key})`;
  } catch {
    return undefined;
  } finally {
    db.close();
  }
}
