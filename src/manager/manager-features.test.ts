import { expect, expectTypeOf, test, vi } from 'vitest';
import { describeOn } from '../../test/support/later.ts';
import { STORAGES } from '../../test/support/storages.ts';
import { Checkpoint, type CheckpointJson } from '../core/record/checkpoint.ts';
import { SecretRef } from '../core/value/secret-ref.ts';
import { InMemoryCheckpointStorage } from '../storage/memory/memory-storage.ts';
import type { CheckpointStorage } from '../storage/whole/checkpoint-storage.ts';
import { faultyStorage } from '../testing/faulty-storage.ts';
import { CheckpointManager } from './checkpoint-manager.ts';
import { Workers } from './workers/workers.ts';

const DAY_MS = 86_400_000;

describeOn(STORAGES)('on %s', (_, create) => {
  test('[retention.3] retention by type is at work after every save, exactly per agent, and never takes a head', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const deleted: string[] = [];
    manager.on('checkpoint_deleted', (id) => deleted.push(id), { await: true });
    for (const agentId of ['a-1', 'a-10']) {
      for (let i = 0; i < 5; i++) await manager.save({ i }, { sessionId: agentId, agentId, type: 'routine' });
    }
    for (const agentId of ['a-1', 'a-10']) expect((await manager.list({ agentId })).checkpoints).toHaveLength(3);
    expect(deleted).toHaveLength(4);
    await manager.close();
  });

  test('[retention.4] a pre-operation checkpoint stays until its operation completes, a recovery one until it is cleared or a week old', async () => {
    let nowMs = Date.UTC(2026, 0, 1);
    const manager = new CheckpointManager({ storage: create().storage, now: () => nowMs });
    const session = await manager.session('s');
    const before = await session.save({ n: 1 }, { type: 'pre_operation' });
    const recovery = await session.save({ n: 2 }, { type: 'recovery' });
    const cleared = await session.save({ n: 3 }, { type: 'recovery' });
    await session.save({ n: 4 });
    expect((await manager.prune()).deleted).toEqual([]);
    await expect(manager.completeOperation(recovery)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('of type "recovery"'),
    });
    await expect(manager.clearRecovery(before)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await manager.completeOperation(before);
    await manager.clearRecovery(cleared);
    expect(new Set((await manager.prune()).deleted)).toEqual(new Set([before, cleared]));
    nowMs += 8 * DAY_MS;
    const preview = await manager.prune({ dryRun: true });
    expect(preview.verdicts.find(({ id }) => id === recovery)).toMatchObject({
      keep: false,
      reason: expect.stringMatching(/day/),
    });
    expect((await manager.prune()).deleted).toEqual([recovery]);
    await expect(manager.load(recovery)).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('was deleted on'),
    });
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 1, tombstones: 3 });
    await manager.close();
  });

  test('[retention.2] tags and pins survive every policy, heads with their sessions; gc gives back what nothing needs', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const session = await manager.session('s');
    const ids: string[] = [];
    for (let i = 0; i < 12; i++) ids.push(await session.save({ own: `${i} `.repeat(500), shared: 'x'.repeat(2000) }));
    await manager.tag(ids[2] ?? '', 'keep-me');
    await manager.pin(ids[4] ?? '');
    await manager.fork(ids[6] ?? '', { branch: 'b' });
    const { deleted } = await manager.prune({ policy: { maxCheckpoints: 4, maxAgeDays: 1 } });
    expect(deleted).toHaveLength(8);
    expect((await manager.list({}, { order: 'oldest' })).checkpoints.map(({ id }) => id)).toEqual(
      [2, 4, 6, 11].map((i) => ids[i]),
    );
    expect((await manager.gc()).chunks).toBeGreaterThan(0);
    expect((await manager.gc()).chunks).toBe(0);
    expect(await manager.load(ids[4] ?? '')).toMatchObject({ own: '4 '.repeat(500) });
    expect(await manager.verify()).toMatchObject({ status: 'clean' });
    expect((await manager.pathToRoot(ids[11] ?? '')).filter(({ tombstone }) => tombstone !== undefined)).toHaveLength(
      8,
    );
    await manager.close();
  });

  test('[retention.15] clearing a user leaves nothing of that user, and everything of others', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    await manager.save({ secret: 'mine' }, { sessionId: 'only', userId: 'u1' });
    const shared = await manager.session('shared');
    const kept = await shared.save({ n: 1 }, { userId: 'u10' });
    await shared.save({ n: 2, text: 'of u1 '.repeat(100) }, { userId: 'u1' });
    const plan = await manager.forgetUser('u1', { dryRun: true });
    expect(plan).toMatchObject({ checkpoints: 2, memories: 0, left: [] });
    expect(plan.sessions.toSorted()).toEqual(['only', 'shared']);
    expect(await manager.clearUserHistory('u1')).toBe(2);
    expect(await manager.listByUser('u1')).toEqual([]);
    expect((await manager.listByUser('u10')).map(({ id }) => id)).toEqual([kept]);
    expect(await manager.branches('only')).toEqual([]);
    expect((await manager.session('shared')).head?.id).toBe(kept);
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 1, sessions: 1 });
    await manager.close();
  });

  test('[retention.8] limits of the storage and of the manager hold, per user too', async () => {
    const manager = new CheckpointManager({ storage: create().storage, retention: { maxCheckpointsPerUser: 4 } });
    for (const userId of ['u1', 'u2']) {
      for (let i = 0; i < 7; i++) await manager.save({ i }, { sessionId: userId, userId });
    }
    expect(await manager.listByUser('u1')).toHaveLength(4);
    expect(await manager.listByUser('u2', { limit: 2, offset: 1 })).toHaveLength(2);
    expect(await manager.cleanupOldCheckpoints({ maxAgeDays: 30 })).toBe(0);
    await manager.close();
  });

  test('[secret.1] secrets do not reach the storage; a restore says what was left out', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const key = `sk-${'proj'}-${'a1B2'.repeat(12)}`;
    const id = await manager.save(
      { llm: { apiKey: 'p4ssw0rd-of-mine', model: 'm' }, messages: [{ text: `use ${key} now` }] },
      { note: `my key is ${key}`, metadata: { key } },
    );
    const restored = await manager.restore<{ llm: { apiKey: unknown }; messages: { text: string }[] }>(id);
    expect(restored.llm.apiKey).toBeInstanceOf(SecretRef);
    expect(restored.messages[0]?.text).toMatch(/^use \[secret .*\] now$/);
    expect(manager.reportOf(restored)).toMatchObject({ status: 'partial', problems: [{ path: '$.llm.apiKey' }] });
    const lines: string[] = [];
    for await (const line of manager.exportSession((await manager.get(id))?.sessionId ?? '')) lines.push(line);
    expect(lines.join('')).not.toMatch(/p4ssw0rd|a1B2a1B2/);
    const open = new CheckpointManager({ storage, secrets: 'store-secrets-in-plain-text' });
    expect(await open.load(await open.save({ apiKey: 'p4ss' }))).toEqual({ apiKey: 'p4ss' });
    await manager.close();
  });

  test('[save.8] events come after durability, a handler that throws breaks nothing', async () => {
    const { storage } = create();
    const onHandlerError = vi.fn();
    const manager = new CheckpointManager({ storage, onHandlerError });
    const seen: string[] = [];
    manager.on(
      'checkpoint_saved',
      async ({ id }) => {
        seen.push(((await manager.load(id)) as { n: number }).n.toString());
      },
      { await: true },
    );
    manager.on('checkpoint_saved', () => {
      throw new Error('handler');
    });
    const stop = manager.on('checkpoint_restored', (checkpoint, agent) =>
      seen.push(`${checkpoint.sequence} ${JSON.stringify(agent)}`),
    );
    const id = await manager.save({ n: 5 });
    await manager.restore(id);
    stop();
    await manager.restore(id);
    expect(seen).toEqual(['5', '1 {"n":5}']);
    expect(onHandlerError).toHaveBeenCalledOnce();
    await manager.close();
  });

  test('[save.4] a save that failed leaves history whole, and the next one stands on the last good one', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage: faultyStorage(storage, { commits: { 2: 'fails', 3: 'fails' } }) });
    const session = await manager.session('s');
    const messages = Array.from({ length: 50 }, (_, i) => ({ i, text: 'text '.repeat(100) }));
    const first = await session.save({ messages });
    for (const text of ['lost '.repeat(100), 'lost too '.repeat(100)]) {
      messages.push({ i: 50, text });
      await expect(session.save({ messages })).rejects.toMatchObject({ code: 'STORAGE' });
    }
    messages.push({ i: 52, text: 'kept '.repeat(100) });
    const last = await session.save({ messages });
    expect((await manager.get(last))?.parentId).toBe(first);
    expect(await manager.load(last)).toEqual({ messages });
    await manager.gc();
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 2 });
    await manager.close();
  });

  test('[save.5] a key that was used for another state is refused, and the session stays as it is', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('s');
    const first = await session.save({ n: 1 }, { idempotencyKey: 'k' });
    const taken = {
      code: 'INVALID_INPUT',
      details: { id: first },
      message: expect.stringContaining('a key of its own'),
    };
    await expect(session.save({ n: 2 }, { idempotencyKey: 'k' })).rejects.toMatchObject(taken);
    expect(session.state).toEqual({ n: 1 });
    const second = await session.save({ n: 3 });
    // Nothing is stored for the state of an earlier checkpoint: the session is where it was.
    expect(await session.save({ n: 1 }, { idempotencyKey: 'k' })).toBe(first);
    expect([session.state, session.head?.id]).toEqual([{ n: 3 }, second]);
    const again = await new CheckpointManager({ storage }).session('s');
    await expect(again.save({ n: 4 }, { idempotencyKey: 'k' })).rejects.toMatchObject(taken);
    expect(again.state).toEqual({ n: 3 });
    expect(await again.save({ n: 1 }, { idempotencyKey: 'k' })).toBe(first);
    const other = new CheckpointManager({ storage });
    await expect(other.save({ n: 5 }, { sessionId: 's', idempotencyKey: 'k' })).rejects.toMatchObject(taken);
    expect((await manager.stats()).checkpoints).toBe(2);
    await manager.close();
  });

  test('[session.3] an id that is a number is found by the number and by its digits', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    await manager.save({ id: 7, userId: 9 });
    await manager.save({}, { sessionId: 's', agentId: 7, userId: 9n });
    for (const filter of [{ userId: 9 }, { userId: '9' }, { agentId: 7 }, { agentId: 7n, userId: 9 }]) {
      expect((await manager.list(filter)).checkpoints).toHaveLength(2);
      expect(await manager.latest(filter)).toMatchObject({ agentId: '7', userId: '9', sessionId: 's' });
    }
    const refused = { code: 'INVALID_INPUT', message: expect.stringContaining('or a number') };
    await expect(manager.list({ userId: {} as never })).rejects.toMatchObject(refused);
    await expect(manager.save({}, { userId: Number.NaN })).rejects.toMatchObject(refused);
    await manager.close();
  });

  test('[session.3] lists are filtered, paged and carry no states', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const session = await manager.session('s');
    for (let i = 0; i < 25; i++) {
      await session.save(
        { i },
        { type: i % 2 === 0 ? 'auto' : 'manual', status: `S${i % 3}`, metadata: { i, 'odd "key"': true } },
      );
    }
    const seen: number[] = [];
    let cursor: string | undefined;
    do {
      const page = await manager.list(
        { sessionId: 's', type: 'auto' },
        { limit: 5, ...(cursor !== undefined && { cursor }) },
      );
      seen.push(...page.checkpoints.map(({ sequence }) => sequence));
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    expect(seen).toEqual([25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1]);
    expect((await manager.list({ metadata: { i: 7 } })).checkpoints).toHaveLength(1);
    expect((await manager.list({ metadata: { 'odd "key"': true, i: 3 }, status: 'S0' })).checkpoints).toHaveLength(1);
    expect(await manager.latest({ status: 'S1' })).toMatchObject({ sequence: 23 });
    await expect(manager.list({}, { limit: 0 })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expect(manager.list({}, { cursor: 'x' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await manager.close();
  });
});

test('[whole.1] a storage with three methods is enough to save, load, list, fork and compare', async () => {
  const rows = new Map<string, string>();
  const storage: CheckpointStorage = {
    async save(checkpoint) {
      rows.set(checkpoint.id, JSON.stringify(checkpoint));
      return checkpoint.id;
    },
    async load(id) {
      const row = rows.get(id);
      return row === undefined ? null : Checkpoint.fromJSON(JSON.parse(row));
    },
    async listByUser(userId, limit, offset) {
      const all = [...rows.values()]
        .map((row) => JSON.parse(row) as CheckpointJson)
        .filter((row) => row.userId === userId);
      return all
        .toReversed()
        .slice(offset, offset + limit)
        .map((row) => Checkpoint.fromJSON(row));
    },
  };
  const manager = new CheckpointManager({ storage });
  const state = { at: new Date(9), messages: Array.from({ length: 100 }, (_, i) => ({ i, text: 'text '.repeat(80) })) };
  const first = await manager.save(state, { userId: 'u' });
  state.messages.push({ i: 100, text: 'new' });
  const second = await manager.save(state, { userId: 'u' });
  const other = new CheckpointManager({ storage });
  expect(await other.load(second)).toEqual(state);
  expect((await other.listByUser('u')).map(({ id }) => id)).toEqual([second, first]);
  expect((await other.compare(first, second)).changedFields).toEqual(['$.messages[100]']);
  const restored = await other.restore<typeof state>(first);
  restored.messages.pop();
  expect((await other.get(await other.save(restored)))?.parentId).toBe(first);
  await expect(other.session('x')).rejects.toMatchObject({ code: 'UNSUPPORTED' });
  rows.set(first, (rows.get(first) ?? '').replace('text text', 'test text'));
  await expect(new CheckpointManager({ storage }).load(first)).rejects.toMatchObject({ code: 'CORRUPT' });
});

test('[save.6] frozen states are saved by identity; freeze: true freezes what was saved', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await manager.session('s', { freeze: true });
  const state = { messages: [{ text: 'a' }] };
  await session.save(state);
  expect(() => state.messages.push({ text: 'b' })).toThrow(TypeError);
  const next = { messages: [...state.messages, { text: 'b' }] };
  expect(await manager.load(await session.save(next))).toEqual({ messages: [{ text: 'a' }, { text: 'b' }] });
});

test('[save.6] shadows are bounded over all sessions; a session without one saves the same', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), shadowBudgetBytes: 10_000 });
  const big = { text: Array.from({ length: 50 }, (_, i) => `line ${i} `.repeat(40)) };
  const [one, two] = [await manager.session('1'), await manager.session('2')];
  const ids: string[] = [];
  for (let i = 0; i < 3; i++) {
    big.text.push(`more ${i}`);
    ids.push(await one.save(big), await two.save(big));
  }
  expect(await manager.load(ids[5] ?? '')).toEqual(big);
  expect(await manager.verify()).toMatchObject({ status: 'clean' });
});

