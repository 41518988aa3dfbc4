import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { describeOn } from '../../test/support/later.ts';
import { startServer } from '../../test/support/server.ts';
import { STORAGES, temporaryFolder } from '../../test/support/storages.ts';
import { openDatabase } from '../storage/database/sqlite-driver.ts';
import { SqliteCheckpointStorage } from '../storage/sqlite/sqlite-storage.ts';
import { compareContexts, contextOf } from './handlers/model-context.ts';

const ODD = 'team a/b?c#d %2F ü';

async function talk(manager: Awaited<ReturnType<typeof startServer>>['manager'], sessionId = ODD) {
  const session = await manager.session(sessionId);
  const state = { messages: [{ role: 'user', content: 'Hello' }], plan: { tone: 'cool' } };
  await session.save(state, { note: 'first' });
  state.messages.push({ role: 'assistant', content: 'x'.repeat(100_000) });
  return session.save(state);
}

describeOn(STORAGES)('looking at a %s storage', (_, create) => {
  test('sessions, a session, its figures, timeline, states and messages', async () => {
    const { client, manager } = await startServer({ storage: create().storage });
    const checkpoint = await talk(manager);
    const { items } = await client.request('GET /v1/sessions');
    expect(items.map(({ id }) => id)).toEqual([ODD]);
    const params = { session: ODD };
    const head = await client.request('GET /v1/sessions/{session}', { params });
    expect(head.head?.id).toBe(checkpoint);
    const figures = await client.request('GET /v1/sessions/{session}/figures', { params });
    expect(figures.uniqueBytes).toBeLessThan(figures.logicalBytes);
    const timeline = await client.request('GET /v1/sessions/{session}/timeline', { params });
    expect(timeline.parents).toEqual([-1, 0]);
    await client.request('GET /v1/checkpoints/{checkpoint}', { params: { checkpoint } });
    const state = await client.request('GET /v1/checkpoints/{checkpoint}/state', {
      params: { checkpoint },
      query: { path: '$.messages[1]' },
    });
    expect(state.parts.map(({ key, isCut }) => [key, isCut])).toEqual([
      ['role', false],
      ['content', true],
    ]);
    const value = await client.request('GET /v1/checkpoints/{checkpoint}/value', {
      params: { checkpoint },
      query: { path: '$.messages[1].content' },
    });
    expect(value.value).toHaveLength(100_000);
    const messages = await client.request('GET /v1/checkpoints/{checkpoint}/messages', {
      params: { checkpoint },
      query: { last: true, limit: 1 },
    });
    expect(messages).toMatchObject({ total: 2, next: '1', items: [{ index: 1, isCut: true }] });
    const labels = await client.request('GET /v1/labels', { query: { ids: timeline.ids } });
    expect(labels.items.map(({ speaker }) => speaker)).toEqual(['user', 'assistant']);
  });
});

test('a key that looks like markup has a path that can be asked for; a parameter that is not given is named', async () => {
  const { client, manager } = await startServer({});
  const session = await manager.session('report');
  const before = await session.save({ '<b>': 'one word' });
  const after = await session.save({ '<b>': 'another word' });
  const { modified } = await client.request('GET /v1/diff', { query: { after } });
  const path = modified[0]?.path ?? '';
  const { changes } = await client.request('GET /v1/text-diff', { query: { before, after, path } });
  expect(changes.map(({ op }) => op)).toContain('add');
  const careless = client.request as (key: string) => Promise<unknown>;
  await expect(careless('GET /v1/sessions/{session}')).rejects.toThrow(
    'GET /v1/sessions/{session} needs params.session.',
  );
});

test('one damaged checkpoint takes the words of no other', async () => {
  const path = join(temporaryFolder(), 'damaged.db');
  const { client, manager } = await startServer({ storage: new SqliteCheckpointStorage({ path }) });
  const session = await manager.session('report');
  const ids: string[] = [];
  for (const content of ['one', 'two', 'three'])
    ids.push(await session.save({ messages: [{ role: 'user', content }] }));
  const database = openDatabase(path);
  database.exec(`UPDATE checkpoint SET root_text = '{}' WHERE id = '${ids[1]}'`);
  database.close();
  const { items } = await client.request('GET /v1/labels', { query: { ids } });
  expect(items.map(({ id, text }) => [id, text])).toEqual([
    [ids[0], 'one'],
    [ids[2], 'three'],
  ]);
});

