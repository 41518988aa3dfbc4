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

test('of a list that was rewritten nobody says which checkpoint brought a message, nor counts what was said after a fork', async () => {
  const { client, manager } = await startServer({});
  const session = await manager.session('window');
  const say = (n: number) => ({ role: 'assistant', content: `Step ${n}`, usage_metadata: USED });
  const saveWindow = (n: number) => {
    const messages = Array.from({ length: Math.min(n, 3) }, (_, at) => say(n - Math.min(n, 3) + at + 1));
    return session.save({ messages }, { metadata: { messages: messages.length } });
  };
  const ids = [];
  for (const n of [1, 2, 3, 4, 5]) ids.push(await saveWindow(n));
  const origins = async (checkpoint = '') =>
    (await client.request('GET /v1/checkpoints/{checkpoint}/messages', { params: { checkpoint } })).items.map(
      ({ sequence }) => sequence,
    );
  expect(await origins(ids[2])).toEqual([1, 2, 3]);
  expect(await origins(ids[4])).toEqual([undefined, undefined, undefined]);
  await manager.fork(ids[3] ?? '', { branch: 'other', edit: () => ({ messages: [2, 3, 4].map(say), note: 'tried' }) });
  const { a, b, steps } = await client.request('GET /v1/sessions/{session}/compare', {
    params: { session: 'window' },
    query: { a: 'main', b: 'other' },
  });
  expect([a.messages, a.totals, b.messages]).toEqual([3, undefined, 0]);
  expect(steps.map(({ a: said }) => said?.sequence)).toEqual(steps.map(() => undefined));
  await session.save({ messages: [say(0)] }, { metadata: { messages: 1 }, trigger: 'compacted' });
  const next = await session.save({ messages: [say(0), say(6)] }, { metadata: { messages: 2 } });
  expect(await origins(next)).toEqual([undefined, 7]);
});

const USED = { input_tokens: 90, output_tokens: 7 };

test.each(['.', '..', '~.', '~~..', '%2E', 'report.json'])('a session may be named %s', async (session) => {
  const { client, manager } = await startServer({});
  const id = await (await manager.session(session)).save({ messages: [] });
  const found = await client.request('GET /v1/sessions/{session}', { params: { session } });
  expect([found.id, found.head?.id]).toEqual([session, id]);
  const timeline = await client.request('GET /v1/sessions/{session}/timeline', { params: { session } });
  expect(timeline.ids).toEqual([id]);
});

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
    await manager.fork(checkpoint, { branch: 'other', edit: () => ({ messages: [] }) });
    const other = await manager.session(ODD, { branch: 'other' });
    const [listed] = (await client.request('GET /v1/sessions')).items;
    expect(listed).toMatchObject({ headId: checkpoint, savedAt: other.head?.timestamp.toISOString() });
    const running = await manager.session(ODD);
    await running.save({ messages: [] }, { status: 'running' });
    for (const set of [{}, { set: { '$.messages': [1] } }]) {
      await client.request('POST /v1/checkpoints/{checkpoint}/fork', {
        params: { checkpoint: running.head?.id ?? '' },
        body: { switch: true, ...set },
      });
      const [fork] = (await client.request('GET /v1/sessions')).items;
      expect([fork?.currentBranch === 'main', fork?.status]).toEqual([false, undefined]); // its origin runs, not the fork
    }
  });
});

