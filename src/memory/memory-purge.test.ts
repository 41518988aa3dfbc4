import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { freshSchema, postgresUrl } from '../../test/support/postgres.ts';
import { temporaryFolder } from '../../test/support/storages.ts';
import { CheckpointManager, InMemoryCheckpointStorage } from '../index.ts';
import { type AddOptions, Memory, type MemoryOptions, PostgresMemoryStorage } from './index.ts';

const userId = 'ann';

/** Adds a turn; returns the ids of what became of it, by its words; the turn itself is `turn`. */
async function say(memory: Memory, words: string, options: Partial<AddOptions> = {}) {
  const { results } = await memory.add(words, { userId, ...options });
  return new Map(results.map((added) => [added.kind === 'episode' ? 'turn' : added.memory, added.id]));
}

const known = async (memory: Memory) => (await memory.getAll({ userId })).map((one) => one.memory);

describe.each([
  ['SQLite', (options: MemoryOptions) => new Memory({ path: join(temporaryFolder(), 'history.db'), ...options })],
  [
    'PostgreSQL',
    (options: MemoryOptions) =>
      new Memory({
        storage: new PostgresMemoryStorage({ connectionString: postgresUrl(), schema: freshSchema(), tenant: 'acme' }),
        ...options,
      }),
  ],
])('purging on %s', (_name, open) => {
  function openMemory(options: MemoryOptions = {}): Memory {
    const memory = open(options);
    onTestFinished(() => memory.close());
    return memory;
  }

  test('[memory.9] what was superseded or deleted is not served as true after its purge', async () => {
    const memory = openMemory();
    const ids = await say(memory, 'I live in Paris. We met in Rome. My favourite colour is red. I like tea.');
    await say(memory, 'I moved to Berlin.');
    await say(memory, 'My favourite colour is blue.');
    await memory.delete(ids.get('I like tea.') ?? '');
    const before = await known(memory);
    expect(before).toContain('\u2026 We met in Rome. \u2026 \u2026');
    for (const words of ['I live in Paris.', 'I like tea.']) {
      const id = ids.get(words) ?? '';
      expect(await memory.purge(id)).toMatchObject({ purged: [id], turns: [ids.get('turn')] });
    }
    expect(await known(memory)).toEqual(before);
    const all = JSON.stringify(await memory.getAll({ userId, showExpired: true }));
    expect(all).not.toMatch(/Paris|tea/);
    expect(all).toContain('colour is red'); // only its own words
    expect(JSON.stringify(await memory.why(ids.get('My favourite colour is red.') ?? ''))).not.toMatch(/Paris|tea/);
  });

  test('[memory.9] a purge takes the words out of every turn that said so, and takes a turn that said nothing else', async () => {
    const memory = openMemory();
    const first = await say(memory, 'I live in Paris.');
    const again = await say(memory, 'By the way, we met in Rome. I live in Paris!');
    await memory.update(again.get('turn') ?? '', { isPinned: true });
    const { purged, turns } = await memory.purge(first.get('I live in Paris.') ?? '');
    expect(new Set(purged)).toEqual(new Set(first.values()));
    expect(turns).toEqual([again.get('turn')]);
    expect(await known(memory)).toEqual(['By the way, we met in Rome. \u2026']);
    expect(JSON.stringify(await memory.history(again.get('turn') ?? ''))).not.toContain('Paris');
    expect(await memory.get(again.get('turn') ?? '')).toMatchObject({ isPinned: true });
  });

  test('[memory.9] what was purged is not learned again from the same source', async () => {
    const memory = openMemory();
    const said = 'I live in Paris. We met in Rome.';
    const ids = await say(memory, said, { idempotencyKey: 'turn 1' });
    await memory.purge(ids.get('I live in Paris.') ?? '');
    await say(memory, said, { idempotencyKey: 'turn 1' });
    expect(await known(memory)).toEqual(['\u2026 We met in Rome.']);
    await memory.purge({ userId });
    await say(memory, said, { idempotencyKey: 'turn 1' });
    expect(await known(memory)).toEqual([]);
    await say(memory, said, { idempotencyKey: 'turn 2' });
    expect(await known(memory)).toEqual([said, 'I live in Paris.']);
  });

  test('[memory.9] a purge takes the words out of what an extractor answered, and out of the turn by their likeness', async () => {
    const extract = async () => [
      { content: 'Ann grew up in Vienna', subject: userId, kind: 'fact' as const, message: 0 },
      { content: 'Ann plays the flute', subject: userId, kind: 'fact' as const, message: 0 },
    ];
    const memory = openMemory({ extractor: { id: 'model', extract } });
    const ids = await say(memory, 'Ann grew up in Vienna, she says. Since then Ann plays the flute.', {
      idempotencyKey: 'turn 1',
    });
    await memory.purge(ids.get('Ann grew up in Vienna') ?? '');
    expect(await known(memory)).toEqual(['\u2026 Since then Ann plays the flute.', 'Ann plays the flute']);
    const { extraction } = await memory.add('Ann grew up in Vienna, she says. Since then Ann plays the flute.', {
      userId,
      idempotencyKey: 'turn 1',
    });
    expect(extraction).toBe('recorded');
    expect(await known(memory)).toEqual(['\u2026 Since then Ann plays the flute.', 'Ann plays the flute']);
  });

  test('[memory.9] what was latest in another run stays over when what replaced it is purged or deleted', async () => {
    const memory = openMemory();
    await say(memory, 'I live in Paris.', { runId: 'one', infer: true });
    const berlin = await say(memory, 'I moved to Berlin.', { runId: 'two' });
    const rome = await say(memory, 'I moved to Rome.', { runId: 'three' });
    expect(await known(memory)).toEqual(['I moved to Rome.', 'I moved to Rome.']);
    await memory.delete(rome.get('I moved to Rome.') ?? '');
    await memory.purge(berlin.get('I moved to Berlin.') ?? '');
    expect(await known(memory)).toEqual([]);
    await say(memory, 'I live in Paris.', { runId: 'one' }); // said again, it holds again
    expect(await known(memory)).toContain('I live in Paris.');
  });
});