test('[restore.4] an instance without a field that can be read, and without saveState, is refused: there is nothing to save', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  class Closed {
    #notes = ['private'];
    read = undefined as unknown;
    constructor() {
      Object.defineProperty(this, 'read', { value: () => this.#notes, enumerable: false });
    }
  }
  const nothing = { code: 'INVALID_INPUT', message: expect.stringContaining('there is nothing to save') };
  await expect(manager.save(new Closed(), { sessionId: 's' })).rejects.toMatchObject(nothing);
  await expect(
    new Workers(manager).saveGroup([{ name: 'a', agent: new Closed() }], { groupId: 'g' }),
  ).rejects.toMatchObject(nothing);
  expect(await manager.save({}, { sessionId: 's' })).toMatch(/^chk_/);
});

test('[restore.4] an agent may say itself what its state is, and what it could not take back', async () => {
  class Tool {
    id = 'tool';
    connection = () => 'open';
    settings = { retries: 3 };
    saveState() {
      return { settings: this.settings };
    }
    loadState(state: unknown) {
      this.settings = (state as { settings: { retries: number } }).settings;
      return [{ path: '$.connection', problem: 'The connection must be opened again.' }];
    }
  }
  const storage = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({ storage });
  const tool = new Tool();
  const id = await manager.save(tool);
  tool.settings = { retries: 9 };
  await manager.restore(id, { into: tool });
  expect(tool.settings).toEqual({ retries: 3 });
  expect(manager.reportOf(tool)).toMatchObject({ status: 'partial', problems: [{ path: '$.connection' }] });
  await expect(manager.restore(id)).rejects.toMatchObject({
    code: 'NOT_FOUND',
    message: expect.stringContaining('"Tool"'),
  });
  expect(await manager.restore(id, { factory: () => new Tool() })).toBeInstanceOf(Tool);
  const knowing = new CheckpointManager({ storage, agents: { Tool: () => new Tool() } });
  expect(await knowing.restore(id)).toBeInstanceOf(Tool);
  const known = await knowing.restore(id, { as: Tool });
  expectTypeOf(known).toEqualTypeOf<Tool>();
  await expect(knowing.restore(id, { as: Map })).rejects.toThrow('is of Tool, and Map was asked for with "as"');
});

test('[save.7] what a state or agent says about itself is recorded', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  class Form {
    id = 'form-1';
    status = 'WAITING';
    collectedFields: Record<string, unknown> = { name: 'Ann', at: new Date(3) };
    requiredFields = ['name', 'age'];
  }
  const form = new Form();
  expect(await manager.get(await manager.save(form))).toMatchObject({
    status: 'WAITING',
    requiredFields: ['name', 'age'],
    agentType: 'Form',
    sessionId: 'form-1',
  });
  await expect(manager.save(Object.freeze({ turn: 1 }))).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringContaining('session'),
  });
  const first = await manager.save(Object.freeze({ turn: 1 }), { sessionId: 'immutable' });
  const second = await manager.save(Object.freeze({ turn: 2 }), { sessionId: 'immutable' });
  expect((await manager.get(second))?.parentId).toBe(first);
});

