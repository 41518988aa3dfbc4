import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { createCrew, createRunner } from '../../test/fleet/crew.ts';
import { LATER } from '../../test/support/later.ts';
import { checkedKeys, startServer, type TestServer } from '../../test/support/server.ts';
import { STORAGES, temporaryFolder } from '../../test/support/storages.ts';
import { createTeam } from '../../test/support/team.ts';
import { Memory } from '../memory/memory.ts';
import { CheckpointingGroupChatManager } from '../runtime/chat/checkpointing-group-chat-manager.ts';
import { defineWorkflow } from '../runtime/workflow/definition/parse-workflow.ts';
import { WorkflowExecutor } from '../runtime/workflow/workflow-executor.ts';
import { InMemoryCheckpointStorage } from '../storage/memory/memory-storage.ts';
import { createClient } from './client/client.ts';
import { ROUTES } from './contract/routes.ts';

/** A team that talks and calls a tool, in the session `team`. */
async function talk({ manager }: TestServer): Promise<void> {
  const { chat } = createTeam();
  await new CheckpointingGroupChatManager({ chat, manager, sessionId: 'team', logs: false }).run({ message: 'Begin.' });
}

async function runWorkflow({ manager }: TestServer) {
  const workflow = defineWorkflow({
    workflow: { name: 'refund' },
    steps: [{ id: 'ok', approval: { message: 'Pay it back?' } }],
  });
  return new WorkflowExecutor({ manager, registry: {} }).run({ workflow, sessionId: 'refund' });
}

const team = { session: 'team' };

async function lookAround({ client }: TestServer): Promise<void> {
  const { items } = await client.request('GET /v1/sessions');
  const session = items.find(({ id }) => id === 'team');
  const checkpoint = session?.headId ?? '';
  const params = { checkpoint };
  await client.request('GET /v1/server');
  await client.request('GET /v1/sessions/{session}', { params: team });
  const figures = await client.request('GET /v1/sessions/{session}/figures', { params: team });
  expect(figures.usage).toMatchObject({ kind: 'group_chat', totals: { toolCalls: expect.any(Number) } });
  const timeline = await client.request('GET /v1/sessions/{session}/timeline', { params: team });
  expect(timeline.names.agents.length).toBeGreaterThan(1);
  await client.request('GET /v1/labels', { query: { ids: timeline.ids.slice(-20) } });
  await client.request('GET /v1/checkpoints/{checkpoint}/context', {
    params: { checkpoint: timeline.ids.at(-1) ?? '' },
  });
  await client.request('GET /v1/checkpoints/{checkpoint}', { params });
  await client.request('GET /v1/checkpoints/{checkpoint}/state', { params, query: { path: '$.chat' } });
  await client.request('GET /v1/checkpoints/{checkpoint}/value', { params, query: { path: '$.chat.problem' } });
  const messages = await client.request('GET /v1/checkpoints/{checkpoint}/messages', { params });
  expect(messages.items.flatMap(({ calls }) => calls.map(({ name }) => name))).toContain('square');
  expect(messages.items.at(-1)?.checkpointId).toBeDefined();
  const diff = await client.request('GET /v1/diff', {
    query: { after: checkpoint, before: timeline.ids[1], patch: true },
  });
  expect(diff.hasChanges).toBe(true);
  await client.request('GET /v1/checkpoints/{checkpoint}/blame', { params, query: { path: '$.chat.messages' } });
  await client.request('GET /v1/checkpoints/{checkpoint}/drift', { params });
  for (const query of [
    { text: 'square' },
    { text: 'SQUARE', session: 'team' },
    { text: 'square', at: checkpoint },
    { text: '^.*s(q|Q)+uare\\b', regex: true },
  ])
    expect((await client.request('GET /v1/search', { query })).items.length).toBeGreaterThan(0);
  await client.request('GET /v1/text-diff', {
    query: { before: timeline.ids[1] ?? '', after: checkpoint, path: '$.chat.problem' },
  });
}

