import { createReadStream } from 'node:fs';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { StateCodec } from '../src/core/codec/state-codec.ts';
import { CheckpointManager } from '../src/manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../src/storage/contract.ts';
import { FileCheckpointStorage } from '../src/storage/file/file-storage.ts';
import { InMemoryCheckpointStorage } from '../src/storage/memory/memory-storage.ts';
import { SqliteCheckpointStorage } from '../src/storage/sqlite/sqlite-storage.ts';
import { goldenState } from './golden/history.mjs';
import { isSameValue } from './support/same-value.ts';
import { temporaryFolder } from './support/storages.ts';

const GOLDEN = join(import.meta.dirname, 'golden');

test('[format.1] the same state has the same digest in every release of a format version', () => {
  expect(new StateCodec().encode(goldenState(42)).root.digest).toBe(
    'bbe1ef7d569dbb471ae4345271bfecbb4e752c4fa65eb6b87f0581c626eeb12e',
  );
});

async function openCopy(name: string): Promise<ChunkStorage> {
  const path = join(temporaryFolder(), name);
  await cp(join(GOLDEN, name), path, { recursive: true });
  return name.endsWith('.db') ? new SqliteCheckpointStorage({ path }) : new FileCheckpointStorage({ path });
}

async function checkHistory(manager: CheckpointManager): Promise<void> {
  expect(await manager.verify()).toMatchObject({
    status: 'clean',
    checkpoints: 7,
    tombstones: 1,
    effects: 7,
    sessions: 1,
  });
  const session = await manager.session('golden');
  expect(isSameValue(session.state, goldenState(42))).toBe(true);
  expect(session.head).toMatchObject({ agentId: 'a-1', userId: 'u-1', status: 'RUNNING', sequence: 7 });
  const edited = await manager.session('golden', { branch: 'edited' });
  expect(isSameValue(edited.state, { ...goldenState(40), title: 'edited' })).toBe(true);
  expect((await manager.tags('golden')).map(({ name }) => name)).toEqual(['v1']);
  const replay = await manager.session('golden', { replayFrom: 'start', mode: 'frozen' });
  expect(await replay.step('model', () => 'ran', { input: 0 })).toEqual({ turns: 0, text: '' });
  await session.save({ ...goldenState(43) });
  expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 8 });
  await manager.close();
}

test.each(['format-1.db', 'format-1-compressed.db', 'format-2.db', 'format-2-compressed.db', 'format-1-files'])(
  '[format.1] %s is read and written on',
  async (name) => {
    await checkHistory(new CheckpointManager({ storage: await openCopy(name) }));
  },
);

test('[format.1] an exported session of format version 1 is imported', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  await manager.importSession(createReadStream(join(GOLDEN, 'format-1.jsonl')));
  await checkHistory(manager);
});