test('[value.4] dates, errors, bytes and instances with a codec are states, not agents', async () => {
  class Point {
    readonly x: number;
    constructor(x: number) {
      this.x = x;
    }
  }
  const point = {
    tag: 'point',
    class: Point,
    encode: ({ x }: Point) => x,
    decode: (x: unknown) => new Point(x as number),
  };
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), classes: [point as never] });
  for (const value of [
    new Date(5),
    new TypeError('no'),
    Uint8Array.of(1, 2),
    new URL('http://a.example/'),
    new Point(3),
  ]) {
    expect(await manager.load(await manager.save(value))).toEqual(value);
  }
});

test('[session.1] an object stays with its session until the caller names another or the session is closed', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const state = { n: 1 };
  const first = await manager.save(state, { sessionId: 'one', userId: 'u' });
  const other = await manager.save(state, { sessionId: 'two' });
  expect((await manager.get(other))?.sessionId).toBe('two');
  const own = await manager.session('three');
  const third = await manager.save(state, { sessionId: 'three' });
  await own.close();
  state.n = 2;
  expect((await manager.get(await manager.save(state)))?.parentId).toBe(third);
  const restored = await manager.restore<{ n: number }>(first);
  restored.n = 7;
  expect(await manager.get(await manager.save(restored))).toMatchObject({
    userId: 'u',
    parentId: first,
    sessionId: 'one',
  });
});