async function lookAtEffects({ client }: TestServer): Promise<void> {
  const { items } = await client.request('GET /v1/sessions/{session}/effects', { params: team });
  const call = items.find(({ inputTokens }) => inputTokens !== undefined);
  expect(call).toMatchObject({ status: 'done', outputTokens: expect.any(Number) });
  const place = { ...team, branch: 'main', ordinal: items[0]?.ordinal ?? 0 };
  const one = await client.request('GET /v1/sessions/{session}/effects/{branch}/{ordinal}', { params: place });
  expect(one.result).toBeDefined();
  const brought = await client.request('GET /v1/checkpoints/{checkpoint}/effects', {
    params: { checkpoint: items.at(-1)?.afterId ?? '' },
  });
  expect(brought.items.length).toBeLessThan(items.length);
}

async function change({ client }: TestServer): Promise<void> {
  const timeline = await client.request('GET /v1/sessions/{session}/timeline', { params: team });
  const checkpoint = timeline.ids[4] ?? '';
  const params = { checkpoint };
  const body = { set: { '$.chat.problem': 'Another one.' } };
  const preview = await client.request('POST /v1/checkpoints/{checkpoint}/fork/preview', { params, body });
  expect(preview.laterCalls.length).toBeGreaterThan(0);
  const misnamed = await client.request('POST /v1/checkpoints/{checkpoint}/fork/preview', {
    params,
    body: { branch: 'a..b' },
  });
  expect(misnamed.branchProblem).toMatch(/must not read as a range/);
  await client.request('POST /v1/checkpoints/{checkpoint}/fork', { params, body: { ...body, branch: 'b' } });
  const compared = await client.request('GET /v1/sessions/{session}/compare', {
    params: team,
    query: { a: 'main', b: 'b' },
  });
  expect(compared).toMatchObject({
    forkPoint: { id: checkpoint },
    firstDivergence: 0,
    counts: { same: 1, changed: 1, only_b: 0 }, // the problem is the first message, too
  });
  expect(compared.tools).toContainEqual(expect.objectContaining({ name: 'square', a: 4, b: 0 })); // after the fork
  expect(compared.b).toMatchObject({ messages: 0, totals: { modelCalls: 0 } });
  const rewound = await client.request('POST /v1/sessions/{session}/rewind', { params: team, body: params });
  await client.request('PUT /v1/sessions/{session}/current', { params: team, body: { branch: 'main' } });
  await client.request('DELETE /v1/sessions/{session}/branches/{branch}', {
    params: { ...team, branch: rewound.branch },
  });
  const tag = { ...team, tag: 'v1' };
  await client.request('PUT /v1/sessions/{session}/tags/{tag}', { params: tag, body: { checkpoint } });
  await client.request('DELETE /v1/sessions/{session}/tags/{tag}', { params: tag });
  await client.request('PUT /v1/checkpoints/{checkpoint}/pin', { params });
  await client.request('DELETE /v1/checkpoints/{checkpoint}/pin', { params });
  await client.request('PUT /v1/checkpoints/{checkpoint}/note', { params, body: { text: 'hm' } });
}

