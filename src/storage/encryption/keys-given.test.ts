import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { SCRATCH_ROOT } from '../../../test/support/scratch-root.ts';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../memory/memory-storage.ts';
import { encrypted } from './encrypted.ts';
import { KeyFile } from './key-file.ts';
import { Keyring } from './keyring.ts';

const INVALID = { code: 'INVALID_INPUT' };

async function newFile(): Promise<KeyFile> {
  const file = new KeyFile(join(temporaryFolder(SCRATCH_ROOT), 'keys'));
  await file.create();
  return file;
}

test.each([42, {}, undefined, null, true, '', Promise.resolve('ann'), 'x'.repeat(513), `k_${'0a'.repeat(8)}`])(
  '[encryption.5] a keyFor that returns %s is refused by name, before anything is written',
  async (name) => {
    const below = new InMemoryCheckpointStorage();
    const keys = await newFile();
    const before = readFileSync(keys.path, 'utf8');
    const manager = new CheckpointManager({ storage: encrypted(below, { keys, keyFor: () => name as never }) });
    const saving = manager.save({ n: 1 }, { sessionId: 'ann/chat' });
    await expect(saving).rejects.toMatchObject(INVALID);
    await expect(saving).rejects.toThrow(
      /name of a key that keyFor returned for session "ann\/chat" (must be a string|has 1|is not written as the id)/,
    );
    expect(readFileSync(keys.path, 'utf8')).toBe(before);
    expect(await below.stats()).toMatchObject({ checkpoints: 0 });
  },
);

test.each([7, true, null, {}])('[encryption.5] no keyring takes %s for a name', async (name) => {
  const keys = await newFile();
  const before = readFileSync(keys.path, 'utf8');
  expect(() => Keyring.create().add(name as never)).toThrow('The name of a key must be a string');
  expect(() => Keyring.create().remove(name as never)).toThrow('must be a string');
  await expect(keys.update((ring) => ring.add(name as never))).rejects.toMatchObject(INVALID);
  expect(readFileSync(keys.path, 'utf8')).toBe(before);
});

test('[encryption.5] names that are no strings, which older versions wrote, are read by their text', () => {
  const ring = Keyring.create().add('7').add('other').add('third');
  const planted = ring.format().replace('"other"', '7').replace('"third"', 'true');
  const read = Keyring.parse(planted);
  expect(read.list().map(({ name }) => name)).toEqual(['main', '7', '(7)', 'true']);
  expect(read.list().map(({ id }) => id)).toEqual(ring.list().map(({ id }) => id));
  expect(Keyring.parse(read.remove('(7)').format()).list()[2]?.removedAt).toBeInstanceOf(Date);
});

test('[encryption.5] a change never puts another keyring in place of the one that is there', async () => {
  const keys = await newFile();
  const before = readFileSync(keys.path, 'utf8');
  await expect(keys.update(() => Keyring.create())).rejects.toMatchObject(INVALID);
  expect(readFileSync(keys.path, 'utf8')).toBe(before);
});

test('[encryption.5] what a change returns is checked before the file is replaced', async () => {
  const keys = await newFile();
  const before = readFileSync(keys.path, 'utf8');
  for (const junk of [undefined, 'secret-text', {}, Promise.resolve(Keyring.create())]) {
    const changing = keys.update(() => junk as never);
    await expect(changing).rejects.toMatchObject(INVALID);
    await expect(changing).rejects.toThrow(/KeyFile.update\(\) returns must be a Keyring; found/);
    await expect(changing).rejects.not.toThrow('secret-text');
  }
  const broken = Object.assign(Object.create(Keyring.prototype) as Keyring, {
    content: { ...Keyring.create().content, names: 'short' },
  });
  await expect(keys.update(() => broken)).rejects.toMatchObject(INVALID);
  expect(readFileSync(keys.path, 'utf8')).toBe(before);
  expect(readdirSync(join(keys.path, '..'))).toEqual(['keys']);
});

test('[encryption.5] keys that are read as anything but a keyring are refused, and not shown', async () => {
  const below = () => new InMemoryCheckpointStorage();
  const text = Keyring.create().format();
  const asText = encrypted(below(), { keys: { read: async () => text as never } });
  const reading = asText.listSessions({ limit: 1 });
  await expect(reading).rejects.toThrow(
    'read() of the keys returns must be a Keyring; found a string, of which Keyring',
  );
  await expect(reading).rejects.not.toThrow('savestate-keys');
  const keys = { read: async () => Keyring.create(), add: async () => undefined as never };
  const asNothing = encrypted(below(), { keys, keyFor: () => 'ann' });
  await expect(new CheckpointManager({ storage: asNothing }).save({})).rejects.toThrow(
    'add() of the keys returns must be a Keyring; found undefined',
  );
  // One of another copy of this package is one.
  const ring = Keyring.create();
  const copy = { content: ring.content, format: () => ring.format(), list: () => ring.list() };
  expect(await encrypted(below(), { keys: copy as never }).listSessions({ limit: 1 })).toEqual([]);
});

test.each([undefined, '', { path: 'keys' }, 7, 'a\0b'])('[encryption.5] KeyFile refuses the path %s', (path) => {
  expect(() => new KeyFile(path as never)).toThrow('The path of KeyFile must be a string');
});

test('[encryption.5] a key file that cannot be written leaves no secrets beside it', async () => {
  const folder = temporaryFolder(SCRATCH_ROOT);
  const path = join(folder, 'keys');
  mkdirSync(`${path}.new`);
  const making = new KeyFile(path).create();
  await expect(making).rejects.toMatchObject({ code: 'STORAGE' });
  await expect(making).rejects.toThrow(`The key file ${path} cannot be written`);
  expect(readdirSync(folder)).toEqual(['keys.new']);
  mkdirSync(path);
  await expect(new KeyFile(path).read()).rejects.toThrow('is no file');
  expect(existsSync(`${path}.lock`)).toBe(false);
  writeFileSync(join(folder, 'open'), Keyring.create().format());
  chmodSync(join(folder, 'open'), 0o644);
  await expect(new KeyFile(join(folder, 'open')).read()).rejects.toMatchObject({ details: { reason: 'exposed' } });
});
