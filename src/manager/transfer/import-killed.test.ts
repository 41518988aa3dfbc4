import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { BUILT } from '../../../test/support/built.ts';
import { temporaryFolder } from '../../../test/support/storages.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { FileCheckpointStorage } from '../../storage/file/file-storage.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { SqliteCheckpointStorage } from '../../storage/sqlite/sqlite-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';

/** Imports a file; says so when three commits are stored, and hangs. */
const CHILD = `
  import { createReadStream } from 'node:fs';
  import { CheckpointManager, FileCheckpointStorage, SqliteCheckpointStorage } from '${pathToFileURL(BUILT)}/index.js';
  const [kind, path, file] = process.argv.slice(1);
  const storage = kind === 'sqlite' ? new SqliteCheckpointStorage({ path }) : new FileCheckpointStorage({ path });
  const commit = storage.commit.bind(storage);
  let commits = 0;
  storage.commit = async (each) => {
    if (++commits > 3) {
      process.stdout.write('half');
      await new Promise(() => setInterval(() => {}, 1000));
    }
    return commit(each);
  };
  await new CheckpointManager({ storage }).importSession(createReadStream(file));`;

async function exportLines(): Promise<string> {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await manager.session('s');
  for (let i = 0; i < 6; i++) await session.save({ imported: i });
  const lines: string[] = [];
  for await (const line of manager.exportSession('s')) lines.push(line);
  return lines.join('');
}

/** Timers that are over at once, so that nobody waits for a dead process; how many there were. */
function hurriedTimers() {
  const timers = { waits: 0 };
  const setTimer = (run: () => void) => {
    timers.waits++;
    setImmediate(run);
    return () => undefined;
  };
  return { timers, setTimer };
}

const KINDS: readonly [kind: string, open: (path: string) => ChunkStorage][] = [
  ['sqlite', (path) => new SqliteCheckpointStorage({ path })],
  ['file', (path) => new FileCheckpointStorage({ path })],
];

describe.each(KINDS)('[session.4] what an import left that was killed, on %s', (kind, open) => {
  async function killImport(): Promise<{ storage: ChunkStorage; lines: string }> {
    const folder = temporaryFolder();
    const [path, file] = [join(folder, 'store'), join(folder, 's.jsonl')];
    const lines = await exportLines();
    writeFileSync(file, lines);
    const importing = spawn(process.execPath, ['--input-type=module', '-e', CHILD, kind, path, file], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    onTestFinished(() => void importing.kill('SIGKILL'));
    await once(importing.stdout, 'data');
    importing.kill('SIGKILL');
    await once(importing, 'exit');
    const storage = open(path);
    onTestFinished(() => storage.close());
    expect((await storage.listCheckpoints({ sessionId: 's', limit: 10 })).length).toBe(2);
    return { storage, lines };
  }

  test('is in no list, and gone when the session is opened: a save does not mix with it', async () => {
    const { storage } = await killImport();
    const { timers, setTimer } = hurriedTimers();
    const manager = new CheckpointManager({ storage, setTimer });
    expect((await manager.list({})).checkpoints).toEqual([]);
    expect((await manager.list({ sessionId: 's' })).checkpoints).toEqual([]);
    expect(await manager.latest({})).toBeUndefined();
    const session = await manager.session('s');
    expect(timers.waits).toBeGreaterThan(30); // it might have been alive
    const id = await session.save({ own: true });
    expect((await manager.list({})).checkpoints.map((each) => each.id)).toEqual([id]);
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 1, tombstones: 0 });
  });

  test('is gone at once if it is old, and before the next import', async () => {
    const { storage, lines } = await killImport();
    const { timers, setTimer } = hurriedTimers();
    const now = () => Date.now() + 2 * 3_600_000;
    const manager = new CheckpointManager({ storage, setTimer, now });
    await manager.importSession(
      (async function* () {
        yield lines;
      })(),
    );
    expect(timers.waits).toBe(0);
    expect((await manager.list({ sessionId: 's' })).checkpoints).toHaveLength(6);
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 6 });
  });
});

test('[session.4] a session that is opened while it is imported is the imported one', async () => {
  const storage = new InMemoryCheckpointStorage();
  const { setTimer } = hurriedTimers();
  const manager = new CheckpointManager({ storage, setTimer });
  const lines = await exportLines();
  const commit = storage.commit.bind(storage);
  let opening: Promise<unknown> | undefined;
  storage.commit = async (each) => {
    const result = await commit(each);
    opening ??= manager.session('s').then(({ state }) => state);
    return result;
  };
  await manager.importSession(
    (async function* () {
      yield lines;
    })(),
  );
  expect(await opening).toEqual({ imported: 5 });
});

test('[session.4] what is imported again is hidden from a manager that knew the session before it was deleted', async () => {
  const storage = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({ storage });
  const lines = await exportLines();
  const source = async function* () {
    yield lines;
  };
  await manager.importSession(source());
  expect((await manager.list({})).checkpoints).toHaveLength(6);
  await manager.deleteSession('s');
  const seen: number[] = [];
  const commit = storage.commit.bind(storage);
  storage.commit = async (each) => {
    seen.push((await manager.list({})).checkpoints.length, (await manager.list({ sessionId: 's' })).checkpoints.length);
    return commit(each);
  };
  await manager.importSession(source());
  expect(new Set(seen)).toEqual(new Set([0]));
  expect((await manager.list({})).checkpoints).toHaveLength(6);
});
