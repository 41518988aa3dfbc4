import assert from 'node:assert/strict';
import { expect, test } from 'vitest';
import { hasErrorCode } from '../../src/core/errors.ts';
import type { CheckpointHeader } from '../../src/core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../src/core/record/id.ts';
import type { ChunkStorage, NewCheckpoint } from '../../src/storage/contract.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import { Builders, commitOf, contentOf, deletionOf, moveBranch } from '../../src/testing/contract/builders.ts';
import { reportFaults } from '../support/fault-report.ts';
import { override } from '../support/planted-bugs.ts';
import { type CrashState, SimulatedDisk } from '../support/simulated-disk.ts';
import { CHANGING_OPERATIONS, type OperationFault } from '../support/simulated-file-system.ts';
import { checkReachable, PATH } from './file-crash-script.ts';

const FULL = process.env.SAVESTATE_TRIALS === 'full';
const STATES = FULL ? 100_000 : 2_000;
const STOPS = 60;
const RACES = FULL ? 2_000 : 200;
const PER_OPERATION = 4;
const SAVES = 3;
const QUIET_TURNS = 20;

type Acknowledged = { readonly id: CheckpointId; readonly operation: number };

// One source of ids for all simulated processes: they share a clock that stands still, and ids must differ all the same.
const ids = new Builders(42);

/** Saves on top of whatever the head of a session is, and starts again when another process was faster. */
async function saveOnHead(storage: ChunkStorage, make: Builders, sessionId: string): Promise<NewCheckpoint> {
  for (;;) {
    const [head] = await storage.readRefs({ sessionId, kind: 'branch', name: 'main' });
    const row = head && (await storage.readCheckpoint(head.target as CheckpointId));
    // Whoever deleted the head's session meanwhile, or moved the head on: look again.
    if (head !== undefined && row === undefined) continue;
    const header = row && (JSON.parse(row.body) as CheckpointHeader);
    const parent = row && header && { header, body: row.body, digest: row.digest, root: { text: '', refs: [] } };
    const chunk = make.chunk([], JSON.stringify(`chunk ${make.random.below(5)}`));
    const checkpoint = make.checkpoint({ id: ids.id(), sessionId, root: contentOf(chunk), ...(parent && { parent }) });
    const refs = [moveBranch('main', checkpoint, head?.target ?? null)];
    const requires = parent ? [parent.header.id] : [];
    try {
      await storage.commit(commitOf(checkpoint, { chunks: [chunk], refs, requires }));
      return checkpoint;
    } catch (error) {
      if (!hasErrorCode(error, 'CONFLICT')) throw error;
    }
  }
}

/** Two processes that save to the same sessions, and a third that collects. */
async function race(disk: SimulatedDisk, seed: number): Promise<Acknowledged[]> {
  const acknowledged: Acknowledged[] = [];
  const open = (n: number) =>
    new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem({ seed: seed * 10 + n }) });
  const write = async (n: number): Promise<void> => {
    const [storage, make] = [open(n), new Builders(seed * 100 + n)];
    for (let save = 0; save < SAVES; save++) {
      const { header } = await saveOnHead(storage, make, save % 2 === 0 ? 'shared' : 'other');
      acknowledged.push({ id: header.id, operation: disk.operations });
    }
    await storage.close();
  };
  const collect = async (): Promise<void> => {
    const storage = open(3);
    await storage.collect();
    await storage.close();
  };
  await Promise.all([write(1), write(2), collect()]);
  return acknowledged;
}

async function findFault({ operation, disk }: CrashState, acknowledged: readonly Acknowledged[]) {
  const storage = new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() });
  try {
    await checkLineage(
      storage,
      acknowledged.filter((ack) => ack.operation <= operation).map(({ id }) => id),
    );
    return undefined;
  } catch (error) {
    return `operation ${operation}: ${error}`;
  } finally {
    await storage.close();
  }
}

/** Every acknowledged checkpoint is there; each session is one unbroken line that ends at its head. */
async function checkLineage(storage: ChunkStorage, wanted: readonly CheckpointId[]): Promise<void> {
  const rows = await storage.listCheckpoints({ limit: 1_000_000, order: 'oldest' });
  const headers = new Map(rows.map((row) => [row.id, JSON.parse(row.body) as CheckpointHeader]));
  for (const id of wanted) assert.ok(headers.has(id), `${id} was acknowledged and is lost`);
  const isParent = new Set([...headers.values()].map((header) => header.parentId));
  for (const parentId of isParent) assert.ok(parentId === undefined || headers.has(parentId), `${parentId} is lost`);
  const leaves = [...headers.keys()].filter((id) => !isParent.has(id)).sort();
  const heads = (await storage.readRefs({ kind: 'branch' })).map((ref) => ref.target).sort();
  assert.deepEqual(heads, leaves);
  await checkReachable(storage);
  assert.deepEqual(await storage.checkIntegrity(), []);
}

