import { expect, test } from 'vitest';
import type { FileSystem } from '../../src/storage/file/file-system.ts';
import { SimulatedDisk } from './simulated-disk.ts';

const CUTS = 200;

async function writeFile(fileSystem: FileSystem, path: string, options: { isSynced: boolean }): Promise<void> {
  const file = await fileSystem.createFile(path);
  await file.write('whole content');
  if (options.isSynced) await file.sync();
  await file.close();
}

/** The distinct outcomes of many power cuts, each told by a function. */
async function outcomes(disk: SimulatedDisk, tell: (fileSystem: FileSystem) => Promise<string>): Promise<string[]> {
  const found = new Set<string>();
  for (let seed = 0; seed < CUTS; seed++) found.add(await tell(disk.cutPower(seed).fileSystem()));
  return [...found].sort();
}

async function tellFile(fileSystem: FileSystem, path: string): Promise<string> {
  const bytes = await fileSystem.readFile(path);
  if (bytes === undefined) return 'missing';
  const text = Buffer.from(bytes).toString();
  if (text === 'whole content') return 'whole';
  if (text === '') return 'empty';
  return 'whole content'.startsWith(text) ? 'prefix' : 'zeros';
}

test('what was synced, content and name, survives every power cut', async () => {
  const disk = new SimulatedDisk();
  const fileSystem = disk.fileSystem();
  await writeFile(fileSystem, '/a', { isSynced: true });
  await fileSystem.syncFolder('/');
  expect(await outcomes(disk, (after) => tellFile(after, '/a'))).toEqual(['whole']);
});

test('content that was not synced may be missing, cut short, zero or whole', async () => {
  const disk = new SimulatedDisk();
  const fileSystem = disk.fileSystem();
  await writeFile(fileSystem, '/a', { isSynced: false });
  await fileSystem.syncFolder('/');
  expect(await outcomes(disk, (after) => tellFile(after, '/a'))).toEqual(['empty', 'prefix', 'whole', 'zeros']);
});

test('a name that was not synced may be missing, though its content was synced', async () => {
  const disk = new SimulatedDisk();
  await writeFile(disk.fileSystem(), '/a', { isSynced: true });
  expect(await outcomes(disk, (after) => tellFile(after, '/a'))).toEqual(['missing', 'whole']);
});

test('names of different folders come and go independently, also those of one rename', async () => {
  const disk = new SimulatedDisk();
  const fileSystem = disk.fileSystem();
  for (const folder of ['/x', '/y']) await fileSystem.makeFolder(folder);
  await writeFile(fileSystem, '/x/a', { isSynced: true });
  for (const folder of ['/', '/x', '/y']) await fileSystem.syncFolder(folder);
  await fileSystem.rename('/x/a', '/y/a');
  const tell = async (after: FileSystem) => `${await tellFile(after, '/x/a')} ${await tellFile(after, '/y/a')}`;
  expect(await outcomes(disk, tell)).toEqual(['missing missing', 'missing whole', 'whole missing', 'whole whole']);
  await fileSystem.syncFolder('/y');
  expect(await outcomes(disk, tell)).toEqual(['missing whole', 'whole whole']);
});

test('a rename inside one folder happens as a whole, and so does that of a folder', async () => {
  const disk = new SimulatedDisk();
  const fileSystem = disk.fileSystem();
  await writeFile(fileSystem, '/a', { isSynced: true });
  for (const folder of ['/d', '/e']) await fileSystem.makeFolder(folder);
  await fileSystem.makeFolder('/d/inner');
  for (const folder of ['/', '/d']) await fileSystem.syncFolder(folder);
  await fileSystem.rename('/a', '/b');
  await fileSystem.rename('/d/inner', '/e/inner');
  const tell = async (after: FileSystem) => `${await tellFile(after, '/a')} ${await tellFile(after, '/b')}`;
  expect(await outcomes(disk, tell)).toEqual(['missing whole', 'whole missing']);
  const places = async (after: FileSystem) =>
    `${(await after.readFolder('/d/inner')) !== undefined} ${(await after.readFolder('/e/inner')) !== undefined}`;
  expect(await outcomes(disk, places)).toEqual(['false true', 'true false']);
});

test('a folder whose name was not synced takes all it holds with it', async () => {
  const disk = new SimulatedDisk();
  const fileSystem = disk.fileSystem();
  await fileSystem.makeFolder('/x');
  await writeFile(fileSystem, '/x/a', { isSynced: true });
  await fileSystem.syncFolder('/x');
  expect(await outcomes(disk, (after) => tellFile(after, '/x/a'))).toEqual(['missing', 'whole']);
});

test('every operation of a recorded run is a boundary, and a seed gives the same disks again', async () => {
  const disk = new SimulatedDisk();
  disk.startRecording();
  const fileSystem = disk.fileSystem();
  await writeFile(fileSystem, '/a', { isSynced: true });
  await fileSystem.syncFolder('/');
  const list = () => [...disk.crashStates({ seed: 7, countPerOperation: 5 })];
  expect([...new Set(list().map((state) => state.operation))]).toEqual([0, 1, 2, 3, 4]);
  const tell = async () => Promise.all(list().map(async (state) => tellFile(state.disk.fileSystem(), '/a')));
  expect(await tell()).toEqual(await tell());
});

test('faults hit the n-th operation once, or from then on', async () => {
  const disk = new SimulatedDisk();
  const once = disk.fileSystem({ faults: [{ on: ['syncFolder'], nth: 2, code: 'EIO' }] });
  const sticky = disk.fileSystem({ faults: [{ on: ['syncFolder'], nth: 2, code: 'EIO', isSticky: true }] });
  const outcomesOf = async (fileSystem: FileSystem) => {
    const results: string[] = [];
    for (let n = 0; n < 4; n++)
      results.push(
        await fileSystem.syncFolder('/').then(
          () => 'ok',
          (error) => error.code,
        ),
      );
    return results;
  };
  expect(await outcomesOf(once)).toEqual(['ok', 'EIO', 'ok', 'ok']);
  expect(await outcomesOf(sticky)).toEqual(['ok', 'EIO', 'EIO', 'EIO']);
});

test('processes of before a power cut are dead after it', async () => {
  const disk = new SimulatedDisk();
  const before = disk.fileSystem();
  const after = disk.cutPower(1).fileSystem();
  expect(await after.isProcessAlive(before.processId)).toBe(false);
  expect(await after.isProcessAlive(after.processId)).toBe(true);
});
