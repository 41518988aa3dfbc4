import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { SqliteCheckpointStorage } from '../../storage/sqlite/sqlite-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { answerBranch } from '../revision/ref-name.ts';

const DAY_MS = 86_400_000;

async function idsOf(manager: CheckpointManager): Promise<string[]> {
  return (await manager.list()).checkpoints.map(({ sessionId }) => sessionId).sort();
}

describeOn(STORAGES)('limits on %s', (_, create) => {
  test('[retention.8] maxCheckpoints holds over sessions of one checkpoint each, the longest idle go first', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage, retention: { maxCheckpoints: 3 } });
    const deleted: [string, string][] = [];
    manager.on('checkpoint_deleted', (id, reason) => deleted.push([id, reason]));
    const agents = Array.from({ length: 6 }, (_, n) => ({ id: `a${n}`, n }));
    for (const agent of agents) await manager.save(agent);
    expect(await idsOf(manager)).toEqual(['a3', 'a4', 'a5']);
    expect(deleted).toHaveLength(3);
    expect(deleted[0]?.[1]).toBe('beyond the 3 kept in all: its session was idle longest');
    // One whose session was ended begins it anew.
    await manager.save(agents[0]);
    expect(await idsOf(manager)).toEqual(['a0', 'a4', 'a5']);
    const [newest] = (await manager.list()).checkpoints;
    expect(await manager.load(newest?.id ?? '')).toEqual({ id: 'a0', n: 0 });
    expect((await manager.verify()).findings).toEqual([]);
    await manager.close();
  });

  test('[retention.8] maxCheckpointsPerUser holds over sessions of one checkpoint each', async () => {
    const manager = new CheckpointManager({ storage: create().storage, retention: { maxCheckpointsPerUser: 2 } });
    for (let n = 0; n < 5; n++) await manager.save({ id: `a${n}`, userId: n === 0 ? 'u-2' : 'u-1' });
    expect(await idsOf(manager)).toEqual(['a0', 'a3', 'a4']);
    await manager.close();
  });

  test('[retention.1] tags, pins and leases keep their sessions; a dry run says so', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    for (const id of ['tagged', 'pinned', 'leased', 'idle', 'last']) await manager.save({ id }, { sessionId: id });
    const [last, idle, leased, pinned, tagged] = (await manager.list()).checkpoints;
    await manager.tag(tagged?.id ?? '', 'v1');
    await manager.pin(pinned?.id ?? '');
    const session = await manager.session('leased');
    await session.lease({ owner: 'worker-1' });
    const { verdicts } = await manager.prune({ policy: { maxCheckpoints: 1 }, dryRun: true });
    const reasons = new Map(verdicts.map(({ id, reason }) => [id, reason]));
    expect(verdicts.filter(({ keep }) => !keep).map(({ id }) => id)).toEqual([idle?.id]);
    expect(reasons.get(last?.id as never)).toBe('head of branch main');
    expect(reasons.get(leased?.id as never)).toBe('head of branch main; branch main is leased by worker-1');
    expect(reasons.get(tagged?.id as never)).toBe('head of branch main; tagged v1');
    await manager.prune({ policy: { maxCheckpoints: 1 } });
    expect(await idsOf(manager)).toEqual(['last', 'leased', 'pinned', 'tagged']);
    await manager.close();
  });

  test('[retention.7] age does not end what waits for somebody, and says so; a limit does', async () => {
    let now = Date.now();
    const manager = new CheckpointManager({ storage: create().storage, now: () => now });
    const asked = await manager.session('asked');
    await asked.save({ n: 1 }, { status: 'running' });
    await asked.save({ n: 2 }, { status: 'waiting_for_input' });
    const over = await manager.session('over');
    await over.save({ n: 1 }, { status: 'waiting' });
    const ended = await over.save({ n: 2 }, { status: 'completed' });
    await manager.save({ id: 'resting', status: 'waiting_for_input' });
    const left = await manager.session('left'); // rewound, and forgotten
    const first = await left.save({ n: 1 });
    await left.save({ n: 2 }, { status: 'waiting_for_approval' });
    await manager.rewind(first);
    now += 40 * DAY_MS;
    const { verdicts } = await manager.prune({ policy: { maxAgeDays: 30 } });
    expect(verdicts.filter(({ keep }) => keep).map(({ reason }) => reason)).toEqual([
      'head of branch main; still waits: status waiting_for_approval',
      expect.stringMatching(/^head of branch /),
      'head of branch main; still waits: status waiting_for_input',
    ]);
    expect(await idsOf(manager)).toEqual(['asked', 'left', 'left']);
    await expect(manager.load(ended)).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringMatching(/Retention ended it on .*: its session was not saved to for 30 days\.$/),
    });
    await manager.prune({ policy: { maxCheckpoints: 1 } });
    expect(await idsOf(manager)).not.toContain('asked');
    expect((await manager.verify()).findings).toEqual([]);
    await manager.close();
  });

  test('[retention.7] an answer goes only with its branch; a run that was answered waits to be resumed', async () => {
    let now = Date.now();
    const manager = new CheckpointManager({ storage: create().storage, now: () => now });
    const branchesOf = async (id: string) => (await manager.branches(id)).map(({ branch }) => branch).sort();
    const answer = (at: string, branch: string) =>
      manager.fork(at, { branch: answerBranch(branch, 'step/ok'), edit: (state) => ({ ...(state as object), ok: 1 }) });
    const killed = await manager.save({ n: 1 }, { sessionId: 'killed', status: 'running' });
    await answer(killed, 'main');
    await answer(await manager.save({ n: 1 }, { sessionId: 'over' }), 'main');
    await manager.save({ n: 2 }, { sessionId: 'over', status: 'completed' });
    const tagged = await manager.save({ n: 1 }, { sessionId: 'tagged' });
    await manager.tag(tagged, 'v1');
    await answer(tagged, 'main');
    await manager.fork(tagged, { branch: 'a/b', edit: [{ op: 'add', path: '/x', value: 1 }] });
    const [side] = (await manager.list({ sessionId: 'tagged', branch: 'a/b' })).checkpoints;
    await answer(side?.id ?? '', 'a/b');
    for (const branch of ['a/b', 'main']) {
      const session = await manager.session('tagged', { branch });
      await session.save({ n: 3 });
      await session.close();
    }
    now += 40 * DAY_MS;
    const { verdicts } = await manager.prune({ policy: { maxAgeDays: 30 } });
    expect(verdicts.find(({ id }) => id === killed)?.reason).toBe(
      'head of branch main; still waits: answered, and not resumed since',
    );
    expect(await branchesOf('killed')).toEqual(['answer/main/step/ok', 'main']);
    expect(await branchesOf('tagged')).toEqual(['answer/main/step/ok', 'main']);
    expect(await idsOf(manager)).not.toContain('over');
    await manager.close();
  });

  test('[retention.8] in the session saved to last a limit takes no answer that is newer than its run', async () => {
    const manager = new CheckpointManager({ storage: create().storage });
    const asked = await manager.save({ n: 1 }, { sessionId: 's', status: 'waiting' });
    const answer = (at: string, requestId: string) =>
      manager.fork(at, { branch: answerBranch('main', requestId), edit: () => ({ [requestId]: 'no' }) });
    for (const requestId of ['a', 'b']) await answer(asked, requestId);
    await manager.prune({ policy: { maxCheckpoints: 1 } });
    expect(await manager.branches('s')).toHaveLength(3);
    await answer(await manager.save({ n: 2 }, { sessionId: 's' }), 'c');
    await manager.prune({ policy: { maxCheckpoints: 1 } });
    const left = (await manager.branches('s')).map(({ branch }) => branch).sort();
    expect(left).toEqual(['answer/main/c', 'main']); // the run went on with the others
    await manager.close();
  });

  test('[retention.14] one session is pruned alone; what its agent saved elsewhere counts', async () => {
    const manager = new CheckpointManager({ storage: create().storage, retention: { types: { routine: {} } } });
    const save = (sessionId: string, agentId: string) => manager.save({}, { sessionId, agentId, type: 'routine' });
    const kept = [await save('here', 'a'), await save('there', 'b'), await save('there', 'b')];
    kept.push(await save('here', 'a'), await save('there', 'a'), await save('there', 'a'));
    const policy = { types: { routine: { keepLast: 1 } } };
    const { verdicts, deleted } = await manager.prune({ sessionId: 'here', policy });
    expect(verdicts.map(({ id, reason }) => [kept.indexOf(id), reason])).toEqual([
      [3, 'head of branch main'],
      [0, 'routine: 4th newest of agent a, 1 are kept'],
    ]);
    expect(deleted).toEqual([kept[0]]);
    expect(await idsOf(manager)).toEqual(['here', 'there', 'there', 'there', 'there']);
    await manager.close();
  });

  test('[retention.14] limits given for a session count in it; those of the manager are for all', async () => {
    const manager = new CheckpointManager({ storage: create().storage, retention: { maxCheckpoints: 100 } });
    for (const id of ['a', 'b']) for (let n = 0; n < 3; n++) await manager.save({ n }, { sessionId: id });
    const other = new CheckpointManager({ storage: manager.engine.storage, retention: { maxCheckpoints: 1 } });
    expect((await other.prune({ sessionId: 'a' })).deleted).toEqual([]);
    expect((await other.prune({ sessionId: 'a', policy: { maxCheckpoints: 2 }, dryRun: true })).deleted).toEqual([]);
    expect((await other.prune({ sessionId: 'a', policy: { maxCheckpoints: 2 } })).deleted).toHaveLength(1);
    expect(await idsOf(manager)).toEqual(['a', 'a', 'b', 'b', 'b']);
    await expect(other.prune({ sessionId: '' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await manager.close();
  });

  test('[retention.7] maxAgeDays ends idle sessions with all that is in them, and forgotten branches', async () => {
    let nowMs = Date.UTC(2026, 0, 1);
    const manager = new CheckpointManager({ storage: create().storage, now: () => nowMs });
    for (const id of ['idle', 'busy']) {
      const session = await manager.session(id);
      await session.step('work', () => 1);
      for (let n = 0; n < 3; n++) await session.save({ n });
      await session.close();
    }
    const [head] = (await manager.list({ sessionId: 'busy' })).checkpoints;
    await manager.fork(head?.id ?? '', { branch: 'forgotten', edit: [{ op: 'add', path: '/x', value: 1 }] });
    nowMs += 40 * DAY_MS;
    await (await manager.session('busy')).save({ n: 4 });
    expect(await manager.cleanupOldCheckpoints({ maxAgeDays: 30 })).toBe(7);
    expect(await idsOf(manager)).toEqual(['busy']);
    expect((await manager.branches('busy')).map(({ branch }) => branch)).toEqual(['main']);
    expect((await manager.stats()).sessions).toBe(1);
    expect((await manager.verify()).findings).toEqual([]);
    await manager.close();
  });

  test('[retention.7] a branch with an open session stays, busy or idle, and goes once that is closed', async () => {
    let nowMs = Date.UTC(2026, 0, 1);
    const manager = new CheckpointManager({ storage: create().storage, now: () => nowMs });
    const main = await manager.session('s');
    const root = await main.save({ n: 0 });
    const open = async (branch: string) => {
      await manager.fork(root, { branch, edit: [{ op: 'add', path: '/x', value: branch }] });
      return manager.session('s', { branch });
    };
    const [idle, busy, closed] = [await open('idle'), await open('busy'), await open('closed')];
    await closed.close();
    nowMs += 40 * DAY_MS;
    await main.save({ n: 1 });
    let goOn = (): void => undefined;
    const after = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const saving = busy.save({ n: 2 }, { after });
    await manager.cleanupOldCheckpoints({ maxAgeDays: 30 });
    expect((await manager.branches('s')).map(({ branch }) => branch).toSorted()).toEqual(['busy', 'idle', 'main']);
    goOn();
    await saving;
    await idle.save({ n: 3 });
    expect([await busy.load('@'), await idle.load('@')]).toEqual([{ n: 2 }, { n: 3 }]);
    expect((await manager.verify({ readData: true })).findings).toEqual([]);
    await manager.close();
  });

  test('[retention.8] a session that another process saves to while it is judged stays', async () => {
    const { storage, reopen } = create();
    const other = reopen?.() ?? storage;
    const manager = new CheckpointManager({ storage });
    for (const id of ['a', 'b']) await manager.save({ id }, { sessionId: id });
    const session = await new CheckpointManager({ storage: other }).session('a');
    const listed = storage.deleteSession.bind(storage);
    storage.deleteSession = async (...args) => {
      await session.save({ more: true });
      return listed(...args);
    };
    await manager.prune({ policy: { maxCheckpoints: 1 } });
    expect((await manager.list({ sessionId: 'a' })).checkpoints.length).toBeGreaterThan(0);
    expect(session.head?.sequence).toBe(2);
    if (other !== storage) await other.close();
    await manager.close();
  });

  test('[retention.13] a session that begins anew on another branch than main is opened there next', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('s', { initial: { n: 0 } });
    await session.save({ n: 1 });
    await session.rewind('@');
    await session.save({ n: 2 });
    await manager.deleteSession('s');
    await session.save({ n: 3 });
    await session.save({ n: 4 });
    expect(await manager.currentBranch('s')).toBe(session.branch);
    const next = await new CheckpointManager({ storage }).session('s', { initial: { n: 0 } });
    expect([next.state, next.head?.sequence]).toEqual([{ n: 4 }, 2]);
    await manager.close();
  });

  test('[retention.13] a session that another manager deleted refuses one save, and begins anew with the next', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('s', { onConflict: 'error' });
    const state = { list: Array.from({ length: 2000 }, (_, n) => `item ${n}`) };
    await session.save(state);
    await new CheckpointManager({ storage }).deleteSession('s');
    await manager.gc();
    await expect(session.save({ ...state, n: 1 })).rejects.toMatchObject({ code: 'CONFLICT' });
    const id = await session.save({ ...state, n: 2 });
    expect(await manager.load(id)).toEqual({ ...state, n: 2 });
    expect((await manager.verify({ readData: true })).findings).toEqual([]);
    await manager.close();
  });
});

