import { expect, test } from 'vitest';
import { checkChunk } from '../../src/core/chunk.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import { readAll } from '../../src/testing/contract/contract-test.ts';
import { createRandom } from '../../src/testing/contract/random.ts';
import { SimulatedDisk } from '../../src/testing/simulated-disk.ts';
import type { FileNode } from '../../src/testing/simulated-node.ts';
import { PATH, runSteps, scriptSteps } from './file-crash-script.ts';

const FULL = process.env.SAVESTATE_TRIALS === 'full';
const FLIPS = FULL ? 10_000 : 1_000;
const OTHERS = FULL ? 1_000 : 100;
const STEPS = 9;

/** A store with live and deleted checkpoints, effects, refs and chunks, and what can be read from it. */
async function populate() {
  const disk = new SimulatedDisk();
  await runSteps(disk, disk.fileSystem(), scriptSteps(1).slice(0, STEPS));
  const whole = await readAll(openOn(disk));
  return { disk, whole: JSON.stringify(whole), paths: disk.filePaths() };
}

const openOn = (disk: SimulatedDisk): FileCheckpointStorage =>
  new FileCheckpointStorage({ path: PATH, fileSystem: disk.fileSystem() });

const fileAt = (disk: SimulatedDisk, path: string): FileNode => {
  const node = disk.find(path);
  if (node?.kind !== 'file') throw new TypeError(`${path} is no file`);
  return node;
};

/** Whether damage is found by the check, and no altered value is ever read. */
async function isNoticed(disk: SimulatedDisk, whole: string): Promise<{ isFound: boolean; isServed: boolean }> {
  const findings = await openOn(disk).checkIntegrity();
  // Markers are never synced; a disk that is used ten thousand times would remember them all.
  await disk.fileSystem().syncFolder(`${PATH}/locks`);
  const read = await readChecked(disk).catch((error: { code?: string }) => error.code);
  const isRefused = read === 'CORRUPT' || read === 'UNSUPPORTED';
  return { isFound: findings.length > 0, isServed: !isRefused && read !== whole };
}

/** Reads everything as a manager does: chunks are checked against their digests. */
async function readChecked(disk: SimulatedDisk): Promise<string> {
  const all = await readAll(openOn(disk));
  for (const chunk of all.chunks as Parameters<typeof checkChunk>[0][]) checkChunk(chunk);
  return JSON.stringify(all);
}

test('one flipped bit in any file is found, and never served', async () => {
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
    const { isFound, isServed } = await isNoticed(disk, whole);
    if (!isFound) missed++;
    if (isServed) served++;
    disk.flipBit(path, bit);
  }
  console.info(`file storage: ${FLIPS} flipped bits in ${paths.length} files, ${missed} not found, ${served} served`);
  expect({ missed, served }).toEqual({ missed: 0, served: 0 });
  expect(await readChecked(disk)).toBe(whole);
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
