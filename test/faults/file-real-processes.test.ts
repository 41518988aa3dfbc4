import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import type { CheckpointHeader } from '../../src/core/record/checkpoint-header.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import { createRandom } from '../../src/testing/contract/random.ts';
import { builtFolder } from '../support/on-demand.ts';
import { checkReachable } from './file-crash-script.ts';

const FULL = process.env.SAVESTATE_TRIALS === 'full';
const ROUNDS = FULL ? 100 : 10;
const CHILD = fileURLToPath(new URL('./file-writer-child.mjs', import.meta.url));
const SAVES = 30;

type Outcome = { readonly acknowledged: readonly string[]; readonly code: number | null; readonly stderr: string };

/** Runs a writing process to its end, or kills it a moment after it acknowledged so many saves. */
function write(
  args: readonly string[],
  kill?: { readonly afterSaves: number; readonly delayMs: number },
): Promise<Outcome> {
  return new Promise((resolve) => {
    builtFolder();
    const child = spawn(process.execPath, [CHILD, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (data) => {
      stdout += data;
      const isDue = kill !== undefined && stdout.split('\n').length > kill.afterSaves;
      if (isDue) setTimeout(() => child.kill('SIGKILL'), kill.delayMs);
    });
    child.stderr.on('data', (data) => {
      stderr += data;
    });
    // What follows the last line feed was cut off by the kill.
    child.on('close', (code) => resolve({ acknowledged: stdout.split('\n').slice(0, -1), code, stderr }));
  });
}

test('real processes that save to the same sessions and collect, one of them killed, lose nothing', async () => {
  const random = createRandom(11);
  let acknowledged = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const path = await mkdtemp(join(tmpdir(), 'savestate-file-'));
    const outcomes = await Promise.all([
      write([path, `${round * 10 + 1}`, `${SAVES}`]),
      write([path, `${round * 10 + 2}`, `${SAVES}`]),
      write([path, `${round * 10 + 3}`, '100000'], { afterSaves: random.below(SAVES), delayMs: random.below(20) }),
    ]);
    for (const { code, stderr } of outcomes.slice(0, 2)) expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const wanted = outcomes.flatMap((outcome) => outcome.acknowledged);
    acknowledged += wanted.length;
    await checkStore(path, wanted);
    await rm(path, { recursive: true });
  }
  console.info(`file storage, ${ROUNDS} rounds of three real processes: ${acknowledged} acknowledged saves, 0 lost`);
});

async function checkStore(path: string, wanted: readonly string[]): Promise<void> {
  const storage = new FileCheckpointStorage({ path });
  const rows = await storage.listCheckpoints({ limit: 1_000_000 });
  const headers = new Map(rows.map((row) => [row.id as string, JSON.parse(row.body) as CheckpointHeader]));
  for (const id of wanted) assert.ok(headers.has(id), `${id} was acknowledged and is lost`);
  const parents = new Set([...headers.values()].map((header) => header.parentId));
  const leaves = [...headers.keys()].filter((id) => !parents.has(id as CheckpointHeader['id']));
  const heads = (await storage.readRefs({ kind: 'branch' })).map((ref) => ref.target as string);
  expect(heads.sort()).toEqual(leaves.sort());
  await checkReachable(storage);
  await storage.collect();
  expect(await storage.checkIntegrity()).toEqual([]);
  for (const folder of ['temp', 'locks']) expect(await readdir(join(path, folder))).toEqual([]);
  await storage.close();
}
