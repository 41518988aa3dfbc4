import { expect, onTestFinished, test, vi } from 'vitest';
import { TestClock } from '../../../test/support/clock.ts';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import type { ChunkStorage, Ref } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { faultyStorage } from '../../testing/faulty-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { keptHere } from '../lease/lease-refs.ts';
import type { Session } from '../session/session.ts';
import { Workers } from '../workers/workers.ts';
import type { Recovery, RecoveryOptions } from './recovery-options.ts';

const TTL_MS = 30_000;

describeOn(STORAGES)('recovery on %s', (_, create) => {
  /** As many managers on one storage as asked for, each as a process of its own would have it. */
  function setUp(count = 2) {
    const clock = new TestClock();
    const { storage, reopen } = create();
    const managers = Array.from({ length: count }, () => {
      const own = clock.watch(reopen?.() ?? Object.assign(storage, { close: async () => undefined }));
      return new CheckpointManager({ storage: own, now: clock.now, setTimer: clock.setTimer });
    });
    onTestFinished(async () => {
      for (const manager of managers) await manager.close();
      await storage.close();
    });
    const [here, there] = managers as [CheckpointManager, CheckpointManager];
    /** Leaves a session as a worker does that died at its work. */
    const abandon = async (id: string, { ttlMs = TTL_MS, owner = `dead-${id}` } = {}) => {
      const session = await here.session(id);
      await session.lease({ ttlMs, owner, renew: 'manual' });
      await session.save({ id });
      return session;
    };
    return { clock, storage, managers, here, there, abandon };
  }

  test('[lease.8] a session whose lease lapsed is handed over where it was left, under the next epoch', async () => {
    const { clock, there, abandon } = setUp();
    const dead = await abandon('s');
    await dead.step('paid', () => 'once');
    await dead.step('asked', () => Promise.reject(new Error('died'))).catch(() => undefined);
    const lapsedAtMs = clock.now() + TTL_MS;
    expect(await new Workers(there).recoverAbandoned(() => expect.unreachable())).toMatchObject({
      counts: { recovered: 0 },
    });
    await clock.pass(TTL_MS);
    const owner = 'dead-s';
    expect(await new Workers(there).abandoned()).toEqual([
      { sessionId: 's', branch: 'main', owner, lapsedAtMs, attempts: 0, isPoisoned: false },
    ]);
    let told: Recovery | undefined;
    const report = await new Workers(there).recoverAbandoned(
      async (session, recovery) => {
        told = recovery;
        expect(recovery.lease).toMatchObject({ epoch: 2, owner: 'worker', isHeld: true });
        expect(await session.lease()).toBe(recovery.lease);
        expect(session.state).toEqual({ id: 's' });
        expect(await session.step('paid', () => 'twice')).toBe('once');
        expect(await session.step('asked', ({ attempt }) => attempt)).toBe(2);
        void session.save({ id: 's', done: true }); // a handler need not wait for its last save
      },
      { owner: 'worker' },
    );
    expect(told).toMatchObject({ attempt: 1, abandonedAtMs: lapsedAtMs, previousOwner: owner });
    const outcome = { sessionId: 's', branch: 'main', attempt: 1 };
    expect(report).toEqual({
      counts: { recovered: 1, failed: 0, poisoned: 0, lost: 0 },
      recovered: [outcome],
      failed: [],
      poisoned: [],
      lost: [],
    });
    expect(told?.lease.isHeld).toBe(false);
    expect((await there.session('s')).state).toEqual({ id: 's', done: true });
    await clock.pass(TTL_MS);
    expect(await new Workers(there).abandoned()).toEqual([]);
    await expect(dead.save({ id: 'late' })).rejects.toMatchObject({ code: 'CONFLICT', details: { kind: 'lease' } });
  });

  test('[lease.8] of many workers exactly one gets each session', async () => {
    const { clock, managers, abandon } = setUp(4);
    for (let i = 0; i < 20; i++) await abandon(`s${i}`);
    clock.skip(TTL_MS);
    const handled: string[] = [];
    const handler = async (session: Session) => {
      handled.push(session.id);
      await session.save({ handled: true });
    };
    const reports = await Promise.all(
      managers.map((manager, i) =>
        new Workers(manager).recoverAbandoned(handler, { concurrency: 1 + (i % 3), owner: `w${i}` }),
      ),
    );
    expect(handled.toSorted()).toEqual(Array.from({ length: 20 }, (_, i) => `s${i}`).sort());
    expect(reports.reduce((sum, { counts }) => sum + counts.recovered, 0)).toBe(20);
    expect(reports.every(({ counts }) => counts.failed + counts.lost + counts.poisoned === 0)).toBe(true);
    expect(await managers[0]?.verify()).toMatchObject({ status: 'clean', checkpoints: 40 });
  });

  test('[lease.8] the oldest comes first; limit and concurrency bound a pass', async () => {
    const { clock, there, abandon } = setUp();
    for (const [at, id] of ['c', 'a', 'd', 'b'].entries()) await abandon(id, { ttlMs: 1_000 * (at + 1) });
    clock.skip(TTL_MS);
    const order: string[] = [];
    const note = (session: Session) => void order.push(session.id);
    expect((await new Workers(there).recoverAbandoned(note, { limit: 1 })).counts.recovered).toBe(1);
    expect(order).toEqual(['c']);
    expect((await new Workers(there).recoverAbandoned(note)).counts.recovered).toBe(3);
    expect(order).toEqual(['c', 'a', 'd', 'b']);
  });

  test('[lease.8] as many handlers run at the same time as asked for, and no more', async () => {
    const { clock, there, abandon } = setUp();
    for (const id of ['a', 'b', 'c', 'd']) await abandon(id);
    clock.skip(TTL_MS);
    const running: (() => void)[] = [];
    const inPairs = async () => {
      await new Promise<void>((resolve) => {
        running.push(resolve);
        if (running.length === 2) for (const end of running.splice(0)) setImmediate(end);
      });
    };
    const report = await new Workers(there).recoverAbandoned(inPairs, { concurrency: 2 });
    expect(report.counts.recovered).toBe(4);
  });

  test('[lease.9] a failed attempt comes up again after its backoff, and the next one is told', async () => {
    const { clock, here, there, abandon } = setUp();
    await abandon('s');
    clock.skip(TTL_MS);
    const boom = new Error('not yet');
    const options: RecoveryOptions = { owner: 'first', backoffMs: { firstMs: 1_000, factor: 10, maxMs: 5_000 } };
    const fail = () => Promise.reject(boom);
    const report = await new Workers(there).recoverAbandoned(fail, options);
    expect(report).toMatchObject({ counts: { failed: 1 }, failed: [{ sessionId: 's', attempt: 1, error: boom }] });
    clock.skip(999);
    expect((await new Workers(here).recoverAbandoned(fail, options)).counts.failed).toBe(0);
    clock.skip(1);
    expect(await new Workers(here).recoverAbandoned(fail, options)).toMatchObject({ failed: [{ attempt: 2 }] });
    clock.skip(4_999);
    expect(await new Workers(here).abandoned()).toEqual([]);
    clock.skip(1);
    const told = vi.fn();
    await new Workers(here).recoverAbandoned((_session, { attempt, previousOwner, abandonedAtMs }) =>
      told({ attempt, previousOwner, abandonedAtMs }),
    );
    expect(told).toHaveBeenCalledExactlyOnceWith({ attempt: 3, previousOwner: 'first', abandonedAtMs: clock.now() });
    await abandon('s');
    clock.skip(TTL_MS);
    expect(await new Workers(here).abandoned()).toMatchObject([{ attempts: 0 }]);
  });

  test('[lease.8] [lease.9] what a holder left that is gone for certain is due at once, but a failed attempt waits', async () => {
    const { clock, there, abandon } = setUp();
    for (const id of ['s', 'other']) await abandon(id);
    expect(await new Workers(there).abandoned()).toEqual([]);
    keptHere.clear(); // their process let go of them
    const left = await new Workers(there).abandoned({ isEager: true });
    expect(left.map(({ sessionId }) => sessionId).toSorted()).toEqual(['other', 's']);
    const options = { isEager: true, isMine: ({ sessionId }: { sessionId: string }) => sessionId === 's' };
    const fail = () => Promise.reject(new Error('no'));
    expect(await new Workers(there).recoverAbandoned(fail, options)).toMatchObject({ counts: { failed: 1 } });
    expect(await new Workers(there).recoverAbandoned(fail, options)).toMatchObject({ counts: { failed: 0 } });
    expect(await new Workers(there).abandoned({ isEager: true })).toMatchObject([{ sessionId: 'other', attempts: 0 }]);
    clock.skip(1_000);
    expect(await new Workers(there).recoverAbandoned(() => undefined, options)).toMatchObject({
      counts: { recovered: 1 },
    });
  });

  test('[lease.9] who takes a lapsed lease by hand and dies as well does not begin the count anew', async () => {
    const { clock, here, there, abandon } = setUp();
    await abandon('s');
    clock.skip(TTL_MS);
    await new Workers(here).recoverAbandoned(() => Promise.reject(new Error('no')), { backoffMs: () => 0 });
    await (await there.session('s')).lease({ ttlMs: TTL_MS, renew: 'manual' });
    clock.skip(TTL_MS);
    expect(await new Workers(here).abandoned()).toMatchObject([{ attempts: 1 }]);
  });

  test('[lease.9] a worker that dies is followed by the next; after the last attempt the session is poisoned', async () => {
    const { clock, here, there, abandon } = setUp();
    await abandon('s');
    const attempts: number[] = [];
    const die = (_session: Session, { attempt }: Recovery) => {
      attempts.push(attempt);
      return new Promise(() => undefined);
    };
    for (let death = 0; death < 2; death++) {
      clock.skip(TTL_MS);
      void new Workers(there).recoverAbandoned(die, { ttlMs: TTL_MS, owner: 'fragile' });
      await clock.settle();
    }
    expect(attempts).toEqual([1, 2]);
    clock.skip(TTL_MS);
    const onPoisoned = vi.fn();
    const report = await new Workers(here).recoverAbandoned(() => expect.unreachable(), { maxAttempts: 2, onPoisoned });
    const outcome = { sessionId: 's', branch: 'main', attempt: 2 };
    expect(report).toMatchObject({ counts: { poisoned: 1 }, poisoned: [outcome] });
    expect(onPoisoned).toHaveBeenCalledExactlyOnceWith(outcome);
    clock.skip(TTL_MS * 1_000);
    expect((await new Workers(here).recoverAbandoned(() => expect.unreachable())).counts.recovered).toBe(0);
    expect(await new Workers(here).abandoned()).toEqual([
      { sessionId: 's', branch: 'main', owner: 'fragile', lapsedAtMs: undefined, attempts: 2, isPoisoned: true },
    ]);
  });

  test('[lease.9] the last failure poisons too; a poisoned session can be given another round, or leased by hand', async () => {
    const { clock, here, there, abandon } = setUp();
    await abandon('s');
    clock.skip(TTL_MS);
    const fail = () => Promise.reject(new Error('never'));
    expect(await new Workers(here).recoverAbandoned(fail, { maxAttempts: 1 })).toMatchObject({
      counts: { poisoned: 1, failed: 0 },
      poisoned: [{ attempt: 1, error: { message: 'never' } }],
    });
    await new Workers(there).retryPoisoned('s');
    await expect(new Workers(there).retryPoisoned('s', 'main')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(await new Workers(there).recoverAbandoned(fail, { maxAttempts: 1 })).toMatchObject({
      poisoned: [{ attempt: 1 }],
    });
    const lease = await (await there.session('s')).lease();
    expect(await new Workers(there).abandoned()).toEqual([]);
    await lease.release();
    await expect(new Workers(there).retryPoisoned('s')).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  test('[lease.10] a handler whose lease is taken over meanwhile is told, and does no harm', async () => {
    const { clock, here, there, abandon } = setUp();
    await abandon('s');
    clock.skip(TTL_MS);
    let resume: () => void = () => undefined;
    const paused = new Promise<void>((resolve) => {
      resume = resolve;
    });
    const slow = new Workers(here).recoverAbandoned(
      async (session, { lease }) => {
        await paused;
        await session.save({ by: 'slow' }).catch(() => undefined);
        expect(lease.signal.aborted).toBe(true);
      },
      { ttlMs: TTL_MS },
    );
    await clock.settle();
    clock.skip(TTL_MS);
    await new Workers(there).recoverAbandoned((session) => session.save({ by: 'quick' }));
    resume();
    expect(await slow).toMatchObject({
      counts: { recovered: 0, failed: 0, lost: 1 },
      lost: [{ sessionId: 's', attempt: 1, error: { code: 'CONFLICT', details: { kind: 'lease' } } }],
    });
    expect((await there.session('s')).state).toEqual({ by: 'quick' });
    expect(await new Workers(there).abandoned()).toEqual([]);
  });

  test('[lease.10] with everyMs it looks again and again until it is told to stop', async () => {
    const { clock, there, abandon } = setUp();
    const stop = new AbortController();
    const loop = new Workers(there).recoverAbandoned(() => undefined, { everyMs: 1_000, signal: stop.signal });
    for (let i = 0; i < 3; i++) {
      await abandon(`s${i}`, { ttlMs: 10 });
      await clock.pass(1_500);
    }
    stop.abort();
    expect(await loop).toMatchObject({ counts: { recovered: 3 } });
    await abandon('late', { ttlMs: 10 });
    clock.skip(100);
    const stopped = new Workers(there).recoverAbandoned(() => expect.unreachable(), { signal: stop.signal });
    expect(await stopped).toMatchObject({ counts: { recovered: 0 } });
  });

  test('[lease.8] a session that never saved is recovered too, and leases released in time are not', async () => {
    const { clock, here, there } = setUp();
    const branch = 'draft';
    await (await here.session('new', { branch })).lease({ ttlMs: 10, renew: 'manual' });
    await (await (await here.session('done')).lease({ ttlMs: 10, renew: 'manual' })).release();
    clock.skip(TTL_MS);
    const seen: unknown[] = [];
    await new Workers(there).recoverAbandoned((session) => void seen.push([session.id, session.branch, session.state]));
    expect(seen).toEqual([['new', branch, undefined]]);
  });
});

/** A storage in memory whose answers a test may change. */
function setUpMemory(change: (storage: InMemoryCheckpointStorage) => Partial<ChunkStorage> = () => ({})) {
  const clock = new TestClock();
  const storage = new InMemoryCheckpointStorage();
  Object.assign(storage, change(storage));
  const manager = new CheckpointManager({ storage: clock.watch(storage), now: clock.now, setTimer: clock.setTimer });
  const abandon = async (id: string) => {
    await (await manager.session(id)).lease({ ttlMs: 10, renew: 'manual' });
  };
  return { clock, manager, storage, abandon };
}

test('[lease.8] a holder that renews at the last moment keeps its session', async () => {
  const { clock, manager, storage } = setUpMemory();
  const lease = await (await manager.session('s')).lease({ ttlMs: 10, renew: 'manual' });
  clock.skip(10);
  const delay = (method: string) => (method === 'commit' ? lease.renew() : undefined);
  const worker = new CheckpointManager({ storage: faultyStorage(storage, { delay }), now: clock.now });
  const report = await new Workers(worker).recoverAbandoned(() => expect.unreachable());
  expect(report.counts).toEqual({ recovered: 0, failed: 0, poisoned: 0, lost: 0 });
  expect(lease).toMatchObject({ isHeld: true, epoch: 1 });
});

test('[lease.10] one damaged session does not stop the others', async () => {
  const damage = (refs: Ref[]) => refs.map((ref) => (ref.sessionId === 'bad' ? { ...ref, check: '' } : ref));
  const { clock, manager, abandon } = setUpMemory((storage) => {
    const readDue = storage.readDue.bind(storage);
    return { readDue: async (page) => damage(await readDue(page)) };
  });
  for (const id of ['bad', 'good', 'worse']) await abandon(id);
  clock.skip(10);
  const report = await new Workers(manager).recoverAbandoned(() => undefined);
  expect(report).toMatchObject({
    counts: { recovered: 2, failed: 1 },
    failed: [{ sessionId: 'bad', error: { code: 'CORRUPT' } }],
  });
  await abandon('good');
  clock.skip(10);
  expect(await new Workers(manager).abandoned()).toMatchObject([{ sessionId: 'good' }]);
});

test('[lease.10] what stands in front of the line and cannot be taken does not hide what is behind it', async () => {
  const { clock, manager, storage, abandon } = setUpMemory();
  for (let i = 0; i < 230; i++) await abandon(`s${i}`);
  clock.skip(10);
  const readDue = storage.readDue.bind(storage);
  const isBad = ({ sessionId }: Ref) => Number(sessionId.slice(1)) < 210;
  Object.assign(storage, {
    readDue: async (page: Parameters<typeof readDue>[0]) =>
      (await readDue(page)).map((ref) => (isBad(ref) ? { ...ref, check: '' } : ref)),
  });
  const { counts, failed } = await new Workers(manager).recoverAbandoned(() => undefined, { concurrency: 7 });
  expect(counts).toEqual({ recovered: 20, failed: 210, poisoned: 0, lost: 0 });
  expect(failed).toHaveLength(100);
});

test('[lease.10] a pass that cannot look is told to onError, and the next one comes; without it that is the end', async () => {
  let isDown = true;
  const down = new Error('down');
  const { clock, manager, abandon } = setUpMemory((storage) => {
    const readDue = storage.readDue.bind(storage);
    return { readDue: async (page) => (isDown ? Promise.reject(down) : readDue(page)) };
  });
  await abandon('s');
  clock.skip(10);
  await expect(new Workers(manager).recoverAbandoned(() => undefined, { everyMs: 1_000 })).rejects.toBe(down);
  const stop = new AbortController();
  const onError = vi.fn();
  const loop = new Workers(manager).recoverAbandoned(() => undefined, { everyMs: 1_000, signal: stop.signal, onError });
  await clock.pass(1_500);
  isDown = false;
  await clock.pass(1_500);
  stop.abort();
  expect(await loop).toMatchObject({ counts: { recovered: 1 } });
  expect(onError).toHaveBeenCalledWith(down);
});

test('[lease.2] the clock of the storage decides, where it has one', async () => {
  let sharedMs = 5_000_000;
  const { clock, manager, storage } = setUpMemory();
  Object.assign(storage, { now: async () => sharedMs });
  const own = new CheckpointManager({ storage, now: clock.now, setTimer: clock.setTimer });
  const lease = await (await own.session('s')).lease({ ttlMs: TTL_MS, renew: 'manual' });
  expect(lease.expiresAtMs).toBe(sharedMs + TTL_MS);
  clock.skip(TTL_MS);
  expect(lease.isHeld).toBe(false);
  expect(await new Workers(own).abandoned()).toEqual([]);
  sharedMs += TTL_MS;
  expect(await new Workers(own).abandoned()).toMatchObject([{ lapsedAtMs: sharedMs }]);
  await manager.close();
});

test('[lease.8] what is asked for is checked', async () => {
  const { manager, clock, abandon } = setUpMemory();
  for (const options of [{ maxAttempts: 0 }, { concurrency: 1.5 }, { limit: -1 }, { everyMs: 0 }, { ttlMs: 0 }])
    await expect(new Workers(manager).recoverAbandoned(() => undefined, options)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
  await abandon('s');
  clock.skip(10);
  const report = await new Workers(manager).recoverAbandoned(() => Promise.reject(new Error('x')), {
    backoffMs: () => Number.NaN,
  });
  expect(report).toMatchObject({ failed: [{ attempt: 1, error: { code: 'INVALID_INPUT' } }] });
  await clock.pass(TTL_MS);
  expect(await new Workers(manager).abandoned()).toMatchObject([{ sessionId: 's', attempts: 1 }]);
});
