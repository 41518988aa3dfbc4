import { describe, expect, test } from 'vitest';
import { startServer } from '../../test/support/server.ts';
import { CheckpointManager } from '../manager/checkpoint-manager.ts';
import type { Commit, CommitResult } from '../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../storage/memory/memory-storage.ts';

const SESSION = 'report';

async function startWithHistory(options: Parameters<typeof startServer>[0] = {}) {
  const started = await startServer(options);
  const session = await started.manager.session(SESSION);
  const state = { messages: [{ role: 'user', content: 'Find prices' }], plan: { tone: 'cool' } };
  const first = await session.save(state);
  state.messages.push({ role: 'assistant', content: 'I will search.' });
  const head = await session.save(state);
  await session.close();
  return { ...started, first, head };
}

const params = { session: SESSION };

/** Lets something happen in the storage just before the next commit. */
class InterruptedStorage extends InMemoryCheckpointStorage {
  interrupt: (() => Promise<unknown>) | undefined;

  override async commit(commit: Commit): Promise<CommitResult> {
    const { interrupt } = this;
    this.interrupt = undefined;
    await interrupt?.();
    return super.commit(commit);
  }
}

describe('changes', () => {
  test('fork with an edit of each form; the original stays as it is', async () => {
    const { client, manager, first } = await startWithHistory();
    const fork = 'POST /v1/checkpoints/{checkpoint}/fork';
    const at = { params: { checkpoint: first } };
    const tagged = await client.request('GET /v1/checkpoints/{checkpoint}/value', { ...at, query: { form: 'tagged' } });
    const edits = [
      { set: { '$.plan.tone': 'warm' } },
      { patch: [{ op: 'replace', path: '/plan/tone', value: 'warm' }] },
      { state: { ...(tagged.value as object), plan: { tone: 'warm' } } },
    ];
    for (const [n, edit] of edits.entries()) {
      const preview = await client.request('POST /v1/checkpoints/{checkpoint}/fork/preview', { ...at, body: edit });
      expect(preview).toMatchObject({ isValid: true, patch: [{ op: 'replace', path: '/plan/tone', value: 'warm' }] });
      const head = await client.request(fork, {
        ...at,
        body: { ...edit, branch: `try-${n}`, reason: 'warmer', ...(n > 0 && { author: 'ann' }) },
      });
      expect(await manager.load(head.headId)).toMatchObject({ plan: { tone: 'warm' } });
    }
    const { flags } = await client.request('GET /v1/sessions/{session}/timeline', { params });
    expect(flags.map((sum) => sum & 2)).toEqual([0, 0, 2, 2, 2]);
    expect(await manager.load(first)).toMatchObject({ plan: { tone: 'cool' } });
    const bad = await client.request('POST /v1/checkpoints/{checkpoint}/fork/preview', {
      ...at,
      body: { set: { '$.nowhere.else': 1 } },
    });
    expect(bad).toMatchObject({ isValid: false, problem: expect.stringContaining('nowhere') });
    await expect(client.request(fork, { ...at, body: { set: {}, patch: [] } })).rejects.toMatchObject({ status: 400 });
    const long = Array(10_001).fill({ op: 'test', path: '/plan/tone', value: 'cool' });
    await expect(client.request(fork, { ...at, body: { patch: long } })).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining('10000'),
    });
    const patch = Array.from({ length: 60 }, (_, n) => ({ op: 'copy' as const, from: '', path: `/x${n}` }));
    await expect(client.request(fork, { ...at, body: { patch } })).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining('the patch copies more than'),
    });
    for (const state of [{ $: ['Date', 'x'] }, { $: 0 }, { a: { $: ['Map', 5] } }])
      await expect(client.request(fork, { ...at, body: { state } })).rejects.toMatchObject({
        status: 400,
        code: 'INVALID_INPUT',
      });
    for (const set of ['{ "__proto__": 1 }', '{ "$.plan.tone": "warm", "__proto__": 1 }'])
      await expect(client.request(fork, { ...at, body: { set: JSON.parse(set) } })).rejects.toThrow('"__proto__"');
  });

  test('[session.2] an edited message of a chat is edited in every copy, and the preview shows it', async () => {
    const { client, manager } = await startServer({});
    const said = () => ({ name: 'ann', content: 'Yes.' });
    const chat = { settings: { managerName: 'chat' }, messages: [said()] };
    const agents = { bob: { histories: { chat: [said()] } } };
    const checkpoint = await manager.save({ kind: 'group_chat', chat, agents }, { sessionId: 'chat' });
    const request = { params: { checkpoint }, body: { set: { '$.chat.messages[0].content': 'No.' } } };
    const preview = await client.request('POST /v1/checkpoints/{checkpoint}/fork/preview', request);
    expect(JSON.stringify(preview.patch)).toContain('/agents/bob/histories/chat/0');
    const head = await client.request('POST /v1/checkpoints/{checkpoint}/fork', request);
    expect(head.copies).toEqual(['$.agents.bob.histories.chat[0]']);
    expect(await manager.load(head.headId)).toMatchObject({
      agents: { bob: { histories: { chat: [{ content: 'No.' }] } } },
    });
  });

  test('rewind, switch, tag, pin and note; each is seen in the session, and can be undone', async () => {
    const { client, first, head } = await startWithHistory();
    const rewound = await client.request('POST /v1/sessions/{session}/rewind', { params, body: { checkpoint: first } });
    expect(rewound.headId).toBe(first);
    await client.request('PUT /v1/sessions/{session}/current', { params, body: { branch: 'main' } });
    const tag = { session: SESSION, tag: 'v1' };
    await client.request('PUT /v1/sessions/{session}/tags/{tag}', { params: tag, body: { checkpoint: head } });
    const checkpoint = { checkpoint: head };
    await client.request('PUT /v1/checkpoints/{checkpoint}/pin', { params: checkpoint });
    const note = 'PUT /v1/checkpoints/{checkpoint}/note';
    await client.request(note, { params: checkpoint, body: { text: 'the first\n<b>good</b> one', author: 'ann' } });
    await client.request(note, { params: checkpoint, body: { text: 'second thoughts' } });
    expect(await client.request('GET /v1/sessions/{session}', { params })).toMatchObject({
      currentBranch: 'main',
      tags: [{ name: 'v1', checkpointId: head }],
      pins: [head],
      notes: [{ checkpointId: head, text: 'second thoughts' }],
    });
    await client.request('DELETE /v1/sessions/{session}/tags/{tag}', { params: tag });
    await client.request('DELETE /v1/checkpoints/{checkpoint}/pin', { params: checkpoint });
    await client.request(note, { params: checkpoint, body: { text: '' } });
    await client.request('DELETE /v1/sessions/{session}/branches/{branch}', {
      params: { session: SESSION, branch: rewound.branch },
    });
    const after = await client.request('GET /v1/sessions/{session}', { params });
    expect([after.tags, after.pins, after.notes, after.branches.length]).toEqual([[], [], [], 1]);
  });

  test('If-Match: a change of a session that moved meanwhile is a 412, and changes nothing', async () => {
    const { client, manager, first } = await startWithHistory();
    const { etag = '' } = await client.open('GET /v1/sessions/{session}', { params });
    await manager.tag(first, 'by-another-process');
    const late = client.request('POST /v1/sessions/{session}/rewind', {
      params,
      body: { checkpoint: first },
      ifMatch: etag,
    });
    await expect(late).rejects.toMatchObject({ status: 412, code: 'CONFLICT' });
    expect(await manager.branches(SESSION)).toHaveLength(1);
    const { etag: fresh = '' } = await client.open('GET /v1/sessions/{session}', { params });
    await client.request('POST /v1/sessions/{session}/rewind', { params, body: { checkpoint: first }, ifMatch: fresh });
    expect(await manager.branches(SESSION)).toHaveLength(2);
  });

  test('Idempotency-Key: the same request is done once, however often it is sent; another with the same key is refused', async () => {
    const { client, manager, first } = await startWithHistory();
    const send = (reason: string) =>
      client.request('POST /v1/checkpoints/{checkpoint}/fork', {
        params: { checkpoint: first },
        body: { reason },
        idempotencyKey: 'key-1',
      });
    const replies = await Promise.all([send('a'), send('a'), send('a')]);
    expect(new Set(replies.map(({ branch }) => branch)).size).toBe(1);
    expect(await manager.branches(SESSION)).toHaveLength(2);
    await expect(send('b')).rejects.toMatchObject({ status: 409, code: 'CONFLICT' });
  });
});