test('the figures of a session count what is damaged in it, and are there nevertheless', async () => {
  const path = join(temporaryFolder(), 'damaged.db');
  const { client, manager } = await startServer({ storage: new SqliteCheckpointStorage({ path }) });
  const first = await talk(manager);
  const session = await manager.session(ODD);
  const head = await session.save({ ...(session.state as object), plan: { tone: 'warm' } });
  const read = () => client.request('GET /v1/sessions/{session}/figures', { params: { session: ODD } });
  expect(await read()).toMatchObject({ checkpoints: 3, damaged: 0, usage: { messages: 2 } });
  const readAfter = async (change: string) => {
    const database = openDatabase(path);
    database.exec(change);
    database.close();
    await talk(manager, change.slice(-40)); // the figures are kept until something is saved
    return read();
  };
  const root = await readAfter(`UPDATE checkpoint SET root_text = '{}' WHERE id = '${first}'`);
  expect(root).toMatchObject({ damaged: 1, usage: { messages: 2 } });
  expect((await readAfter("UPDATE chunk SET text = 'y' || substr(text, 2)")).damaged).toBeGreaterThan(1);
  const record = await readAfter(`UPDATE checkpoint SET body = '{}' WHERE id = '${head}'`);
  expect(record.damaged).toBe(2); // the root and the record; what a damaged record names is not read
  expect(record).toMatchObject({ checkpoints: 3, usage: { kind: 'state' } });
});

test('a session that only recorded steps is listed after its last step, and its effects are shown', async () => {
  const { client, manager } = await startServer({});
  await talk(manager, 'older');
  const session = await manager.session('report', { replayFrom: 'start' });
  await session.step('collect', () => 'facts');
  const { items } = await client.request('GET /v1/sessions', { query: { limit: 1 } });
  expect(items).toMatchObject([{ id: 'report', branches: [], sequence: 0, steps: 1 }]);
  const params = { session: 'report' };
  expect(await client.request('GET /v1/sessions/{session}', { params })).toMatchObject({ id: 'report', branches: [] });
  const effects = await client.request('GET /v1/sessions/{session}/effects', { params });
  expect(effects.items).toMatchObject([{ name: 'collect', status: 'done' }]);
  expect(await client.request('GET /v1/sessions/{session}/figures', { params })).toMatchObject({ checkpoints: 0 });
});

describe('the context of a model', () => {
  const say = (n: number) => ({ role: 'user', content: `message ${n}` });
  const state = (heard: readonly number[]) => ({
    messages: [1, 2, 3, 4, 5].map(say),
    agents: {
      ann: { systemMessage: 'Be brief.', modelId: 'm', tools: { search: 'f' }, histories: { chat: heard.map(say) } },
    },
  });

  test('is what the agent heard, not all that was said', () => {
    expect(contextOf(state([3, 4]), 'ann')).toMatchObject({
      agent: 'ann',
      model: 'm',
      system: 'Be brief.',
      tools: ['search'],
      messages: [say(3), say(4)],
      path: ['agents', 'ann', 'histories', 'chat'],
      conversation: 5,
    });
    expect(contextOf({ messages: [say(1)] }, undefined)).toMatchObject({ agents: [], messages: [say(1)] });
  });

  test('differs by what is new, dropped or in another order', () => {
    const change = compareContexts([1, 2, 3, 4].map(say), [3, 4, 5].map(say));
    expect([change.dropped, change.isReordered]).toEqual([[0, 1], false]);
    expect([0, 1, 2].map(change.isNew)).toEqual([false, false, true]);
    expect(compareContexts([1, 2].map(say), [2, 1].map(say)).isReordered).toBe(true);
  });
});