test('processes that save to the same sessions beside a collector lose nothing', async () => {
  for (let seed = 1; seed <= RACES; seed++) {
    const disk = new SimulatedDisk();
    const acknowledged = await race(disk, seed);
    expect(acknowledged.length).toBe(2 * SAVES);
    const storage = new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() });
    await checkLineage(
      storage,
      acknowledged.map(({ id }) => id),
    );
  }
});

test('a power cut while several processes save loses no acknowledged save and breaks no line', async () => {
  const faults: string[] = [];
  let states = 0;
  for (let seed = 1; states < STATES; seed++) {
    const disk = new SimulatedDisk();
    disk.startRecording();
    const acknowledged = await race(disk, seed);
    for (const state of disk.crashStates({ seed, countPerOperation: PER_OPERATION })) {
      if (states === STATES) break;
      states++;
      const fault = await findFault(state, acknowledged);
      if (fault !== undefined) faults.push(`seed ${seed}, ${fault}`);
    }
  }
  reportFaults('power cuts under file, three processes', { trials: states, failures: faults });
  expect(faults).toEqual([]);
});

/** Waits until nothing happens any more: processes of a simulated disk wait for nothing but turns, so that a few without a change will do. */
async function standstill(disk: SimulatedDisk): Promise<void> {
  for (let quietTurns = 0, before = -1; quietTurns < QUIET_TURNS; ) {
    quietTurns = disk.operations === before ? quietTurns + 1 : 0;
    before = disk.operations;
    await new Promise(setImmediate);
  }
}

/** One process stands still at its n-th operation; another builds on what it left, which may not be synced yet. */
async function buildOnStopped(disk: SimulatedDisk, nth: number): Promise<Acknowledged[]> {
  const open = (faults: readonly OperationFault[]) =>
    new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem({ faults }) });
  const [stopped, other] = [open([{ on: CHANGING_OPERATIONS, nth, code: 'STOP' }]), open([])];
  const acknowledged: Acknowledged[] = [];
  const save = async (storage: ChunkStorage, make: Builders, sessionId: string): Promise<void> => {
    const { header } = await saveOnHead(storage, make, sessionId);
    acknowledged.push({ id: header.id, operation: disk.operations });
  };
  const first = async (): Promise<void> => {
    const make = new Builders(nth);
    for (const sessionId of ['shared', 'shared', 'other']) await save(stopped, make, sessionId);
  };
  await Promise.race([first(), standstill(disk)]);
  disk.startRecording();
  const make = new Builders(1_000 + nth);
  for (const sessionId of ['shared', 'other']) await save(other, make, sessionId);
  return acknowledged;
}

test('a process never relies on what another wrote and did not sync', async () => {
  const faults: string[] = [];
  let states = 0;
  for (let nth = 1; nth <= STOPS; nth++) {
    const disk = new SimulatedDisk();
    const acknowledged = await buildOnStopped(disk, nth);
    for (const state of disk.crashStates({ seed: nth, countPerOperation: FULL ? 40 : 4 })) {
      states++;
      const fault = await findFault(state, acknowledged);
      if (fault !== undefined) faults.push(`stopped at ${nth}, ${fault}`);
    }
  }
  reportFaults('power cuts under file, beside a stopped process', { trials: states, failures: faults });
  expect(faults).toEqual([]);
});

/** One process is killed at its n-th operation, maybe in the middle of a deletion; another collects. */
async function collectAfterKilled(disk: SimulatedDisk, nth: number): Promise<Acknowledged[]> {
  const acknowledged: Acknowledged[] = [];
  const dying = disk.fileSystem({ faults: [{ on: CHANGING_OPERATIONS, nth, code: 'STOP' }] });
  const killed = new FileCheckpointStorage({ path: PATH, fileSystem: dying });
  const make = new Builders(nth);
  const [leaf, oldLeaf] = [make.chunk(), make.chunk()];
  const work = async (): Promise<void> => {
    const first = await saveOnHead(killed, make, 'shared');
    acknowledged.push({ id: first.header.id, operation: disk.operations });
    await saveOnHead(killed, make, 'shared');
    await saveOnHead(killed, make, 'other');
    const sessionId = first.header.sessionId;
    const effects = [make.effect({ sessionId, ordinal: 0, result: contentOf(oldLeaf) })];
    await killed.commit({ sessionId, chunks: [oldLeaf], effects });
    await killed.deleteCheckpoints([deletionOf(first)]);
    const replaced = [make.effect({ sessionId, ordinal: 0, result: contentOf(leaf) })];
    await killed.commit({ sessionId, chunks: [leaf], effects: replaced });
    await killed.deleteSession('other' as SessionId);
  };
  await Promise.race([work(), standstill(disk)]);
  disk.startRecording();
  disk.endProcess(dying);
  await new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() }).collect();
  return acknowledged;
}