async function lookAtRuns(started: TestServer): Promise<void> {
  const { client, manager } = started;
  expect((await runWorkflow(started)).status).toBe('waiting');
  const { runner } = createRunner(createCrew({}, { planReview: true }), { manager });
  expect((await runner.run({ task: 'Find out what is known.' })).status).toBe('waiting');
  const { items } = await client.request('GET /v1/requests');
  expect(items.map(({ from, id }) => [from, id])).toEqual([
    ['fleet', 'plan-1'],
    ['workflow_run', 'ok'],
  ]);
  expect(items[0]).toMatchObject({ needs: { edit: 'the plan as it should be', revise: 'what to do better' } });
  const answer = { answer: 'approve', by: 'ann' };
  const give = (session: string, request: string) =>
    client.request('POST /v1/sessions/{session}/requests/{request}', { params: { session, request }, body: answer });
  await give('refund', 'ok');
  await expect(give('refund', 'ok')).rejects.toMatchObject({ status: 409, details: { by: 'ann' } });
  await expect(give('refund', 'nothing')).rejects.toMatchObject({ status: 404 });
  await give('crew', 'plan-1');
  expect((await client.request('GET /v1/requests')).items).toEqual([]);
  const answered = (await client.request('GET /v1/runs')).items.filter(({ kind }) => kind !== 'group_chat');
  expect(answered.map((run) => [run.kind, run.requests, run.answered])).toEqual([
    ['fleet', 0, 1],
    ['workflow_run', 0, 1],
  ]);
  const listed = async () =>
    (await client.request('GET /v1/sessions')).items
      .filter(({ id }) => id === 'refund' || id === 'crew')
      .map(({ status, branches }) => [status, branches]);
  expect(await listed()).toEqual([
    ['answered', ['main']],
    ['answered', ['main']],
  ]);
  const { steps } = await client.request('GET /v1/sessions/{session}/run', { params: { session: 'refund' } });
  expect(steps.map(({ status }) => status)).toContain('answered');
  expect((await runWorkflow(started)).status).toBe('completed');
  await runner.resume();
  expect(await listed()).toEqual([
    ['completed', ['main']],
    ['completed', ['main']],
  ]);
  const runs = await client.request('GET /v1/runs');
  expect(runs.items.map(({ kind, status }) => [kind, status])).toEqual(
    expect.arrayContaining([
      ['fleet', 'completed'],
      ['workflow_run', 'completed'],
    ]),
  );
  const flow = await client.request('GET /v1/sessions/{session}/run', { params: { session: 'refund' } });
  expect(flow).toMatchObject({ steps: [{ path: 'ok', status: 'done' }], asks: [{ id: 'ok', answer }] });
  const fleet = await client.request('GET /v1/sessions/{session}/run', { params: { session: 'crew' } });
  const asked = fleet.rounds.flatMap(({ progressLedger, speaker }) =>
    progressLedger === null ? [] : [[speaker, progressLedger.next_speaker?.answer]],
  );
  expect(asked.length).toBeGreaterThan(0);
  for (const [speaker, named] of asked) expect(speaker).toBe(named);
}

async function keep({ client }: TestServer): Promise<void> {
  await client.request('GET /v1/storage');
  await client.request('GET /v1/storage/growth');
  const { ids } = await client.request('GET /v1/sessions/{session}/timeline', { params: team });
  await client.request('DELETE /v1/checkpoints/{checkpoint}', { params: { checkpoint: ids[1] ?? '' } });
  const policy = { keepLast: 1 };
  const { dropped } = await client.request('POST /v1/retention/preview', { body: { policy, session: 'team' } });
  await client.request('POST /v1/prune', { body: { policy, session: 'team', expect: dropped } });
  await client.request('POST /v1/verify', { body: { readData: false } });
  const lines = await (await client.request('GET /v1/sessions/{session}/export', { params: team })).text();
  await client.request('DELETE /v1/sessions/{session}', { params: team });
  const { sessionId } = await client.request('POST /v1/import', { body: lines });
  const fork = await client.request('GET /v1/sessions/{session}', { params: { session: sessionId } });
  const checkpoint = fork.head?.id ?? '';
  await expect(client.request('DELETE /v1/checkpoints/{checkpoint}', { params: { checkpoint } })).rejects.toMatchObject(
    {
      status: 409,
      code: 'CONFLICT',
      message: expect.stringMatching(/is the checkpoint of branch "\w+"\. Remove that first/),
    },
  );
}

