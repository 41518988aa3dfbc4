import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../test/support/storages.ts';
import { open } from './open.ts';

test.each([
  ['a file', 'agent.db', 'agent.db'],
  ['a scheme', 'sqlite:deep/agent.db', 'deep/agent.db'],
  ['a folder', 'states/', 'states/format.json'],
])('open makes and opens a storage by %s', async (_what, address, made) => {
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

test('open says what is wrong with an address or an option, and leaves nothing open', async () => {
  await expect(open('')).rejects.toThrow(/needs an address.*found an empty string/);
  await expect(open(7 as unknown as string)).rejects.toThrow(/found number/);
  await expect(open('redis:x')).rejects.toThrow(/"redis:" is no storage/);
  await expect(open('memory:', { retentoin: {} } as object)).rejects.toThrow(/retentoin.*retention/s);
  const memory = await open('memory:');
  await memory.save({ a: 1 }, { sessionId: 'a' });
  await memory.close();
});
