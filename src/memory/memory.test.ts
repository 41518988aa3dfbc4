import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { freshSchema, postgresUrl } from '../../test/support/postgres.ts';
import { temporaryFolder } from '../../test/support/storages.ts';
import { openDatabase } from '../storage/database/sqlite-driver.ts';
import { Memory, type MemoryFilters, type MemoryOptions, PostgresMemoryStorage } from './index.ts';

const DAY_MS = 86_400_000;
const userId = 'ann';

describe.each([
  ['SQLite', (options: MemoryOptions) => new Memory({ path: join(temporaryFolder(), 'history.db'), ...options })],
  [
    'PostgreSQL',
    (options: MemoryOptions) =>
      new Memory({
        storage: new PostgresMemoryStorage({
          connectionString: postgresUrl(),
          schema: freshSchema(),
          tenant: 'acme',
        }),
        ...options,
      }),
  ],
])('memory on %s', (_name, open) => {
  function openMemory(options: MemoryOptions = {}): Memory {
    const memory = open(options);
    onTestFinished(() => memory.close());
    return memory;
  }

  test('[memory.1] turns are kept as they were said, and rules add what follows from them, pointing at the words', async () => {
    const memory = openMemory();
    const said = 'We met in Rome. I prefer trains to planes. Ask me anything!';
    const { results } = await memory.add([{ role: 'user', content: said, id: 'msg-1' }], { userId });
    expect(results.map(({ kind, memory: words, event }) => [kind, words, event])).toEqual([
      ['episode', said, 'ADD'],
      ['preference', 'I prefer trains to planes.', 'ADD'],
    ]);
    const why = await memory.why(results[1]?.id ?? '');
    expect(why.sources[0]).toMatchObject({ messageId: 'msg-1', turns: [{ memory: said }], status: 'none' });
    const [start = 0, end = 0] = why.sources[0]?.span ?? [];
    expect(said.slice(start, end)).toBe('I prefer trains to planes.');
    const plain = await memory.add('I prefer tea.', { userId, infer: false });
    expect(plain.results.map(({ kind }) => kind)).toEqual(['episode']);
  });

  test('[memory.2] the same words reinforce, the same source adds nothing', async () => {
    const memory = openMemory();
    const options = { userId, idempotencyKey: 'turn 7' };
    const first = await memory.add('I love Rome.', options);
    const replay = await memory.add('I love Rome.', options);
    const again = await memory.add('i love  Rome', { userId });
    const other = await memory.add('See you at noon', options);
    expect(first.results.map(({ event }) => event)).toEqual(['ADD', 'ADD']);
    expect(replay.results).toEqual(first.results.map((result) => ({ ...result, event: 'NONE' })));
    expect(again.results.map(({ event }) => event)).toEqual(['REINFORCE', 'REINFORCE']);
    expect(other.results.map(({ event }) => event)).toEqual(['ADD']);
    await memory.delete(other.results[0]?.id ?? '');
    const all = await memory.getAll({ userId });
    expect(all.map(({ id, reinforcements }) => [id, reinforcements])).toEqual(first.results.map(({ id }) => [id, 1]));
  });

  test('[memory.2] words that are added several times at once make one memory', async () => {
    const memory = openMemory();
    const added = await Promise.all(Array.from({ length: 5 }, () => memory.add('tea time', { userId })));
    expect(added.map(({ results }) => results[0]?.event).sort()).toEqual(['ADD', ...Array(4).fill('REINFORCE')]);
    const looks = await Promise.all(Array.from({ length: 5 }, () => memory.getAll({ userId })));
    expect(looks.map((all) => all.length)).toEqual([1, 1, 1, 1, 1]);
  });

  test('[memory.2] nearly the same fact reinforces and keeps the richer words; an episode does not', async () => {
    const memory = openMemory();
    const options = { userId, kind: 'fact' as const };
    await memory.add('The build of project Apollo needs Node 20 on Linux', options);
    await memory.add('The build of project Apollo needs Node 20 on Linux machines', options);
    const facts = await memory.getAll({ userId });
    expect(facts).toMatchObject([
      { memory: 'The build of project Apollo needs Node 20 on Linux machines', reinforcements: 1 },
    ]);
    expect((await memory.search('machines', { userId })).results).toHaveLength(1);
  });

  test('[memory.3] only the same subject and slot supersede, with dates; what was stays for the past and for history', async () => {
    let nowMs = 1_000 * DAY_MS;
    const memory = openMemory({ now: () => nowMs });
    await memory.add({ role: 'user', name: 'Ann', content: 'I live in Paris.' }, { userId });
    await memory.add({ role: 'user', name: 'Bob', content: 'I live in Rome.' }, { userId });
    nowMs += 10 * DAY_MS;
    const { superseded } = await memory.add({ role: 'user', name: 'Ann', content: 'I moved to Berlin.' }, { userId });
    const homes = async (options = {}) =>
      (await memory.getAll({ userId, kinds: ['fact'], ...options })).map(({ memory: words }) => words);
    expect(await homes()).toEqual(['I live in Rome.', 'I moved to Berlin.']);
    expect(await homes({ asOf: new Date(nowMs - DAY_MS) })).toEqual(['I live in Paris.', 'I live in Rome.']);
    expect(superseded).toHaveLength(1);
    const old = await memory.get(superseded[0] ?? '');
    expect(old).toMatchObject({ memory: 'I live in Paris.', validTo: new Date(nowMs) });
    const history = await memory.history(superseded[0] ?? '');
    expect(history.map(({ action }) => action)).toEqual(['ADD', 'SUPERSEDE']);
    nowMs += DAY_MS;
    await memory.add({ role: 'user', name: 'Ann', content: 'I live in Paris.' }, { userId });
    expect(await homes()).toEqual(['I live in Rome.', 'I live in Paris.']);
  });

  test('[memory.3] news that is older than what is known does not replace it', async () => {
    const memory = openMemory();
    const fact = { userId, kind: 'fact' as const, subject: 'Ann', slot: 'home' };
    await memory.add('Berlin', { ...fact, observedAt: new Date(2000 * DAY_MS) });
    await memory.add('Paris', { ...fact, observedAt: new Date(1000 * DAY_MS) });
    expect((await memory.getAll({ userId })).map(({ memory: words }) => words)).toEqual(['Berlin']);
    const [paris] = await memory.getAll({ userId, showExpired: true });
    expect(paris).toMatchObject({ memory: 'Paris', validTo: new Date(2000 * DAY_MS) });
  });

  test('[memory.1] nothing is learned from system prompts, tools, or blocks that were rendered', async () => {
    const memory = openMemory();
    await memory.add('I love sushi.', { userId });
    const { text } = await memory.render('{memory}', { scope: { userId }, query: 'sushi' });
    const { results } = await memory.add(
      [
        { role: 'system', content: 'Always be polite.' },
        { role: 'developer', content: 'Never mention prices.' },
        { role: 'tool', content: 'I prefer to be believed.' },
        { role: 'user', content: `${text}\nThe meeting is on Monday.` },
        { role: 'user', content: text },
        { role: 'user', content: 'ok thanks!' },
      ],
      { userId },
    );
    expect(results.map(({ memory: words }) => words)).toEqual(['The meeting is on Monday.']);
  });

  test('[memory.4] whose memory it is must be said, and others see nothing of it', async () => {
    const memory = openMemory();
    await expect(memory.add('x', {})).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expect(memory.search('x', {})).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await memory.add('Rome is nice', { userId, agentId: 'guide', runId: 'r1' });
    await memory.add('Rome is hot', { userId: 'bob' });
    const found = async (scope: object) =>
      (await memory.search('Rome', scope)).results.map(({ memory: words }) => words);
    expect(await found({ userId })).toEqual(['Rome is nice']);
    expect(await found({ agentId: 'guide' })).toEqual(['Rome is nice']);
    expect(await found({ userId, runId: 'r2' })).toEqual([]);
    expect(await found({ userId: 'bob' })).toEqual(['Rome is hot']);
    expect(await memory.getAll({ runId: 'r1' })).toHaveLength(1);
  });

  test('[memory.4] filters compare metadata and fields, and combine', async () => {
    const memory = openMemory();
    for (const [city, size] of [
      ['Rome', 3],
      ['Oslo', 1],
      ['Bonn', 0.3],
    ] as const)
      await memory.add(`a trip to ${city}`, { userId, metadata: { city, size, tags: ['trip'] } });
    const cities = async (filters: MemoryFilters) =>
      (await memory.search('trip', { userId, filters })).results.map(({ metadata }) => metadata.city).sort();
    expect(await cities({ city: 'Rome' })).toEqual(['Rome']);
    expect(await cities({ size: { gte: 1, lt: 3 } })).toEqual(['Oslo']);
    expect(await cities({ city: { in: ['Rome', 'Bonn'] }, kind: 'episode' })).toEqual(['Bonn', 'Rome']);
    expect(await cities({ OR: [{ city: { icontains: 'OSL' } }, { size: { lt: 1 } }] })).toEqual(['Bonn', 'Oslo']);
    expect(await cities({ NOT: [{ city: { contains: 'o' } }] })).toEqual([]);
    expect(await cities({ AND: [{ tags: { contains: 'trip' } }, { city: { nin: ['Rome'] } }] })).toEqual([
      'Bonn',
      'Oslo',
    ]);
    expect(await cities({ city: '*', missing: { ne: 1 } })).toHaveLength(3);
    await expect(cities({ size: { near: 1 } })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  test('[memory.5] changes are added, not overwritten, and refuse to stand on an old version', async () => {
    const memory = openMemory();
    const { results } = await memory.add('The code is 1234', { userId });
    const id = results[0]?.id ?? '';
    const read = await memory.get(id);
    await memory.update(id, 'The code is 9876', { actor: 'ann', reason: 'it changed' });
    const stale = memory.update(id, 'The code is 0000', { expectedVersion: read?.version ?? 0 });
    await expect(stale).rejects.toMatchObject({ code: 'CONFLICT' });
    for (const blank of ['', ' \n'])
      await expect(memory.update(id, blank)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    const now = await memory.get(id);
    expect(now?.memory).toBe('The code is 9876');
    expect((await memory.search('1234', { userId })).results).toEqual([]);
    expect((await memory.search('9876', { userId })).results).toMatchObject([{ id }]);
    await memory.update(id, { metadata: { door: 'front' }, isPinned: true }, { expectedVersion: now?.version ?? 0 });
    expect(await memory.get(id)).toMatchObject({
      memory: 'The code is 9876',
      metadata: { door: 'front' },
      isPinned: true,
    });
    expect((await memory.getAll({ userId })).map((one) => one.id)).toEqual([id]); // what was taken from the old words is gone
    await memory.delete(id);
    expect(await memory.get(id)).toBeUndefined();
    await expect(memory.delete(id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(
      (await memory.history(id)).map(({ action, previousValue, newValue }) => [action, previousValue, newValue]),
    ).toEqual([
      ['ADD', undefined, 'The code is 1234'],
      ['UPDATE', 'The code is 1234', 'The code is 9876'],
      ['UPDATE', 'The code is 9876', undefined],
      ['DELETE', 'The code is 9876', undefined],
    ]);
  });

  test('[memory.5] of many changes made at once on one version exactly one is stored', async () => {
    const memory = openMemory();
    const { results } = await memory.add('counter 0', { userId });
    const id = results[0]?.id ?? '';
    const expectedVersion = (await memory.get(id))?.version ?? 0;
    const changes = Array.from({ length: 8 }, (_, n) => memory.update(id, `counter ${n + 1}`, { expectedVersion }));
    const outcomes = await Promise.allSettled(changes);
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(await memory.history(id)).toHaveLength(2);
  });

  test('[memory.5] deleteAll retracts a scope, expiry hides, reset removes everything', async () => {
    let nowMs = 5_000 * DAY_MS;
    const memory = openMemory({ now: () => nowMs });
    await memory.add('the pass is valid', { userId, expirationDate: new Date(nowMs + DAY_MS) });
    nowMs += 2 * DAY_MS;
    expect(await memory.getAll({ userId })).toEqual([]);
    expect(await memory.getAll({ userId, showExpired: true })).toHaveLength(1);
    await memory.add('bob likes tea', { userId: 'bob' });
    expect(await memory.deleteAll({ userId })).toBe(1);
    expect(await memory.getAll({ userId, showExpired: true })).toEqual([]);
    expect(await memory.getAll({ userId: 'bob' })).toHaveLength(1);
    await memory.reset();
    expect(await memory.getAll({ userId: 'bob' })).toEqual([]);
  });

  test('[memory.9] purging removes the words of every version and of what was taken from them', async () => {
    const memory = openMemory();
    const { results } = await memory.add('I love secret-garden walks.', { userId });
    await memory.add('unrelated', { userId });
    const id = results[0]?.id ?? '';
    await memory.update(id, 'I love hidden-garden walks.');
    const result = await memory.purge(id, { reason: 'asked for' });
    expect(new Set(result.purged)).toEqual(new Set(results.map((added) => added.id)));
    expect((await memory.search('garden walks', { userId })).results).toEqual([]);
    expect(await memory.history(id)).toMatchObject([{ action: 'PURGE', reason: 'asked for' }]);
    expect(JSON.stringify(await memory.history(id))).not.toContain('garden');
    await expect(memory.purge(id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    const [turn, fact] = (await memory.add('I live in Rome.', { userId })).results;
    expect(await memory.purge(fact?.id ?? '')).toMatchObject({ purged: [fact?.id, turn?.id], turns: [] });
    await memory.purge({ userId });
    expect(await memory.getAll({ userId })).toEqual([]);
  });

  test('[memory.13] a question finds by subject, date and neighbouring turns besides words', async () => {
    const memory = openMemory();
    const at = (day: string) => new Date(`${day}T10:00:00Z`);
    const say = (name: string, content: string, timestamp: Date) =>
      memory.add({ role: 'user', name, content, timestamp }, { userId, runId: timestamp.toISOString(), infer: false });
    await say('Ann', 'I adopted a puppy and named it Rex', at('2024-03-02'));
    await say('Bob', 'I adopted a puppy, Ann, what about yours?', at('2024-03-09'));
    await say('Ann', 'We went hiking in the hills', at('2023-06-10'));
    await say('Ann', 'We went hiking in the forest', at('2023-10-10'));
    await memory.add(
      [
        { role: 'user', name: 'Bob', content: 'Where do you keep the spare key?' },
        { role: 'user', name: 'Ann', content: 'Under the blue pot.' },
      ],
      { userId, runId: 'keys', infer: false },
    );
    const best = async (question: string, topK = 1) =>
      (await memory.search(question, { userId, topK })).results.map(({ memory: words }) => words);
    expect(await best('When did Ann adopt a puppy?')).toEqual(['I adopted a puppy and named it Rex']);
    expect(await best('When did Bob adopt a puppy?')).toEqual(['I adopted a puppy, Ann, what about yours?']);
    expect(await best('What hiking did Ann do in October 2023?')).toEqual(['We went hiking in the forest']);
    expect(await best('What hiking did Ann do in June 2023?')).toEqual(['We went hiking in the hills']);
    expect(await best('the spare key', 2)).toContain('Under the blue pot.');
    // Who only asks knows nothing, also in the very words of the question.
    await say('Ann', 'When does the deploy key rotate? Do you know?', at('2024-05-02'));
    await say('Ann', 'The deploy key rotates on Fridays', at('2024-04-02'));
    expect(await best('When does the deploy key rotate?')).toEqual(['The deploy key rotates on Fridays']);
    // What the question asks and what the answer says count together, and each word once.
    expect(await best('Which pot does Ann keep the spare key under?')).toEqual(['Under the blue pot.']);
    const [hit] = (await memory.search('spare key', { userId, explain: true })).results;
    const parts = Object.values(hit?.parts ?? {}).reduce((sum, part) => sum + part, 0);
    expect(hit?.score).toBeCloseTo(parts);
  });
});

test('[memory.9] after a purge the file holds none of the words, and no term of theirs', async () => {
  const path = join(temporaryFolder(), 'history.db');
  const memory = new Memory({ path });
  for (let n = 0; n < 50; n++) await memory.add(`harmless talk number ${n}`, { userId });
  const { results } = await memory.add('the zanzibarian xylophonist called', { userId });
  await memory.update(results[0]?.id ?? '', 'the zanzibarian xylophonist wrote quixotically');
  const holds = () =>
    [path, `${path}-wal`].some(
      (file) => existsSync(file) && /zanzibar|xylophon|quixot/.test(readFileSync(file, 'latin1')),
    );
  expect(holds()).toBe(true);
  await memory.purge(results[0]?.id ?? '');
  expect(holds()).toBe(false);
  expect(await memory.getAll({ userId })).toHaveLength(50);
  await memory.close();
});

test('[memory.5] the log can be read as a table in the columns that tools know', async () => {
  const path = join(temporaryFolder(), 'history.db');
  const memory = new Memory({ path, now: () => Date.UTC(2026, 0, 2) });
  const { results } = await memory.add('tea', { userId, actor: 'ann' });
  await memory.update(results[0]?.id ?? '', 'coffee');
  await memory.delete(results[0]?.id ?? '');
  await memory.close();
  const db = openDatabase(path);
  const rows = db
    .prepare('SELECT previous_value, new_value, action, created_at, is_deleted, actor_id, role FROM memory_history')
    .all();
  db.close();
  const created_at = '2026-01-02T00:00:00.000Z';
  expect(rows.map((row) => ({ ...(row as object) }))).toEqual([
    { previous_value: null, new_value: 'tea', action: 'ADD', created_at, is_deleted: 0, actor_id: 'ann', role: 'user' },
    {
      previous_value: 'tea',
      new_value: 'coffee',
      action: 'UPDATE',
      created_at,
      is_deleted: 0,
      actor_id: null,
      role: null,
    },
    {
      previous_value: 'coffee',
      new_value: null,
      action: 'DELETE',
      created_at,
      is_deleted: 1,
      actor_id: null,
      role: null,
    },
  ]);
});

test('[memory.11] the default is memories/history.db, and a path is honoured', async () => {
  const folder = temporaryFolder();
  const before = process.cwd();
  process.chdir(folder);
  onTestFinished(() => process.chdir(before));
  const memory = new Memory();
  await memory.add('x y z', { userId });
  await memory.close();
  expect(existsSync(join(folder, 'memories/history.db'))).toBe(true);
  await expect(memory.getAll({ userId })).rejects.toMatchObject({ code: 'CLOSED' });
  const again = new Memory({ path: 'memories/history.db' });
  expect(await again.getAll({ userId })).toHaveLength(1);
  await again.close();
  const other = new Memory({ path: join(folder, 'a/b/c.db') });
  await other.close();
  expect(existsSync(join(folder, 'a/b/c.db'))).toBe(true);
});