test('[retention.13] a failure of retention after a save is told to the handler of errors; the save stands', async () => {
  const onHandlerError = vi.fn();
  const storage = new InMemoryCheckpointStorage();
  vi.spyOn(storage, 'deleteCheckpoints').mockRejectedValue(new Error('cannot delete'));
  const manager = new CheckpointManager({ storage, onHandlerError });
  const state = { n: 0 };
  for (let i = 0; i < 4; i++) await manager.save(state, { type: 'routine' });
  expect((await manager.list()).checkpoints).toHaveLength(4);
  expect(onHandlerError).toHaveBeenCalled(); // once for each run of retention that fails
});

test('[retention.5] another policy still protects running operations and follows the rules of types', async () => {
  let nowMs = Date.UTC(2026, 0, 1);
  const manager = new CheckpointManager({
    storage: new InMemoryCheckpointStorage(),
    now: () => nowMs,
    retention: { types: { debug: { keepLast: 1 } } },
  });
  const session = await manager.session('s');
  const running = await session.save({ n: 1 }, { type: 'pre_operation' });
  const debug = [await session.save({ n: 2 }, { type: 'debug' }), await session.save({ n: 3 }, { type: 'debug' })];
  await session.save({ n: 4 });
  expect(await manager.get(debug[0] ?? '')).toBeUndefined();
  nowMs += 100 * DAY_MS;
  expect(await manager.cleanupOldCheckpoints({ maxAgeDays: 30 })).toBe(1);
  expect((await manager.list()).checkpoints.map(({ id }) => id)).toContain(running);
});