describe('[retention.12] maxCheckpoints of the storage in memory', () => {
  test('frees what it drops, and keeps tombstones within the same limit', async () => {
    const storage = new InMemoryCheckpointStorage({ maxCheckpoints: 10 });
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('s');
    for (let n = 0; n < 400; n++) await session.save({ text: `${n} `.repeat(2000) });
    await manager.list();
    const { bytes, checkpoints, tombstones } = await storage.stats();
    expect(checkpoints).toBe(10);
    expect(tombstones).toBeLessThan(20);
    expect(bytes).toBeLessThan(20 * 10_000);
    expect((await manager.verify({ readData: true })).findings).toEqual([]);
    expect(await manager.pathToRoot(session.head?.id ?? '')).not.toHaveLength(0);
  });

  test('what is left can be walked, exported and brought into a storage with a limit', async () => {
    const fill = new CheckpointManager({ storage: new InMemoryCheckpointStorage({ maxCheckpoints: 5 }) });
    const bounded = new CheckpointManager({ storage: new InMemoryCheckpointStorage({ maxCheckpoints: 5 }) });
    const session = await fill.session('s');
    for (let n = 0; n < 60; n++) {
      await session.save({ n }, { type: n % 2 === 0 ? 'routine' : 'auto', agentId: 'a' });
      if (n % 20 === 10) await session.tag(`v${n}`);
      if (n % 15 === 14) await session.rewind('@~1');
    }
    expect((await fill.tree('s')).roots).toHaveLength(1);
    const lines: string[] = [];
    for await (const line of fill.exportSession('s')) lines.push(line);
    await bounded.importSession(Readable.from(lines));
    const copy = await bounded.session('s');
    for (let n = 0; n < 20; n++) await copy.save({ n });
    expect((await bounded.tree('s')).roots).toHaveLength(1);
    for (const manager of [fill, bounded]) expect((await manager.verify()).findings).toEqual([]);
  });

  test('also of sessions that end', async () => {
    const storage = new InMemoryCheckpointStorage({ maxCheckpoints: 10 });
    const manager = new CheckpointManager({ storage });
    for (let n = 0; n < 200; n++) await manager.save({ id: `a${n}`, text: `${n} `.repeat(2000) });
    await manager.list();
    const { bytes, sessions } = await storage.stats();
    expect(sessions).toBe(10);
    expect(bytes).toBeLessThan(20 * 10_000);
  });
});

test('[input.1] limits of storages that are no whole number of 1 or more are refused where they are given', () => {
  for (const max of [Number.NaN, -1, 0, 1.5, Number.POSITIVE_INFINITY, '5' as never]) {
    expect(() => new InMemoryCheckpointStorage({ maxCheckpoints: max })).toThrow(/whole number of 1 or more/);
    expect(() => new SqliteCheckpointStorage({ path: 'x.db', maxCheckpointsPerUser: max })).toThrow(
      /whole number of 1 or more/,
    );
  }
  expect(() => new InMemoryCheckpointStorage({ maxCheckpoint: 1 } as never)).toThrow(/did you mean "maxCheckpoints"/);
});