/** Every acknowledged checkpoint is there or has its tombstone, and what is there is whole. */
async function checkNoneVanished(storage: ChunkStorage, wanted: readonly CheckpointId[]): Promise<void> {
  const rows = await storage.listCheckpoints({ limit: 1_000_000, include: 'all' });
  for (const id of wanted)
    assert.ok(
      rows.some((row) => row.id === id),
      `${id} vanished`,
    );
  await checkReachable(storage);
}

test('a collection removes nothing on the word of a deletion that a power cut may undo', async () => {
  const faults: string[] = [];
  let states = 0;
  for (let nth = 1; nth <= 2.5 * STOPS; nth++) {
    const disk = new SimulatedDisk();
    const acknowledged = await collectAfterKilled(disk, nth);
    for (const { operation, disk: after } of disk.crashStates({ seed: nth, countPerOperation: FULL ? 40 : 4 })) {
      states++;
      const storage = new FileCheckpointStorage({ path: PATH, fileSystem: after.fileSystem() });
      const wanted = acknowledged.filter((ack) => ack.operation <= operation).map(({ id }) => id);
      await checkNoneVanished(storage, wanted).catch((error) =>
        faults.push(`killed at ${nth}, operation ${operation}: ${error}`),
      );
    }
  }
  reportFaults('power cuts under file, collecting after a kill', { trials: states, failures: faults });
  expect(faults).toEqual([]);
});

test('what a dead process left, markers and half-written files, keeps nobody waiting', async () => {
  for (let nth = 1; nth <= 40; nth++) {
    const disk = new SimulatedDisk();
    const make = new Builders(nth);
    const first = make.checkpoint();
    const before = new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() });
    await before.commit(commitOf(first));
    // From the n-th operation on nothing happens any more: to others the process is dead.
    const dying = disk.fileSystem({
      faults: [{ on: CHANGING_OPERATIONS, nth, code: 'EIO', isSticky: true }],
    });
    const killed = new FileCheckpointStorage({ path: PATH, fileSystem: dying });
    const chunk = make.chunk();
    await killed.commit(commitOf(make.checkpoint({ root: contentOf(chunk) }), { chunks: [chunk] })).catch(() => 0);
    await killed.deleteCheckpoints([deletionOf(first)]).catch(() => 0);
    disk.endProcess(dying);
    const after = new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem(), lockTimeoutMs: 1_000 });
    await after.collect();
    await after.commit(commitOf(make.checkpoint()));
    await checkReachable(after);
    expect(await after.checkIntegrity()).toEqual([]);
    expect(disk.filePaths().filter((path) => /temp\/|locks\//.test(path))).toEqual([]);
  }
});

test('a session that another process deletes while its deleted entries are erased stops no deletion, collection or save', async () => {
  for (const work of ['delete', 'collect'] as const) {
    const disk = new SimulatedDisk();
    const make = new Builders(7);
    const other = new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() });
    const [first] = [await saveOnHead(other, make, 'shared'), await saveOnHead(other, make, 'shared')];
    if (work === 'collect') {
      const dying = openErasing(disk, () => Promise.reject(new Error('it dies before it erases')));
      await expect(dying.deleteCheckpoints([deletionOf(first)])).rejects.toThrow('it dies');
    }
    const deletions: boolean[] = [];
    const storage = openErasing(disk, async () => {
      deletions.push(await other.deleteSession('shared' as SessionId));
    });
    if (work === 'delete') await storage.deleteCheckpoints([deletionOf(first)]);
    else await storage.collect();
    expect(deletions[0]).toBe(true);
    await saveOnHead(storage, make, 'more');
  }
});

/** A storage of a process of its own; something happens before it says by a marker that it erases, or saves. */
function openErasing(disk: SimulatedDisk, before: () => Promise<void>): FileCheckpointStorage {
  const plain = disk.fileSystem();
  const fileSystem = override(plain, {
    createFile: async (path) => {
      if (path.includes('writer-')) await before();
      return plain.createFile(path);
    },
  });
  return new FileCheckpointStorage({ path: PATH, fileSystem });
}