test('[save.7] what a header says comes back as it was given', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const id = await manager.save(
    {},
    { metadata: { at: new Date(9), n: 5n, list: [1] }, fingerprint: new Map([['model', 'm']]) },
  );
  expect(await manager.get(id)).toMatchObject({
    metadata: { at: new Date(9), n: 5n, list: [1] },
    fingerprint: new Map([['model', 'm']]),
  });
  expect((await manager.list({ metadata: { at: new Date(9) } })).checkpoints).toHaveLength(1);
});

test('[session.5] a checkpoint that is deleted and collected while it is read is not found, rather than damaged', async () => {
  const inner = new InMemoryCheckpointStorage();
  const writer = new CheckpointManager({ storage: inner });
  const session = await writer.session('s');
  const old = await session.save({ text: Array.from({ length: 40 }, (_, i) => `line ${i} `.repeat(30)) });
  await session.save({ text: [] });
  const readReachable = async (digests: readonly never[]) => {
    await writer.delete(old);
    await writer.gc();
    return inner.readReachable(digests);
  };
  const reader = new CheckpointManager({
    storage: new Proxy(inner, {
      get: (target, name) => (name === 'readReachable' ? readReachable : bind(target, name)),
    }),
  });
  await expect(reader.load(old)).rejects.toMatchObject({ code: 'NOT_FOUND' });
});

