import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../test/support/storages.ts';
import { open } from './open.ts';

test.each([
  ['a file', 'agent.db', 'agent.db'],
  ['a scheme', 'sqlite:agent.sqlite', 'agent.sqlite'],
  ['the folder of a project', '.savestate/checkpoints.db', '.savestate/checkpoints.db'],
  ['a folder', 'states/', 'states/format.json'],
])('[session.7] open makes and opens a storage by %s', async (_what, address, made) => {
  const folder = await temporaryFolder();
  const [, scheme = '', path = ''] = /^(sqlite:)?(.*)$/.exec(address) ?? [];
  const place = `${scheme}${folder}/${path}`;
  const manager = await open(place);
  const session = await manager.session('a');
  await session.save({ count: 1 });
  await manager.close();
  expect(existsSync(join(folder, made))).toBe(true);
  await using again = await open(place);
  expect((await again.session('a')).state).toEqual({ count: 1 });
});

test.each<[string, RegExp]>([
  ['', /needs an address.*found an empty string/],
  ['redis:x', /"redis:x" begins with no storage/],
  ['memory', /a kind of storage without a place.*\.\/memory.*memory:/],
  ['SQLite', /a kind of storage without a place/],
  ['memory:agent', /begins with no storage/],
  ['sqlite:', /has no path/],
  ['sqlite://', /has no path/],
  ['sqlite://agent.db', /use sqlite:agent\.db, or sqlite:\/\/\/agent\.db/],
  ['FILE://folder/', /use file:folder\//],
  ['agent.db?maxCheckpoints=3', /has options; pass them to open\(\)/],
  ['sqlite:agent.db?mode=ro', /has options/],
  ['~/agent.db', /"~", which only shells expand.*\.\/~\/agent\.db/],
  ['file:~me/states', /only shells expand/],
  ['agent.db\0', /no control characters/],
  ['agent.db\n', /no control characters/],
])('[session.7] open refuses the address %j', async (address, message) => {
  await expect(open(address)).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringMatching(message),
  });
});

test.each(['agent.db', 'states/'])(
  '[session.7] open makes no folder around %s: a mistyped path is refused',
  async (name) => {
    const missing = join(await temporaryFolder(), 'mistyped');
    const refusal = { code: 'INVALID_INPUT', message: expect.stringContaining(`${missing} does not exist`) };
    await expect(open(`${missing}/${name}`)).rejects.toMatchObject(refusal);
    expect(existsSync(missing)).toBe(false);
  },
);

test('[session.7] open says what is wrong with an option, and makes nothing', async () => {
  const path = join(await temporaryFolder(), 'agent.db');
  await expect(open(7 as unknown as string)).rejects.toThrow(/found number/);
  await expect(open(path, { retentoin: {} } as object)).rejects.toThrow(/retentoin.*retention/s);
  await expect(open(path, { storage: 1 } as object)).rejects.toThrow(/"storage" of open\(\) must be left out/);
  expect(existsSync(path)).toBe(false);
});

test.each(['memory:', ':memory:'])(
  '[session.7] open takes %s as a storage that ends with the process',
  async (address) => {
    const memory = await open(address);
    await memory.save({ a: 1 }, { sessionId: 'a' });
    expect(memory.engine.storage.kind).toBe('memory');
    await memory.close();
  },
);

test('[session.7] open leaves a file alone that is no database, however short', async () => {
  const path = join(await temporaryFolder(), 'notes');
  for (const text of ['x', 'some notes', 'x'.repeat(5000)]) {
    await writeFile(path, text);
    await expect(open(path)).rejects.toThrow(/is not a SQLite database|not a database/);
    expect(await readFile(path, 'utf8')).toBe(text);
  }
  await writeFile(path, '');
  await (await open(path)).close();
});
