import { expect, test } from 'vitest';
import { type Chunk, checkChunk } from '../../src/core/tree/chunk.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import { createRandom } from '../../src/testing/contract/random.ts';
import { SimulatedDisk } from '../support/simulated-disk.ts';
import type { FileNode } from '../support/simulated-node.ts';
import { PATH, runSteps, scriptSteps } from './file-crash-script.ts';

const FULL = process.env.SAVESTATE_TRIALS === 'full';
const FLIPS = FULL ? 10_000 : 1_000;
const OTHERS = FULL ? 1_000 : 100;
const STEPS = 9;
const ALL = 1_000_000;

/** A store with live and deleted checkpoints, effects, refs and chunks, and what can be read from it. */
async function populate() {
  const disk = new SimulatedDisk();
  await runSteps(disk, disk.fileSystem(), scriptSteps(1).slice(0, STEPS));
  return { disk, whole: await readParts(openOn(disk)), paths: disk.filePaths() };
}

const openOn = (disk: SimulatedDisk): FileCheckpointStorage =>
  new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() });

const fileAt = (disk: SimulatedDisk, path: string): FileNode => {
  const node = disk.find(path);
  if (node?.kind !== 'file') throw new TypeError(`${path} is no file`);
  return node;
};

/** Whether damage is found by the check, and no altered value is ever read. */
async function isNoticed(disk: SimulatedDisk, whole: Parts) {
  const findings = await openOn(disk).checkIntegrity();
  // Markers are never synced; a disk that is used ten thousand times would remember them all.
  await disk.fileSystem().syncFolder(`${PATH}/locks`);
  const read = await readParts(openOn(disk));
  const isServed = [...read].some((part) => !whole.has(part));
  return { isFound: findings.length > 0, isServed, left: read.size };
}

/** Everything that can be read, value by value. */
type Parts = ReadonlySet<string>;

/** Reads everything as a manager does, chunks checked against their digests; what is refused is left out. */
async function readParts(storage: FileCheckpointStorage): Promise<Parts> {
  const parts = new Set<string>();
  const add = (kind: string, values: readonly unknown[]): void => {
    for (const value of values) parts.add(`${kind} ${JSON.stringify(value)}`);
  };
  const rows = await orNone(storage.listCheckpoints({ limit: ALL, include: 'all' }));
  add('row', rows);
  for (const { id } of rows) add('checkpoint', await orNone(storage.readCheckpoint(id).then((row) => [row])));
  add('ref', await orNone(storage.readRefs()));
  const sessions = await orNone(storage.listSessions({ limit: ALL }));
  add('session', sessions);
  for (const sessionId of sessions) {
    add('row', await orNone(storage.listCheckpoints({ sessionId, limit: ALL, include: 'all' })));
    add('ref', await orNone(storage.readRefs({ sessionId })));
    add('effect', await orNone(storage.readEffects({ sessionId })));
  }
  for (const digest of await orNone(storage.listChunks({ limit: ALL })))
    add('chunk', await orNone(storage.readChunks([digest]).then((chunks) => chunks.map(checked))));
  return parts;
}

function checked(chunk: Chunk | undefined): Chunk | undefined {
  if (chunk !== undefined) checkChunk(chunk);
  return chunk;
}

async function orNone<T>(read: Promise<T[]>): Promise<T[]> {
  return read.catch((error: { code?: string }) => {
    if (error.code === 'CORRUPT' || error.code === 'UNSUPPORTED') return [];
    throw error;
  });
}

test('one flipped bit in any file is found, never served, and leaves the rest usable', async () => {
  const { disk, whole, paths } = await populate();
  const random = createRandom(7);
  const sizes = paths.map((path) => fileAt(disk, path).content.length);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  let [missed, served] = [0, 0];
  for (let trial = 0; trial < FLIPS; trial++) {
    // Every byte of the store is as likely as any other.
    let bit = random.below(total * 8);
    const at = sizes.findIndex((size) => {
      const isHere = bit < size * 8;
      if (!isHere) bit -= size * 8;
      return isHere;
    });
    const path = paths[at] ?? '';
    expect(disk.flipBit(path, bit)).toBe(true);
    const { isFound, isServed, left } = await isNoticed(disk, whole);
    if (!isFound) missed++;
    if (isServed) served++;
    // Only the file that makes the folder a store takes everything with it; any other damage stays in its session.
    if (!path.endsWith('/format.json')) expect(left).toBeGreaterThan(whole.size / 2);
    disk.flipBit(path, bit);
  }
  console.info(`file storage: ${FLIPS} flipped bits in ${paths.length} files, ${missed} not found, ${served} served`);
  expect({ missed, served }).toEqual({ missed: 0, served: 0 });
  expect(await readParts(openOn(disk))).toEqual(whole);
});

test('a file cut short, and two files that changed places, are found and never served', async () => {
  const { disk, whole, paths } = await populate();
  const random = createRandom(8);
  let [missed, served] = [0, 0];
  const count = async (): Promise<void> => {
    const { isFound, isServed } = await isNoticed(disk, whole);
    if (!isFound) missed++;
    if (isServed) served++;
  };
  for (let trial = 0; trial < OTHERS; trial++) {
    const [one, two] = [random.below(paths.length), random.below(paths.length - 1)];
    const [a, b] = [fileAt(disk, paths[one] ?? ''), fileAt(disk, paths[two < one ? two : two + 1] ?? '')];
    const [contentA, contentB] = [a.content, b.content];
    a.content = contentA.slice(0, random.below(contentA.length));
    await count();
    [a.content, b.content] = [contentB, contentA];
    await count();
    [a.content, b.content] = [contentA, contentB];
  }
  console.info(`file storage: ${OTHERS} cuts and ${OTHERS} swaps, ${missed} not found, ${served} served`);
  expect({ missed, served }).toEqual({ missed: 0, served: 0 });
});