test('[session.1] a state that cannot be known again says its session, or is refused', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  for (const state of [5, 'text', null, undefined, true, Object.freeze({ n: 1 })])
    await expect(manager.save(state)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('manager.session(id)'),
    });
  expect((await manager.list()).checkpoints).toEqual([]);
  await manager.save(5, { agentId: 'a' });
  await manager.save(6, { agentId: 'a' });
  await manager.save(7, { sessionId: 'a' });
  expect((await manager.list({ sessionId: 'a' })).checkpoints.map(({ sequence }) => sequence)).toEqual([3, 2, 1]);
});

function bind(target: object, name: string | symbol): unknown {
  const value: unknown = Reflect.get(target, name);
  return typeof value === 'function' ? value.bind(target) : value;
}

test.each(['throws', 'rejects'])('[save.8] an `onHandlerError` that %s is a warning beside the error', async (how) => {
  const warnings: string[] = [];
  const onWarning = ({ message }: Error) => void warnings.push(message);
  process.on('warning', onWarning);
  const onHandlerError = () => {
    if (how === 'rejects') return Promise.reject(new Error('of the receiver')) as unknown as undefined;
    throw new Error('of the receiver');
  };
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), onHandlerError });
  manager.on('checkpoint_saved', () => {
    throw new Error('of the handler');
  });
  await manager.save({ n: 5 });
  await vi.waitFor(() => expect(warnings).toHaveLength(2));
  process.off('warning', onWarning);
  expect(warnings).toEqual([expect.stringContaining('of the handler'), expect.stringContaining('of the receiver')]);
});
