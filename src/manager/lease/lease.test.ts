import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { expect, onTestFinished, test, vi } from 'vitest';
import { TestClock } from '../../../test/support/clock.ts';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import type { ChunkStorage, RefChange } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { type FaultPlan, faultyStorage } from '../../testing/faulty-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { Workers } from '../workers/workers.ts';
import { formatDue, nameHolder } from './lease-refs.ts';

const TTL_MS = 30_000;

test('[lease.4] a lease of a process of this machine is taken over at once when that process is dead', async () => {
  const storage = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({ storage });
  const child = spawn(process.execPath, ['-e', 'console.log(1); setInterval(() => 0, 1000)']);
  onTestFinished(() => void child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  const session = await manager.session('s');
  await (await session.lease({ renew: 'manual' })).release();
  const held = await storage.commit({ sessionId: session.id, refs: await leaseOf(storage, Number(child.pid)) });
  expect(held.status).toBe('stored');
  const message = expect.stringContaining(`process ${child.pid}`);
  await expect(session.lease()).rejects.toMatchObject({ code: 'CONFLICT', message });
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(await session.lease()).toMatchObject({ epoch: 3, isHeld: true });
  await manager.close();
});

/** What a process writes that takes the lease of the branch. */
async function leaseOf(storage: ChunkStorage, pid: number): Promise<RefChange[]> {
  const [released] = await storage.readRefs({ kind: 'lease' });
  const ticks = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[19];
  const target = `2:${nameHolder('0123456789ab').replace(/[^/]+$/, `${pid}-${ticks}`)}`;
  expect(released?.target).toMatch(/^1:/);
  const due = formatDue({ dueAtMs: Date.now() + TTL_MS, attempts: 0 });
  return [
    { kind: 'lease', name: 'main', target },
    { kind: 'due', name: 'main', target: due },
  ];
}

describeOn(STORAGES)('leases on %s', (_, create) => {
  /** Two managers on one storage, as two processes have them; what the first one does may go wrong as planned. */
  function setUp() {
    const clock = new TestClock();
    const plan: FaultPlan = {};
    const { storage: given, reopen } = create();
    const storage = reopen === undefined ? keepOpen(given) : given;
    const manage = (given: ChunkStorage) =>
      new CheckpointManager({ storage: clock.watch(given), now: clock.now, setTimer: clock.setTimer });
    const here = manage(faultyStorage(storage, plan));
    const there = manage(reopen?.() ?? storage);
    const close = async () => {
      await here.close();
      await there.close();
    };
    return { clock, plan, here, there, storage, close };
  }

  test('[lease.1] a lease has one holder; another is told who has it, and until when', async () => {
    const { clock, here, there, close } = setUp();
    const session = await here.session('s');
    const lease = await session.lease({ ttlMs: TTL_MS, owner: 'worker:1' });
    expect(lease).toMatchObject({ epoch: 1, owner: 'worker:1', isHeld: true, sessionId: 's', branch: 'main' });
    expect(lease.expiresAtMs).toBe(clock.now() + TTL_MS);
    const other = await there.session('s');
    await expect(other.lease({ owner: 'worker:2' })).rejects.toMatchObject({
      code: 'CONFLICT',
      message: expect.stringMatching(/leased by "worker:1" \(process \d+\) until 2026-01-01T00:00:30/),
      details: { kind: 'lease', name: 'main', owner: 'worker:1', epoch: 1, expiresAtMs: lease.expiresAtMs },
    });
    await session.save({ n: 1 });
    const elsewhere = await there.fork(session.head?.id ?? '', { branch: 'elsewhere' });
    const fork = await there.session('s', { branch: elsewhere.branch });
    expect((await fork.lease()).epoch).toBe(1);
    await close();
  });

  test('[lease.2] epochs rise with every acquisition, whoever had it and however it ended', async () => {
    const { clock, here, there, close } = setUp();
    const one = await here.session('s');
    const two = await there.session('s');
    const epochs: number[] = [];
    for (const session of [one, two, one]) {
      const lease = await session.lease({ renew: 'manual', ttlMs: TTL_MS });
      epochs.push(lease.epoch);
      await lease.release();
    }
    epochs.push((await two.lease({ renew: 'manual', ttlMs: TTL_MS })).epoch);
    clock.skip(TTL_MS);
    epochs.push((await one.lease()).epoch);
    expect(epochs).toEqual([1, 2, 3, 4, 5]);
    await close();
  });

  test('[lease.3] who waits gets the lease when it is released or lapses, and gives up after its time or when told to', async () => {
    const { clock, here, there, close } = setUp();
    const first = await (await here.session('s')).lease({ ttlMs: TTL_MS, owner: 'first' });
    const waiting = (await there.session('s')).lease({ waitMs: 60_000, renew: 'manual', ttlMs: TTL_MS });
    await clock.pass(45_000);
    await first.release();
    await clock.pass(1_000);
    expect(await waiting).toMatchObject({ epoch: 2, isHeld: true });

    const third = (await here.session('s')).lease({ waitMs: 60_000 });
    await clock.pass(TTL_MS);
    expect(await third).toMatchObject({ epoch: 3 });

    const impatient = (await there.session('s')).lease({ waitMs: 5_000 });
    const refused = expect(impatient).rejects.toMatchObject({ code: 'CONFLICT', details: { epoch: 3 } });
    await clock.pass(6_000);
    await refused;

    const stop = new AbortController();
    const stopped = expect((await there.session('s')).lease({ waitMs: 5_000, signal: stop.signal })).rejects.toBe(
      'enough',
    );
    await clock.settle();
    stop.abort('enough');
    await stopped;
    await close();
  });

  test('[lease.4] after a takeover the former holder can neither save nor step, and is told who took over', async () => {
    const { clock, here, there, close } = setUp();
    const stale = await here.session('s', { onConflict: 'branch' });
    const lost = await stale.lease({ ttlMs: TTL_MS, owner: 'old', renew: 'manual' });
    await stale.save({ n: 1 });
    const begun = stale.step('slow', async () => {
      clock.skip(TTL_MS + 1); // paused
      const session = await there.session('s');
      await session.lease({ ttlMs: TTL_MS, owner: 'new' });
      return 'too late';
    });
    const fenced = {
      code: 'CONFLICT',
      message: expect.stringMatching(/taken over by "new" \(epoch 2\).*had epoch 1/),
      details: { kind: 'lease', name: 'main', epoch: 2, owner: 'new', ownEpoch: 1 },
    };
    await expect(begun).rejects.toMatchObject(fenced);
    await expect(stale.save({ n: 2 })).rejects.toMatchObject(fenced);
    let ran = false;
    const step = stale.step('next', () => {
      ran = true;
    });
    await expect(step).rejects.toMatchObject(fenced);
    expect(ran).toBe(false);
    expect(lost.isHeld).toBe(false);
    expect(lost.signal.reason).toMatchObject(fenced);
    await expect(lost.renew()).rejects.toMatchObject(fenced);
    await lost.release(); // nothing to release: the other one keeps it
    await expect((await here.session('s')).lease()).rejects.toMatchObject({ details: { owner: 'new' } });
    const fresh = await there.session('s');
    expect(fresh.state).toEqual({ n: 1 });
    expect(await fresh.step('slow', ({ attempt }) => attempt)).toBe(2);
    expect(stale.branch).toBe('main');
    expect((await there.branches('s')).map(({ branch }) => branch)).toEqual(['main']);
    await close();
  });

  test('[lease.4] a writer that did not notice yet is fenced by the storage, on the branch it went off to as well', async () => {
    const { clock, here, there, close } = setUp();
    const stale = await here.session('s', { onConflict: 'branch' });
    await stale.lease({ ttlMs: TTL_MS, renew: 'manual' });
    await stale.save({ n: 1 });
    await (await there.session('s')).save({ n: 'by someone without a lease' });
    await stale.save({ n: 2 });
    expect(stale.branch).toMatch(/^main~/);
    clock.skip(TTL_MS);
    const { epoch } = await (await there.session('s')).lease();
    expect(epoch).toBe(2);
    await expect(stale.save({ n: 3 })).rejects.toMatchObject({
      code: 'CONFLICT',
      details: { kind: 'lease', epoch: 2 },
    });
    await close();
  });

  test('[lease.5] a lease is renewed in the background, beside commits, as long as the storage can be reached', async () => {
    const { clock, here, there, close } = setUp();
    const session = await here.session('s');
    const lease = await session.lease({ ttlMs: TTL_MS });
    const saves: Promise<unknown>[] = [];
    for (let i = 0; i < 20; i++) {
      saves.push(
        session.save({ i }),
        session.step(`step ${i}`, () => i),
      );
      await clock.pass(5_000);
    }
    await Promise.all(saves);
    expect(lease).toMatchObject({ isHeld: true, epoch: 1 });
    expect(lease.expiresAtMs).toBeGreaterThan(clock.now());
    await expect((await there.session('s')).lease()).rejects.toMatchObject({ code: 'CONFLICT' });
    await close();
  });

  test('[lease.5] a renewal that fails is tried again until the time is up; then the lease is lost', async () => {
    const { clock, plan, here, there, close } = setUp();
    const session = await here.session('s');
    const lease = await session.lease({ ttlMs: TTL_MS });
    const reached = lease.expiresAtMs;
    plan.commits = { 2: 'fails', 3: 'loses_reply', 4: 'fails' };
    await clock.pass(20_000);
    expect(lease).toMatchObject({ isHeld: true });
    expect(lease.expiresAtMs).toBeGreaterThan(reached);
    plan.commits = new Proxy({}, { get: () => 'fails' });
    await clock.pass(TTL_MS + 5_000);
    expect(lease.isHeld).toBe(false);
    const lapsed = { code: 'CONFLICT', message: expect.stringContaining('lapsed'), details: { kind: 'lease' } };
    expect(lease.signal.reason).toMatchObject({ ...lapsed, cause: { code: 'STORAGE' } });
    plan.commits = {};
    await expect(session.save({ n: 1 })).rejects.toMatchObject(lapsed);
    expect(await (await there.session('s')).lease()).toMatchObject({ epoch: 2 });
    await close();
  });

  test('[lease.5] a process that was paused beyond its time has lost the lease when it wakes', async () => {
    const { clock, here, close } = setUp();
    const session = await here.session('s');
    const lease = await session.lease({ ttlMs: TTL_MS });
    clock.skip(TTL_MS + 1);
    expect(lease.isHeld).toBe(false);
    await clock.pass(0);
    await expect(session.save({ n: 1 })).rejects.toMatchObject({ code: 'CONFLICT', details: { kind: 'lease' } });
    await lease.release(); // what was lost at its work is still to be recovered
    expect(await new Workers(here).abandoned()).toMatchObject([{ sessionId: 's' }]);
    expect(await session.lease()).toMatchObject({ epoch: 2, isHeld: true });
    await session.save({ n: 1 });
    await close();
  });

  test('[lease.5] with manual renewal the holder says itself that it is alive', async () => {
    const { clock, here, there, close } = setUp();
    const lease = await (await here.session('s')).lease({ ttlMs: TTL_MS, renew: 'manual' });
    const other = await there.session('s');
    await clock.pass(20_000);
    await lease.renew();
    await clock.pass(20_000);
    await expect(other.lease()).rejects.toMatchObject({ code: 'CONFLICT' });
    await clock.pass(10_000);
    expect(lease.isHeld).toBe(false);
    expect(await other.lease()).toMatchObject({ epoch: 2 });
    await expect(lease.renew()).rejects.toMatchObject({ code: 'CONFLICT', details: { epoch: 2 } });
    await close();
  });

  test('[lease.6] release, and closing the session or the manager, let others have the lease at once', async () => {
    const { here, there, close } = setUp();
    const one = await here.session('s');
    const lease = await one.lease();
    await Promise.all([lease.release(), lease.release()]);
    await lease.release();
    expect(lease).toMatchObject({ isHeld: false, signal: { aborted: false } });
    await expect(lease.renew()).rejects.toMatchObject({ code: 'CLOSED' });
    await one.save({ n: 1 }); // as any session without a lease
    const two = await there.session('s');
    await two.lease();
    await two.close();
    await (await there.session('s')).lease();
    await there.close();
    expect(await one.lease()).toMatchObject({ epoch: 4 });
    expect(await new Workers(here).abandoned()).toEqual([]);
    await close();
  });

  test('[lease.6] a lease that comes after its session was closed is released again', async () => {
    const { clock, here, there, close } = setUp();
    const first = await (await here.session('s')).lease();
    const closing = await there.session('s');
    const waiting = expect(closing.lease({ waitMs: 10_000 })).rejects.toMatchObject({ code: 'CLOSED' });
    await clock.settle();
    await closing.close();
    await first.release();
    await clock.pass(2_000);
    await waiting;
    expect(await (await here.session('s')).lease()).toMatchObject({ epoch: 3 });
    await close();
  });

  test('[lease.6] asking again gives the same lease, renewed', async () => {
    const { clock, here, close } = setUp();
    const session = await here.session('s');
    const [lease, same] = await Promise.all([session.lease({ ttlMs: TTL_MS }), session.lease({ ttlMs: TTL_MS })]);
    expect(same).toBe(lease);
    await clock.pass(1_000);
    expect(await session.lease()).toBe(lease);
    expect(lease).toMatchObject({ epoch: 1, expiresAtMs: clock.now() + TTL_MS });
    await close();
  });

  test('[lease.1] a lease binds those who ask for one', async () => {
    const { here, there, close } = setUp();
    const leased = await here.session('s');
    await leased.lease();
    await leased.save({ n: 1 });
    await (await there.session('s')).save({ n: 2 });
    await expect(leased.save({ n: 3 })).rejects.toMatchObject({ code: 'CONFLICT', details: { kind: 'branch' } });
    await close();
  });

  test('[lease.1] a session that saved nothing yet can be leased, and is a session', async () => {
    const { here, there, close } = setUp();
    const session = await here.session('new', { branch: 'draft' });
    const lease = await session.lease();
    expect(await session.step('first', () => 1)).toBe(1);
    await expect((await there.session('new', { branch: 'draft' })).lease()).rejects.toMatchObject({ code: 'CONFLICT' });
    expect(await there.verify()).toMatchObject({ status: 'clean', sessions: 1 });
    await lease.release();
    await session.save({ n: 1 });
    await close();
  });

  test('[lease.4] what a step began under a lease is recorded under that lease only', async () => {
    const { here, there, close } = setUp();
    const session = await here.session('s');
    const lease = await session.lease();
    let finish: (value: string) => void = () => undefined;
    const answer = new Promise<string>((resolve) => {
      finish = resolve;
    });
    const slow = session.step('slow', () => answer);
    await lease.release();
    const other = await there.session('s');
    await other.lease();
    expect(await other.step('slow', () => 'by the other')).toBe('by the other');
    finish('late');
    await expect(slow).rejects.toMatchObject({ code: 'CONFLICT', details: { kind: 'lease' } });
    expect(await (await there.session('s')).step('slow', () => 'again')).toBe('by the other');
    await close();
  });

  test('[lease.7] leases are neither exported nor imported, and nothing else minds them', async () => {
    const { here, there, storage, close } = setUp();
    const session = await here.session('s');
    await session.lease({ owner: 'o' });
    await session.save({ n: 1 }, { userId: 'u', type: 'routine' });
    const lines: string[] = [];
    for await (const line of there.exportSession('s')) lines.push(line);
    expect(lines.join('')).not.toMatch(/"(lease|due)"/);
    expect(await there.verify()).toMatchObject({ status: 'clean' });
    expect((await there.prune({ policy: { maxCheckpoints: 1 } })).deleted).toEqual([]);
    await (await there.session('empty')).lease();
    await expect(there.exportSession('empty').next()).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(await there.clearUserHistory('u')).toBe(1);
    expect(await storage.readRefs({ sessionId: 's' })).toEqual([]);
    await expect(session.step('late', () => 1)).rejects.toMatchObject({
      code: 'CONFLICT',
      message: expect.stringContaining('deleted'),
      details: { kind: 'lease' },
    });
    await expect(session.save({ n: 2 })).rejects.toMatchObject({ code: 'CONFLICT' });
    await there.importSession(toStream(lines));
    expect((await storage.readRefs({ sessionId: 's' })).map(({ kind }) => kind)).toEqual(['branch']);
    await there.deleteSession('s');
    const forged = lines.with(-2, '{"ref":{"kind":"due","name":"main","target":"000000000000000:0"}}\n');
    await expect(there.importSession(toStream(forged))).rejects.toMatchObject({ code: 'CORRUPT' });
    await close();
  });

  test('[lease.7] deleting a branch fences its writer, keeps the epoch, and nothing is left to recover', async () => {
    const { clock, here, there, close } = setUp();
    const main = await here.session('s');
    await here.fork(await main.save({ n: 1 }), { branch: 'side' });
    const side = await here.session('s', { branch: 'side' });
    await side.lease({ ttlMs: TTL_MS });
    await there.deleteBranch('s', 'side');
    await expect(side.step('late', () => 1)).rejects.toMatchObject({ code: 'CONFLICT', details: { kind: 'lease' } });
    await clock.pass(TTL_MS);
    expect(await new Workers(there).abandoned()).toEqual([]);
    await there.fork(main.head?.id ?? '', { branch: 'side' });
    expect(await (await there.session('s', { branch: 'side' })).lease()).toMatchObject({ epoch: 2 });
    await close();
  });

  test('[lease.5] an answer that got lost on its way does not lose the lease', async () => {
    const { plan, here, there, close } = setUp();
    plan.commits = { 1: 'loses_reply', 2: 'loses_reply', 3: 'loses_reply' };
    const session = await here.session('s');
    const lease = await session.lease();
    await expect(lease.renew()).rejects.toMatchObject({ code: 'STORAGE' });
    expect(lease.isHeld).toBe(true);
    await lease.release();
    expect(await (await there.session('s')).lease()).toMatchObject({ epoch: 2 });
    await close();
  });
});

/** What is in memory has one object, which both managers use until the test ends. */
function keepOpen(storage: ChunkStorage): ChunkStorage {
  return Object.assign(storage, { close: async () => undefined });
}

async function* toStream(lines: readonly string[]): AsyncGenerator<string> {
  yield* lines;
}

test('[lease.5] the timers of the process renew it as well', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
  onTestFinished(() => void vi.useRealTimers());
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const lease = await (await manager.session('s')).lease({ ttlMs: TTL_MS });
  await vi.advanceTimersByTimeAsync(10 * TTL_MS);
  expect(lease).toMatchObject({ isHeld: true, epoch: 1 });
  const waiting = (await manager.session('s')).lease({ waitMs: TTL_MS });
  await lease.release();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(await waiting).toMatchObject({ epoch: 2 });
  await manager.close();
  expect(vi.getTimerCount()).toBe(0);
});

test('[lease.1] what is asked for is checked', async () => {
  const session = await new CheckpointManager({ storage: new InMemoryCheckpointStorage() }).session('s');
  for (const options of [{ ttlMs: 0 }, { ttlMs: 1.5 }, { ttlMs: 2 ** 31 }, { owner: '' }, { owner: 'x'.repeat(300) }])
    await expect(session.lease(options)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
});
