import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { freshSchema, postgresUrl } from '../../test/support/postgres.ts';
import { temporaryFolder } from '../../test/support/storages.ts';
import { SecretRef } from '../core/value/secret-ref.ts';
import { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../storage/memory/memory-storage.ts';
import { Memory, type MemoryOptions, type MemoryStorage, PostgresMemoryStorage, SqliteMemoryStorage } from './index.ts';

const userId = 'ann';
const token = ['ghp', 'Xq4mB7tPz2LrKd9WvNc3Hs8YjFu5Ga1EoTi6'].join('_');
const says = `Deploy with ${token} tonight.`;
const cleaned = 'Deploy with [secret github_token] tonight.';

function open(storage: MemoryStorage, options: MemoryOptions = {}): Memory {
  const memory = new Memory({ storage, ...options });
  onTestFinished(() => memory.close());
  return memory;
}

describe.each([
  ['SQLite', () => new SqliteMemoryStorage({ path: join(temporaryFolder(), 'history.db') })],
  [
    'PostgreSQL',
    () => new PostgresMemoryStorage({ connectionString: postgresUrl(), schema: freshSchema(), tenant: 'acme' }),
  ],
])('secrets on %s', (_, openStorage) => {
  test('[secret.1] reach no word, metadata, reason, answer of an extractor, index or embedder', async () => {
    const seen: string[] = [];
    const storage = openStorage();
    const memory = open(storage, {
      embedder: {
        id: 'e',
        embed: async (texts) => {
          seen.push(...texts);
          return texts.map(() => Float32Array.of(1, 0));
        },
      },
      extractor: {
        id: 'x',
        extract: async ({ messages }) => {
          seen.push(...messages.map(({ content }) => content));
          return [{ content: `The token is ${token}` }];
        },
      },
    });
    const why = { actor: `ann ${token}`, reason: `because of ${token}` };
    const { results, extraction } = await memory.add(says, {
      userId,
      ...why,
      metadata: { header: `Bearer ${token}`, login: { password: 'tulips' } },
    });
    expect(extraction).toBe('done');
    expect(results.map((result) => result.memory)).toEqual([cleaned, 'The token is [secret github_token]']);
    const id = results[0]?.id ?? '';
    expect((await memory.get(id))?.metadata).toEqual({
      header: 'Bearer [secret github_token]',
      login: { password: new SecretRef('password') },
    });
    await memory.update(id, { memory: `Now ${says}`, metadata: { note: `x ${token} y` } }, why);
    await memory.promote(id, why);
    const { results: hits } = await memory.search(`Who has ${token}?`, { userId });
    expect(hits.map((hit) => hit.memory)).toContain(`Now ${cleaned}`);
    await memory.delete(id, why);
    await memory.add(says, { userId });
    await memory.deleteAll({ userId, ...why });
    await memory.purge(id, { reason: why.reason });
    const stored = JSON.stringify([await storage.readEvents({}), seen]);
    expect(stored).toContain('[secret github_token]');
    for (const secret of [token, 'tulips']) expect(stored).not.toContain(secret);
  });

  test.each([
    ['userId', {}, { userId: token }],
    ['agentId', {}, { agentId: token }],
    ['runId', {}, { runId: `run ${token}` }],
    ['subject', {}, { subject: token }],
    ['slot', {}, { slot: token }],
    ['idempotencyKey', {}, { idempotencyKey: `x ${token}` }],
    ['session', {}, { session: { id: token, branch: 'main' } }],
    ['A key of metadata', {}, { metadata: { list: [{ [token]: 1 }] } }],
    ['name', { name: token }, {}],
    ['id', { id: token }, {}],
  ])('[secret.1] in %s are refused, and nothing is stored', async (field, message, options) => {
    const storage = openStorage();
    const memory = open(storage);
    const refused = memory.add({ role: 'user', content: 'Hello there', ...message }, { userId, ...options });
    await expect(refused).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expect(refused).rejects.toThrow(`${field} holds what looks like a secret`);
    await expect(refused).rejects.not.toThrow(token);
    expect(await storage.readEvents({})).toEqual([]);
  });
});

test('[secret.1] a turn that is nothing but a secret is the same after it was restored', async () => {
  const memory = open(new SqliteMemoryStorage({ path: join(temporaryFolder(), 'history.db') }));
  const options = { userId, idempotencyKey: 'turn' };
  expect((await memory.add(token, options)).results[0]).toMatchObject({
    memory: '[secret github_token]',
    event: 'ADD',
  });
  const restored = { role: 'user', content: new SecretRef('github_token') as unknown as string };
  expect((await memory.add(restored, options)).results[0]?.event).toBe('NONE');
});

test('[secret.1] no byte of the file holds a secret', async () => {
  const folder = temporaryFolder();
  const memory = open(new SqliteMemoryStorage({ path: join(folder, 'history.db') }));
  await memory.add(says, { userId, metadata: { token } });
  await memory.search(`${token}?`, { userId });
  const bytes = readdirSync(folder).map((name) => readFileSync(join(folder, name), 'latin1'));
  expect(bytes.join('')).toContain(cleaned);
  expect(bytes.join('')).not.toContain(token);
});

test('[secret.1] what is a secret is as the manager says, or the option of the memory', async () => {
  const storage = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({ storage, secrets: { values: ['blue horse'] } });
  onTestFinished(() => manager.close());
  const words = async (options: MemoryOptions) => {
    const memory = open(new SqliteMemoryStorage({ path: join(temporaryFolder(), 'history.db') }), options);
    return (await memory.add('Ask for the blue horse and the red cow.', { userId })).results[0]?.memory;
  };
  expect(await words({ manager })).toBe('Ask for the [secret live_value] and the red cow.');
  expect(await words({ manager, secrets: { values: ['red cow'] } })).toBe(
    'Ask for the blue horse and the [secret live_value].',
  );
  expect(await words({ manager, secrets: 'store-secrets-in-plain-text' })).toContain('blue horse and the red cow');
  expect(() => new Memory({ secrets: 'none' as never })).toThrow('"store-secrets-in-plain-text"');
});

describe('metadata', () => {
  const openFile = () => open(new SqliteMemoryStorage({ path: join(temporaryFolder(), 'history.db') }));

  test('[memory.11] reads back as it was given', async () => {
    const memory = openFile();
    const metadata = {
      nothing: undefined,
      not: [Number.NaN, -0, Number.POSITIVE_INFINITY],
      at: new Date(0),
      big: 12n,
      map: new Map([['a', new Set([1])]]),
      $: ['secret', 'x'],
      plain: { list: [1, null, 'x'] },
    };
    const { results } = await memory.add('A wet day', { userId, metadata });
    expect((await memory.get(results[0]?.id ?? ''))?.metadata).toStrictEqual(metadata);
    expect(
      await memory.getAll({ userId, filters: { big: 12n, plain: { eq: { list: [1, null, 'x'] } } } }),
    ).toHaveLength(1);
    await memory.update(results[0]?.id ?? '', { metadata: { at: new Date(1) } });
    expect((await memory.get(results[0]?.id ?? ''))?.metadata).toStrictEqual({ at: new Date(1) });
  });

  test.each([
    ['a function', { deep: [{ run: () => 1 }] }, '$.deep[0].run'],
    ['a symbol', { mark: Symbol('x') }, '$.mark'],
    ['an instance', { who: new (class Person {})() }, '$.who'],
    ['a list', [], 'a plain object'],
    ['a map', new Map(), 'a plain object'],
  ])('[memory.11] with %s is refused, and the path is named', async (_, metadata, named) => {
    const memory = openFile();
    const given = metadata as { [key: string]: unknown };
    await expect(memory.add('A wet day', { userId, metadata: given })).rejects.toThrow(named);
    expect(await memory.getAll({ userId })).toEqual([]);
  });
});

test('[input.1] what is no name, no scope and no text is refused for what it is', async () => {
  const memory = open(new SqliteMemoryStorage({ path: join(temporaryFolder(), 'history.db') }));
  for (const given of [5, Number.NaN, {}])
    await expect(memory.add('Hello', { userId: given as never })).rejects.toThrow('userId must be a string');
  await expect(memory.purge(undefined as never)).rejects.toThrow('Whose memory is it?');
  await expect(memory.purge(null as never)).rejects.toThrow('must be an object; found null');
  await expect(memory.add('a\0b', { userId })).rejects.toThrow('found a NUL or half a character in it');
});