test('messages say what was recorded of them: tokens, how long a call took and whether it was made, and which call repeats another', async () => {
  const { client, manager } = await startServer({});
  const session = await manager.session('report');
  const messages: object[] = [{ role: 'user', content: 'Find prices.' }];
  await session.save({ messages }, { metadata: { messages: messages.length } });
  for (const toolCallId of ['a', 'b']) {
    const output = await session.step('search', () => 'nothing', { input: 'prices' });
    messages.push({
      role: 'assistant',
      usage_metadata: { input_tokens: 90, output_tokens: 7 },
      content: [
        { type: 'tool-call', toolCallId, toolName: 'search', input: 'prices' },
        { type: 'tool-result', toolCallId, toolName: 'search', output },
      ],
    });
    await session.save({ messages }, { metadata: { messages: messages.length } });
  }
  const read = async (checkpoint: string, query: object = {}) =>
    (await client.request('GET /v1/checkpoints/{checkpoint}/messages', { params: { checkpoint }, query })).items;
  const items = await read(session.head?.id ?? '');
  expect(
    items.map(({ inputTokens, calls: [call] }) => [inputTokens, call?.isReplayed, call?.sameAs, call?.alike]),
  ).toEqual([
    [undefined, undefined, undefined, undefined],
    [90, false, undefined, undefined],
    [90, false, 1, 2],
  ]);
  expect(items[2]?.calls[0]?.durationMs).toBeGreaterThanOrEqual(0);
  expect(await read(session.head?.id ?? '', { last: true, limit: 1 })).toEqual([items[2]]);
  const replay = await manager.session('report', {
    branch: (await manager.fork(items[0]?.checkpointId ?? '')).branch,
    mode: 'recorded',
  });
  await replay.step('search', () => 'nothing', { input: 'prices' });
  const head = await replay.save({ messages: messages.slice(0, 2) }, { metadata: { messages: 2 } });
  expect((await read(head)).map(({ calls: [call] }) => call?.isReplayed)).toEqual([undefined, true]);
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

test('search looks at every branch, and a match says on which it is; what branches share is listed once', async () => {
  const { client, manager } = await startServer({});
  const session = await manager.session('report');
  const say = (content: string) => ({
    messages: [
      { role: 'user', content: 'Find prices.' },
      { role: 'user', content },
    ],
  });
  const first = await session.save({ messages: [{ role: 'user', content: 'Find prices.' }] });
  const main = await session.save(say('Neither page has them.'));
  await manager.fork(first, { branch: 'other' });
  const other = await (await manager.session('report', { branch: 'other' })).save(say('Acme asks 12.'));
  await manager.fork(first, { branch: 'bare' });
  const find = async (text: string, query: object = {}) =>
    (await client.request('GET /v1/search', { query: { text, ...query } })).items.map(
      ({ branch, checkpointId }) => [branch, checkpointId] as const,
    );
  for (const query of [{}, { session: 'report' }]) {
    expect(await find('neither page', query)).toEqual([['main', main]]);
    expect(await find('acme asks', query)).toEqual([['other', other]]);
    expect(await find('neither page', { ...query, branch: 'other' })).toEqual([]);
  }
  expect(await find('find prices')).toEqual([['main', main]]);
  expect(await find('find prices', { session: 'report' })).toEqual([['main', first]]);
  expect(await find('find prices', { session: 'report', branch: 'bare' })).toEqual([['bare', first]]);
  expect(await find('acme asks', { at: other })).toEqual([['other', other]]);
});

test('search looks into subgraphs of a thread, too', async () => {
  const { client, manager } = await startServer({});
  for (const [sessionId, content] of Object.entries({ 'lg/trip': 'Book a flight.', 'lg/trip/book': 'A window seat.' }))
    await (await manager.session(sessionId)).save({ messages: [{ role: 'user', content }] });
  const { items } = await client.request('GET /v1/search', { query: { text: 'window' } });
  expect(items.map(({ sessionId }) => sessionId)).toEqual(['lg/trip/book']);
});

test('one damaged checkpoint takes the words of no other', async () => {
  const path = join(temporaryFolder(), 'damaged.db');
  const { client, manager } = await startServer({ storage: new SqliteCheckpointStorage({ path }) });
  const session = await manager.session('report');
  const ids: string[] = [];
  for (const content of ['one', 'two', 'three'])
    ids.push(await session.save({ messages: [{ role: 'user', content }] }));
  await manager.fork(ids[1] ?? '', { branch: 'to-be-damaged' });
  const database = openDatabase(path);
  database.exec(`UPDATE checkpoint SET root_text = '{}' WHERE id = '${ids[1]}'`);
  database.close();
  const { items } = await client.request('GET /v1/labels', { query: { ids } });
  expect(items.map(({ id, text }) => [id, text])).toEqual([
    [ids[0], 'one'],
    [ids[2], 'three'],
  ]);
  const found = await client.request('GET /v1/search', { query: { text: 'three' } });
  expect(found).toMatchObject({ items: [{ branch: 'main', checkpointId: ids[2] }], isComplete: false });
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
