import { expect, test } from 'vitest';
import { describeOn } from '../../test/support/later.ts';
import { isSameValue } from '../../test/support/same-value.ts';
import { STORAGES } from '../../test/support/storages.ts';
import type { ChunkStorage } from '../storage/contract.ts';
import type { CheckpointManagerOptions } from './call-options.ts';
import { CheckpointManager } from './checkpoint-manager.ts';

function createManager(storage: ChunkStorage, options: Partial<CheckpointManagerOptions> = {}): CheckpointManager {
  return new CheckpointManager({ storage, ...options });
}

class Counter {
  id = 'counter-1';
  userId = 'user_1';
  status = 'RUNNING';
  count = 0;
  readonly history: string[] = [];

  add(note: string): void {
    this.count++;
    this.history.push(note);
  }
}

/** Values of the closed set that carry something which their stored form cannot hold. */
function withExtras(): object[] {
  const values = () => [
    new Map([[1, 2]]),
    new Set([1]),
    new Date(5),
    new Uint8Array(2),
    new Float64Array(100),
    new DataView(new ArrayBuffer(2)),
    Buffer.from('x'),
    /x/,
    new URL('http://a'),
    new ArrayBuffer(2),
  ];
  const symbol = { [Symbol('extra')]: 1 };
  return [
    ...values().map((value) => Object.assign(value, { extra: 1 })),
    ...[...values(), new Error('x')].map((value) => Object.assign(value, symbol)),
  ];
}

function detached(): ArrayBuffer {
  const buffer = new ArrayBuffer(2);
  structuredClone(buffer, { transfer: [buffer] });
  return buffer;
}

function fail(): never {
  throw new TypeError('not today');
}