test('[memory.9] a purge of what is no scope and no id is refused', async () => {
  const memory = new Memory({ path: join(temporaryFolder(), 'history.db') });
  await say(memory, 'I live in Paris.');
  for (const what of [{ userId, runID: 'one' }, '', undefined, ['mem_x'], 5])
    await expect(memory.purge(what as never)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  expect(await known(memory)).toHaveLength(2);
  await memory.close();
});

test('[memory.9] forgetting a user with the manager purges the memories that are open with it', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const path = join(temporaryFolder(), 'history.db');
  const memory = new Memory({ manager, path });
  await say(memory, 'I live in Paris.');
  await memory.add('I live in Rome.', { userId: 'bob' });
  await manager.save({ n: 1 }, { sessionId: 's', userId });
  const forgotten = { checkpoints: 1, sessions: ['s'], memories: 2, left: [] };
  expect(await manager.forgetUser(userId, { dryRun: true })).toEqual(forgotten);
  expect(await known(memory)).toHaveLength(2);
  expect(await manager.forgetUser(userId)).toMatchObject(forgotten);
  expect(await known(memory)).toEqual([]);
  expect(await memory.getAll({ userId: 'bob' })).toHaveLength(2);
  await say(memory, 'I live in Oslo.');
  expect(await manager.clearUserHistory(userId)).toBe(0);
  expect(await known(memory)).toEqual([]);
  await memory.close();
  expect(await manager.forgetUser('bob')).toMatchObject({ memories: 0 });
  await manager.close();
});

test('[memory.9] after the purge of a fact the file holds none of its words', async () => {
  const path = join(temporaryFolder(), 'history.db');
  const extract = async () => [
    { content: 'Ann lives in Zanzibar', subject: userId, kind: 'fact' as const, message: 0 },
  ];
  const embedder = {
    id: 'e',
    dimensions: 1,
    embed: async (texts: readonly string[]) => texts.map(() => Float32Array.of(1)),
  };
  const memory = new Memory({ path, embedder, extractor: { id: 'model', extract } });
  for (let n = 0; n < 50; n++) await say(memory, `harmless talk number ${n}`, { infer: false });
  const ids = await say(memory, 'We met in Rome. I live in Zanzibar. Ann lives in Zanzibar.');
  const holds = () =>
    [path, `${path}-wal`].some((file) => existsSync(file) && readFileSync(file, 'latin1').includes('Zanzibar'));
  expect(holds()).toBe(true);
  for (const words of ['I live in Zanzibar.', 'Ann lives in Zanzibar']) await memory.purge(ids.get(words) ?? '');
  expect(holds()).toBe(false);
  expect(await known(memory)).toContain('We met in Rome. \u2026');
  expect((await memory.search('Rome', { userId })).vectors).toBe('used');
  await memory.close();
});
