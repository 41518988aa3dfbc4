import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { SavestateError } from '../../src/core/errors.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { Child } from '../support/child.ts';
import { reportFaults, seededRandom } from '../support/fault-report.ts';
import { isSameValue } from '../support/same-value.ts';
import { temporaryFolder } from '../support/storages.ts';
import { trials } from '../support/trials.ts';
import { conversationOf } from './children/states.mjs';

/** A database that a kill left with a write-ahead log, and how much of it was acknowledged. */
async function killedDatabase(): Promise<{ path: string; acknowledged: number }> {
  const path = join(temporaryFolder(), 'killed.db');
  const child = new Child('saver');
  child.tell({ kind: 'sqlite', path });
  for (let seen = 0; seen < 40; seen = child.said.filter((said) => 'saved' in said).length) {
    await child.heard('open');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await child.kill();
  expect(existsSync(`${path}-wal`)).toBe(true);
  return { path, acknowledged: Number(child.said.findLast((said) => 'saved' in said)?.count) };
}

/** What is read after damage: how far the head is, or -1 if it is refused; a wrong state is a fault. */
async function readHead(path: string): Promise<{ sequence: number; status: string; isWhole: boolean }> {
  try {
    const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path }) });
    const { status } = await manager.verify();
    const { head, state } = await manager.session('chat');
    const sequence = head?.sequence ?? 0;
    const isWhole = sequence === 0 ? state === undefined : isSameValue(state, conversationOf(sequence));
    await manager.close();
    return { sequence, status, isWhole };
  } catch (error) {
    if (!(error instanceof SavestateError)) throw error;
    return { sequence: -1, status: 'refused', isWhole: true };
  }
}

test('[durability.3] one flipped bit in the log that a kill left: what is read is whole, or refused, and may be an earlier checkpoint', async () => {
  const random = seededRandom();
  const { path, acknowledged } = await killedDatabase();
  const copy = `${path}-copy`;
  const faults: string[] = [];
  const counts = { same: 0, earlier: 0, damaged: 0, refused: 0 };
  const flips = trials(200);
  for (let trial = 0; trial < flips; trial++) {
    for (const suffix of ['', '-wal', '-shm']) rmSync(`${copy}${suffix}`, { force: true });
    cpSync(path, copy);
    const log = readFileSync(`${path}-wal`);
    const at = random.below(log.length);
    log[at] = (log[at] ?? 0) ^ (1 << random.below(8));
    writeFileSync(`${copy}-wal`, log);
    const { sequence, status, isWhole } = await readHead(copy);
    if (!isWhole) faults.push(`byte ${at}: checkpoint ${sequence} has a state that was never saved`);
    if (status !== 'clean') counts[status === 'damaged' ? 'damaged' : 'refused']++;
    else if (sequence >= acknowledged) counts.same++;
    else counts.earlier++;
  }
  const notes = `${Object.entries(counts)
    .map(([name, count]) => `${name}=${count}`)
    .join(' ')} seed=${random.seed}`;
  reportFaults('bit flips in the log of a killed sqlite', { trials: flips, failures: faults, notes });
  expect(faults).toEqual([]);
});