describeOn(STORAGES)('CheckpointManager on %s', (_, create) => {
  test('[save.1] save and restore bring back what was there', async () => {
    const manager = createManager(create().storage, { agents: { Counter: () => new Counter() } });
    const agent = new Counter();
    agent.add('one');
    const first = await manager.save(agent);
    agent.add('two');
    const second = await manager.save(agent, { note: 'after two', metadata: { at: new Date(5) } });
    const restored = await manager.restore<Counter>(first);
    expect(restored).toBeInstanceOf(Counter);
    expect(restored).toMatchObject({ count: 1, history: ['one'] });
    expect(manager.reportOf(restored)).toMatchObject({ status: 'complete', problems: [] });
    expect(await manager.get(second)).toMatchObject({
      parentId: first,
      sequence: 2,
      agentType: 'Counter',
      status: 'RUNNING',
    });
    await manager.close();
  });

  test('[save.2] a state may be changed as soon as save was called', async () => {
    const manager = createManager(create().storage);
    const state = { list: [1] };
    const saves = [manager.save(state)];
    state.list.push(2);
    saves.push(manager.save(state));
    state.list.push(3);
    const [first = '', second = ''] = await Promise.all(saves);
    expect(await manager.load(first)).toEqual({ list: [1] });
    expect(await manager.load(second)).toEqual({ list: [1, 2] });
    expect((await manager.get(second))?.parentId).toBe(first);
    await manager.close();
  });

  test('[restore.1] saving a restored older checkpoint goes on in a branch of its own', async () => {
    const manager = createManager(create().storage);
    const state = { turn: 1 };
    const first = await manager.save(state, { sessionId: 's' });
    state.turn = 2;
    const second = await manager.save(state);
    const old = await manager.restore<{ turn: number }>(first);
    expect((await manager.branches('s')).map(({ branch }) => branch)).toEqual(['main']);
    old.turn = 10;
    const forked = await manager.save(old);
    expect((await manager.get(forked))?.parentId).toBe(first);
    expect(await manager.branches('s')).toMatchObject([
      { branch: 'fork-1', headId: forked },
      { branch: 'main', headId: second },
    ]);
    await manager.close();
  });

  test('[restore.1] the branch that a restored agent is saved to is the current one from then on', async () => {
    const manager = createManager(create().storage);
    const agent = { agentId: 'x', n: 'good' };
    const good = await manager.save(agent);
    agent.n = 'drifted';
    const drifted = await manager.save(agent);
    await manager.restore(good);
    await manager.restore(good, { into: agent });
    expect(await manager.currentBranch('x')).toBe('main');
    agent.n = 'good work';
    const back = await manager.save(agent);
    expect(await manager.currentBranch('x')).toBe('fork-1');
    expect((await manager.session('x')).state).toMatchObject({ n: 'good work' });
    expect((await manager.latest({ agentId: 'x' }))?.id).toBe(back);
    const next = await manager.save({ agentId: 'x', n: 'of another object' });
    expect((await manager.get(next))?.parentId).toBe(back);
    await manager.restore(drifted, { into: agent });
    await manager.save(agent);
    expect(await manager.currentBranch('x')).toBe('main');
    await manager.close();
  });

  test('[restore.1] after a rewind, what is restored from the current branch is saved there', async () => {
    const manager = createManager(create().storage);
    const agent = { agentId: 'x', n: 1 };
    const first = await manager.save(agent);
    agent.n = 2;
    await manager.save(agent);
    const { branch } = await manager.rewind(first);
    const back = await manager.restore<{ n: number }>({ sessionId: 'x', at: '@' });
    back.n = 3;
    const next = await manager.open(await manager.save(back));
    expect([next.branch, next.parentId, await manager.currentBranch('x')]).toEqual([branch, first, branch]);
    expect(await manager.branches('x')).toHaveLength(2);
    await manager.close();
  });

  test('[session.1] a session is resumed where it was left', async () => {
    const { storage, reopen } = create();
    const manager = createManager(storage);
    const session = await manager.session('chat');
    expect(session.state).toBeUndefined();
    await session.save({ messages: ['a'] });
    await session.save({ messages: ['a', 'b'] });
    if (reopen === undefined) return manager.close();
    await manager.close();
    const again = createManager(reopen());
    const resumed = await again.session('chat');
    expect(resumed.state).toEqual({ messages: ['a', 'b'] });
    expect(resumed.head?.sequence).toBe(2);
    await resumed.save({ messages: ['a', 'b', 'c'] });
    expect(resumed.head?.sequence).toBe(3);
    await again.close();
  });

  test('[save.3] two writers on one branch: the second is told, or gets a branch of its own; nothing is lost', async () => {
    const manager = createManager(create().storage);
    const one = await manager.session('s');
    await one.save({ n: 1 });
    const two = await manager.session('s');
    const three = await manager.session('s', { onConflict: 'branch' });
    const kept = await two.save({ n: 2 });
    await expect(one.save({ n: 3 })).rejects.toMatchObject({ code: 'CONFLICT' });
    const branched = await three.save({ n: 4 });
    expect(three.branch).not.toBe('main');
    expect(await manager.load(kept)).toEqual({ n: 2 });
    expect(await manager.load(branched)).toEqual({ n: 4 });
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 3 });
    await manager.close();
  });

  test('[secret.1] a reason is stored without secrets, a step name or key with one is refused', async () => {
    const { storage } = create();
    const manager = createManager(storage);
    const session = await manager.session('s');
    const key = `sk-${'ant'}-api03-${'Ab3'.repeat(30)}`;
    const id = await session.save({ n: 1 });
    await session.save({ n: 2 });
    await manager.delete(id, { reason: `leaked ${key}` });
    await expect(manager.load(id)).rejects.toThrow('leaked [secret anthropic_key]');
    await expect(session.step(`call ${key}`, () => 1)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expect(session.save({ n: 3 }, { idempotencyKey: key })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await manager.close();
  });

  test('[value.5] what cannot be saved is named by its path, and nothing is written', async () => {
    const manager = createManager(create().storage);
    const failures: unknown[] = [];
    manager.on('save_failed', (error) => failures.push(error));
    const session = await manager.session('s');
    await session.save({ ok: true });
    const cyclic: Record<string, unknown> = {};
    cyclic.self = { inner: cyclic };
    for (const [state, path] of [
      [{ messages: [{ at: () => 1 }] }, '$.messages[0].at'],
      [{ 'odd key': Symbol('x') }, '$["odd key"]'],
      [{ agent: new (class Odd {})() }, '$.agent'],
      [cyclic, '$.self.inner'],
      [{ list: Object.assign([], { 2: 'after two holes' }) }, '$.list'],
      [{ list: Object.assign([1], { [Symbol('x')]: 1 }) }, '$.list'],
      ...withExtras().map((value) => [{ deep: [{ value }] }, '$.deep[0].value'] as const),
      [{ a: Reflect.construct(ArrayBuffer, [2, { maxByteLength: 4 }]) }, '$.a'],
      [{ a: detached() }, '$.a'],
      [{ a: new Proxy(new Map(), {}) }, '$.a'],
      [{ a: Object.defineProperty({}, 'b', { enumerable: true, get: fail }) }, '$.a'],
    ] as const) {
      await expect(session.save(state)).rejects.toMatchObject({ code: 'INVALID_INPUT', details: { path } });
    }
    expect(failures).toHaveLength(10 + withExtras().length);
    await session.save({ ok: 'still' });
    expect(session.head?.sequence).toBe(2);
    expect((await manager.stats()).checkpoints).toBe(2);
    await manager.close();
  });

  test('[session.2] fork, edit, compare, rewind: the origin stays as it was', async () => {
    const manager = createManager(create().storage);
    const session = await manager.session('s');
    const messages = Array.from({ length: 40 }, (_, i) => ({ id: i, text: `message ${i} `.repeat(10) }));
    const first = await session.save({ messages, plan: { step: 1 } }, { status: 'RUNNING' });
    const edited = await manager.fork(first, {
      branch: 'what-if',
      edit: [{ op: 'replace', path: '/messages/3/text', value: 'changed' }],
      author: 'ann',
      reason: 'try another answer',
    });
    expect(await manager.get(edited.headId)).toMatchObject({
      author: 'ann',
      reason: 'try another answer',
      parentId: first,
      branch: 'what-if',
    });
    const difference = await manager.compare(first, edited.headId);
    expect(difference).toMatchObject({
      changedFields: ['$.messages[3].text'],
      oldStatus: 'RUNNING',
      newStatus: 'RUNNING',
    });
    expect(difference.modified[0]).toMatchObject({ newValue: 'changed', oldValue: messages[3]?.text });
    expect(isSameValue(await manager.load(first), { messages, plan: { step: 1 } })).toBe(true);
    await session.save({ messages: [], plan: { step: 2 } });
    expect(await manager.currentBranch('s')).toBe('main');
    const back = await manager.rewind(first);
    expect(await manager.currentBranch('s')).toBe('rewind-1');
    expect(back).toMatchObject({ branch: 'rewind-1', headId: first });
    expect((await manager.session('s')).branch).toBe('rewind-1');
    const tree = await manager.tree('s');
    expect(tree.nodes.get(first)?.children).toHaveLength(2);
    expect(tree.roots).toEqual([first]);
    expect((await manager.children(first)).map(({ branch }) => branch)).toEqual(['what-if', 'main']);
    expect(await manager.pathToRoot(edited.headId)).toHaveLength(2);
    await manager.close();
  });

  test('[input.4] short ids resolve if unique; otherwise the candidates are named', async () => {
    const manager = createManager(create().storage);
    const id = await manager.save({ a: 1 });
    await manager.save({ b: 1 });
    expect(await manager.load(id.slice(0, 26))).toEqual({ a: 1 });
    expect(await manager.open(id.slice(0, 26))).toEqual(await manager.get(id));
    await expect(manager.open('chk_0')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(manager.load('chk_0')).rejects.toMatchObject({
      code: 'NOT_FOUND',
      details: { candidates: expect.arrayContaining([id]) },
    });
    await expect(manager.load('chk_zzz')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(manager.load('../../etc/passwd')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await manager.close();
  });

  test('[session.4] an exported session is imported elsewhere unchanged, and a damaged file brings nothing in', async () => {
    const manager = createManager(create().storage);
    const session = await manager.session('s');
    for (let i = 0; i < 30; i++)
      await session.save({ messages: Array.from({ length: i }, (_, k) => ({ k, text: 'text '.repeat(60) })) });
    await session.step('call', () => ({ answer: 42 }));
    const head = session.head?.id ?? '';
    await manager.fork(head, { branch: 'b' });
    await manager.delete((await manager.list({}, { order: 'oldest' })).checkpoints[3]?.id ?? '');
    const lines: string[] = [];
    for await (const line of manager.exportSession('s')) lines.push(line);
    const other = createManager(create().storage);
    expect(await other.importSession(toStream(lines))).toMatchObject({ sessionId: 's', checkpoints: 29, effects: 1 });
    expect(await other.load(head)).toEqual(await manager.load(head));
    expect(await other.verify()).toMatchObject({ status: 'clean', tombstones: 1 });
    await expect(other.importSession(toStream(lines))).rejects.toMatchObject({ code: 'CONFLICT' });
    const third = createManager(create().storage);
    for (const damaged of [
      lines.slice(0, -1),
      lines.toSpliced(5, 1),
      lines.with(9, (lines[9] ?? '').replace('text', 'tixt')),
    ]) {
      await expect(third.importSession(toStream(damaged))).rejects.toMatchObject({ code: 'CORRUPT' });
      expect(await third.stats()).toMatchObject({ checkpoints: 0, sessions: 0 });
    }
    await Promise.all([manager.close(), other.close(), third.close()]);
  });

  test('[save.2] saves of an object are stored in the order of the calls, also while its session opens', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const agent = { agentId: 'a', n: 0 };
    const saves = [manager.save(agent)];
    for (let turn = 0; turn < 60; turn++) {
      await Promise.resolve();
      agent.n++;
      saves.push(manager.save(agent));
    }
    await Promise.all(saves);
    expect(await manager.load((await manager.latest({ sessionId: 'a' }))?.id ?? '')).toEqual({ agentId: 'a', n: 60 });
    await manager.close();
  });
});

async function* toStream(lines: readonly string[]): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(lines.join(''));
  for (let at = 0; at < bytes.length; at += 1000) yield bytes.subarray(at, at + 1000);
}