async function remember({ client }: TestServer, memory: Memory): Promise<void> {
  await memory.add('I live in Lisbon.', { userId: 'ann' });
  const { items } = await client.request('GET /v1/memory', { query: { user: 'ann', text: 'Where does she live?' } });
  expect(items[0]?.memory).toContain('Lisbon');
  const added = await client.request('POST /v1/memory', { body: { user: 'ann', text: 'Her cat is called Olga.' } });
  expect(added.items).toMatchObject([{ memory: 'Her cat is called Olga.', event: 'ADD' }]);
  await client.request('GET /v1/memory', { query: { user: 'ann' } });
  const why = await client.request('GET /v1/memory/{memory}', { params: { memory: items[0]?.id ?? '' } });
  expect(why.sources.length).toBeGreaterThan(0);
}

test('every reply of every route is what the table says, for chats, fleets, workflows and memory', {
  timeout: 60_000,
}, async () => {
  const [, create] = STORAGES.find(([name]) => name === 'sqlite') ?? [];
  const memory = new Memory({ path: join(temporaryFolder(), 'memory.db') });
  const started = await startServer({ storage: create?.().storage ?? new InMemoryCheckpointStorage(), memory });
  await talk(started);
  await lookAround(started);
  await lookAtEffects(started);
  await change(started);
  await lookAtRuns(started);
  await keep(started);
  await remember(started, memory);
  await memory.close();
  await started.client.request('POST /v1/access', { body: { token: started.token } });
  const others = Object.keys(ROUTES).filter((key) => !checkedKeys.has(key));
  // What runs a team is checked in team.test.ts, the storage in remote-storage.test.ts.
  expect(others.filter((key) => !/run$|storage\/(read|change)$/.test(key))).toEqual(['GET /v1/events']);
});

test('a history of 10,000 checkpoints is one small reply, whatever its words are', LATER, async () => {
  const started = await startServer();
  const session = await started.manager.session('long');
  const hostile = '<script>alert(1)</script>\u202e\u001b[31m';
  for (let n = 0; n < 10_000; n++) await session.save({ n, hostile }, n === 5_000 ? { note: hostile } : {});
  const response = await started.ask('/v1/sessions/long/timeline', { headers: { 'accept-encoding': 'gzip' } });
  const text = await response.text();
  expect(gzipSync(text).length).toBeLessThan(300_000);
  expect(response.headers.get('content-encoding')).toBe('gzip');
  expect(response.headers.get('content-type')).toBe('application/json');
  expect(text.length).toBeLessThan(1_000_000);
  const columns = ROUTES['GET /v1/sessions/{session}/timeline'].reply.parse(JSON.parse(text));
  expect([columns.ids.length, columns.parents[9_999], columns.words[5_000]]).toEqual([10_000, 9_998, hostile]);
  const pages = await started.client.request('GET /v1/sessions/{session}/timeline', {
    params: { session: 'long' },
    query: { limit: 4_000 },
  });
  const rest = await started.client.request('GET /v1/sessions/{session}/timeline', {
    params: { session: 'long' },
    query: { cursor: pages.next },
  });
  expect([rest.ids.length, rest.parents[0], rest.elsewhere]).toEqual([6_000, -2, { 0: pages.ids.at(-1) }]);
  const end = await started.client.request('GET /v1/sessions/{session}/timeline', {
    params: { session: 'long' },
    query: { limit: 3, last: true },
  });
  expect([end.ids, end.next]).toEqual([columns.ids.slice(-3), columns.ids.at(-3)]);
  const before = await started.client.request('GET /v1/sessions/{session}/timeline', {
    params: { session: 'long' },
    query: { last: true, cursor: end.next },
  });
  expect([before.ids, before.next]).toEqual([columns.ids.slice(0, -3), undefined]);
});

test('the client needs nothing of Node, and takes a handler in place of the network', async () => {
  const { server, token } = await startServer();
  const client = createClient('http://localhost/', { token, fetch: server.fetch });
  expect(await client.request('GET /v1/sessions')).toEqual({ items: [], damaged: [] });
  expect(client.urlOf('GET /v1/sessions/{session}', { params: { session: 'a/b' } })).toBe(
    'http://localhost/v1/sessions/a%2Fb',
  );
});
