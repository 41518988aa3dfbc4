import { setImmediate } from 'node:timers/promises';
import { afterEach, expect, test, vi } from 'vitest';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { parseSessionId, type SessionId } from '../../core/record/id.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { FileCheckpointStorage } from '../../storage/file/file-storage.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { SqliteCheckpointStorage } from '../../storage/sqlite/sqlite-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';

const ITEMS = 800;
const NAMES = 2000;
/** By a clock that goes on by a millisecond each time it is looked at, a turn is due every 20 items. */
const TURNS = ITEMS / 40;

afterEach(() => {
  vi.restoreAllMocks();
});

/** The turns of the event loop during some work. */
async function countTurns(work: () => Promise<unknown>): Promise<number> {
  let nowMs = performance.now();
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs++);
  let turns = 0;
  let next = globalThis.setImmediate(function count() {
    turns++;
    next = globalThis.setImmediate(count);
  });
  try {
    await work();
    return turns;
  } finally {
    clearImmediate(next);
    clock.mockRestore();
  }
}

/** A session with many tags, and a state with a chunk for each, twice: once alive, once deleted. */
async function fill(storage: ChunkStorage): Promise<CheckpointManager> {
  const manager = new CheckpointManager({ storage });
  const session = await manager.session('s');
  const texts = (word: string) => Array.from({ length: ITEMS }, (_, at) => `${word} ${at} `.repeat(40));
  const first = await session.save({ texts: texts('old') });
  const id = await session.save({ texts: texts('new') });
  await name(storage, session.id, id);
  await manager.delete(first);
  return manager;
}

async function name(storage: ChunkStorage, sessionId: SessionId, target = 'x'): Promise<void> {
  const refs = Array.from({ length: NAMES }, (_, at) => ({ kind: 'tag' as const, name: `t${at}`, target }));
  await storage.commit({ sessionId, refs });
}

const STORAGES: readonly [string, () => ChunkStorage][] = [
  ['memory', () => new InMemoryCheckpointStorage()],
  ['SQLite', () => new SqliteCheckpointStorage({ path: `${temporaryFolder()}/turns.db` })],
];

test.each(STORAGES)(
  '[session.6] prune, verify, export, import and gc take turns with the event loop, on %s',
  async (_, open) => {
    const storage = open();
    const manager = await fill(storage);
    const lines: string[] = [];
    const exportAll = async () => {
      for await (const line of manager.exportSession('s')) lines.push(line);
    };
    const copy = new CheckpointManager({ storage: open() });
    const bringIn = async () => copy.importSession(linesOf(lines));
    expect(await countTurns(() => manager.prune({ dryRun: true }))).toBeGreaterThan(TURNS);
    expect(await countTurns(() => manager.verify())).toBeGreaterThan(TURNS);
    expect(await countTurns(exportAll)).toBeGreaterThan(TURNS);
    expect(await countTurns(bringIn)).toBeGreaterThan(TURNS);
    // SQLite has turns by the number of rows.
    expect(await countTurns(() => manager.gc())).toBeGreaterThan(storage.kind === 'memory' ? TURNS : ITEMS / 250);
    expect((await copy.verify()).findings).toEqual([]);
    await Promise.all([manager.close(), copy.close()]);
  },
);

test.each([...STORAGES, ['files', () => new FileCheckpointStorage({ path: temporaryFolder() })] as const])(
  '[session.6] lists of checkpoints and of names take turns with the event loop, on %s',
  async (_, open) => {
    const storage = open();
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('s');
    const checkpoints = storage.kind === 'file' ? 60 : 200;
    for (let at = 0; at < checkpoints; at++) await session.save({ at });
    await name(storage, session.id);
    const readNames = () => storage.readRefs({ sessionId: 's' });
    const list = () => manager.list({}, { limit: checkpoints });
    // SQLite has turns by the number of rows.
    expect(await countTurns(readNames)).toBeGreaterThanOrEqual(storage.kind === 'sqlite' ? NAMES / 500 : NAMES / 40);
    expect(await countTurns(list)).toBeGreaterThan(checkpoints / 40);
    expect(await readNames()).toHaveLength(NAMES + 1);
    await manager.close();
  },
);

test.each(STORAGES)(
  '[session.6] prune and gc of many short sessions take turns between them, on %s',
  async (_, open) => {
    const manager = new CheckpointManager({ storage: open() });
    const sessions = 120;
    for (let at = 0; at < sessions; at++) {
      const session = await manager.session(`s${at}`);
      for (let n = 0; n < 3; n++) await session.save({ at, n });
    }
    const prune = () => manager.prune({ policy: { keepLast: 1 } });
    expect(await countTurns(prune)).toBeGreaterThan((2 * sessions) / 20);
    expect(await countTurns(() => manager.gc())).toBeGreaterThan(sessions / 40);
    await manager.close();
  },
);

test('[session.6] names that are read in turns are those of one moment', async () => {
  const path = `${temporaryFolder()}/moment.db`;
  const storage = new SqliteCheckpointStorage({ path });
  const other = new SqliteCheckpointStorage({ path });
  const sessionId = parseSessionId('s');
  await name(storage, sessionId);
  const change = (writer: ChunkStorage, mark: string) => {
    const refs = (['branch', 'tag'] as const).map((kind) => ({ kind, name: `z${mark}`, target: 'x' }));
    return writer.commit({ sessionId, refs });
  };
  const reading = storage.readRefs({ sessionId: 's' });
  await setImmediate();
  await Promise.all([change(storage, 'own'), change(other, 'other')]);
  const kinds = (await reading).flatMap((ref) => (ref.name.startsWith('z') ? [ref.kind] : []));
  expect(kinds).toEqual(['branch', 'branch', 'tag', 'tag']);
  await Promise.all([storage.close(), other.close()]);
});

async function* linesOf(lines: readonly string[]): AsyncGenerator<string> {
  yield* lines;
}

test('[session.6] what is saved while the storage in memory collects is not collected', async () => {
  const storage = new InMemoryCheckpointStorage();
  const manager = await fill(storage);
  const session = await manager.session('other');
  await countTurns(async () => {
    const collecting = manager.gc();
    for (let at = 0; at < ITEMS; at += 20) {
      await session.save({ texts: [`old ${at} `.repeat(40)] });
      await setImmediate();
    }
    await collecting;
  });
  expect((await manager.verify()).findings).toEqual([]);
});