describe('keeping', () => {
  test('storage, growth, retention preview, prune with the count that was seen, verify', async () => {
    const { client, first } = await startWithHistory();
    const policy = { keepLast: 1 };
    const storage = await client.request('GET /v1/storage');
    expect(storage).toMatchObject({ checkpoints: 2, sessions: 1 });
    const growth = await client.request('GET /v1/storage/growth');
    expect(growth.paths[0]).toMatchObject({ path: '$' });
    expect(growth.uniqueBytes).toBe(growth.sessions[0]?.uniqueBytes);
    const from = new Date(Date.parse(growth.growth.at(-1)?.until ?? '') + 1).toISOString();
    const later = await client.request('GET /v1/storage/growth', { query: { from } });
    expect(later).toEqual({ ...growth, paths: [], growth: growth.growth.map(() => expect.anything()) });
    const preview = await client.request('POST /v1/retention/preview', { body: { policy } });
    expect(preview).toMatchObject({
      dropped: 1,
      kept: 1,
      sessions: [{ checkpoints: 1, freedBytes: preview.freedBytes }],
      going: [{ branch: 'main', sequence: 1, reason: expect.any(String) }],
    });
    expect(preview.buckets.reduce((sum, { freedBytes }) => sum + freedBytes, 0)).toBe(preview.freedBytes);
    const wrong = client.request('POST /v1/prune', { body: { policy, expect: 7 } });
    await expect(wrong).rejects.toMatchObject({ status: 409 });
    const pruned = await client.request('POST /v1/prune', { body: { policy, expect: 1, collect: true } });
    expect(pruned.deleted).toEqual([first]);
    expect(await client.request('POST /v1/verify', { body: {} })).toMatchObject({ status: 'clean', tombstones: 1 });
    const timeline = await client.request('GET /v1/sessions/{session}/timeline', { params });
    expect(timeline.flags).toEqual([1, 0]);
  });

  test('export and import bring a session into another storage, and damage is refused', async () => {
    const from = await startWithHistory();
    const to = await startServer();
    const lines = await (await from.client.request('GET /v1/sessions/{session}/export', { params })).text();
    const imported = await to.client.request('POST /v1/import', { body: lines });
    expect(imported).toMatchObject({ sessionId: SESSION, checkpoints: 2 });
    expect(await to.manager.load(from.head)).toEqual(await from.manager.load(from.head));
    await expect(to.client.request('POST /v1/import', { body: lines.replace('cool', 'evil') })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      status: 400,
      details: { line: expect.any(Number) },
    });
    for (const body of [
      'garbage',
      'null\n',
      '\xff',
      lines.slice(0, lines.length / 2),
      lines.replace(/\n.*\n$/, '\n'),
      `${lines}{}\n`,
    ])
      await expect(to.client.request('POST /v1/import', { body })).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        status: 400,
      });
    await to.client.request('DELETE /v1/sessions/{session}', { params });
    await expect(to.client.request('GET /v1/sessions/{session}', { params })).rejects.toMatchObject({ status: 404 });
    const fork = await from.client.request('POST /v1/checkpoints/{checkpoint}/fork', {
      params: { checkpoint: from.first },
      body: { set: { '$.plan': 1 } },
    });
    await from.client.request('DELETE /v1/sessions/{session}/branches/{branch}', {
      params: { session: SESSION, branch: fork.branch },
    });
    const gone = await from.client.request('DELETE /v1/checkpoints/{checkpoint}', {
      params: { checkpoint: fork.headId },
    });
    expect(gone).toEqual({ isDeleted: true });
  });

  test('made while another process moves what the client saw are refused by the storage, whatever the server saw', async () => {
    const storage = new InterruptedStorage();
    const { client, first, head } = await startWithHistory({ storage });
    const other = new CheckpointManager({ storage });
    const read = async () => (await client.open('GET /v1/sessions/{session}', { params })).etag ?? '';
    const changes = {
      fork: (ifMatch: string) =>
        client.request('POST /v1/checkpoints/{checkpoint}/fork', { params: { checkpoint: head }, body: {}, ifMatch }),
      switch: (ifMatch: string) =>
        client.request('PUT /v1/sessions/{session}/current', { params, body: { branch: 'main' }, ifMatch }),
      pin: (ifMatch: string) =>
        client.request('PUT /v1/checkpoints/{checkpoint}/pin', { params: { checkpoint: head }, ifMatch }),
    };
    for (const change of Object.values(changes)) {
      const ifMatch = await read();
      storage.interrupt = async () => {
        const session = await other.session(SESSION);
        await session.save({ n: Math.random() });
        await session.close();
      };
      await expect(change(ifMatch)).rejects.toMatchObject({ status: 412, code: 'CONFLICT' });
      await change(await read());
    }
    const taken = client.request('POST /v1/checkpoints/{checkpoint}/fork', {
      params: { checkpoint: first },
      body: { branch: 'main' },
      ifMatch: await read(),
    });
    await expect(taken).rejects.toMatchObject({ status: 409 });
  });
});
