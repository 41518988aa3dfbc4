import { describe, expect, test } from 'vitest';
import { STORAGES } from '../../../test/support/storages.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { faultyStorage } from '../../testing/faulty-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import type { Session } from '../session/session.ts';

/** Node 20 does not have it. */
function withResolvers<Value>() {
  let resolve: (value: Value) => void = () => undefined;
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<Value>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  return { promise, resolve, reject };
}

/** A step whose function ends when the test says so. */
class Call {
  readonly entered: Promise<number>;
  readonly outcome: Promise<unknown>;
  readonly end = withResolvers<string>();

  constructor(session: Session) {
    const entered = withResolvers<number>();
    this.entered = entered.promise;
    this.outcome = session.step('pay', ({ attempt }) => {
      entered.resolve(attempt);
      return this.end.promise;
    });
    this.outcome.catch(() => undefined);
  }
}

describe.each(STORAGES)('one step in two processes without a lease, on %s', (_, create) => {
  async function setUp() {
    const { storage, reopen = () => storage } = create();
    const storages = [storage];
    /** The session as another process opens it. */
    const open = async () => {
      const own = storages.length === 1 ? storage : reopen();
      storages.push(own);
      return new CheckpointManager({ storage: own }).session('s');
    };
    const first = new Call(await open());
    expect(await first.entered).toBe(1);
    return {
      first,
      open,
      /** The other, which takes the first for dead. */
      async another() {
        const call = new Call(await open());
        expect(await call.entered).toBe(2);
        return call;
      },
      /** What a process that comes later gets, without running. */
      async recorded() {
        const later = await open();
        return later.step('pay', () => 'ran again');
      },
      close: () => Promise.all(storages.map((each) => each.close())),
    };
  }

  test('[effect.2] the first result stays, and the other gets it, whatever its own was', async () => {
    for (const isFailed of [false, true]) {
      const { first, another, recorded, close } = await setUp();
      const other = await another();
      first.end.resolve('of the first');
      expect(await first.outcome).toBe('of the first');
      if (isFailed) other.end.reject(new Error('declined'));
      else other.end.resolve('of the other');
      expect(await other.outcome).toBe('of the first');
      expect(await recorded()).toBe('of the first');
      await close();
    }
  });

  test('[effect.2] the one that began first is given the result of the other, if that came first', async () => {
    for (const isFailed of [false, true]) {
      const { first, another, recorded, close } = await setUp();
      const other = await another();
      other.end.resolve('of the other');
      expect(await other.outcome).toBe('of the other');
      if (isFailed) first.end.reject(new Error('declined'));
      else first.end.resolve('of the first');
      expect(await first.outcome).toBe('of the other');
      expect(await recorded()).toBe('of the other');
      await close();
    }
  });

  test('[effect.2] a failure does not hide the attempt that came after it, and a result counts after any failure', async () => {
    const { first, another, recorded, close } = await setUp();
    const other = await another();
    first.end.reject(new Error('declined'));
    await expect(first.outcome).rejects.toThrow('declined');
    other.end.resolve('of the other');
    expect(await other.outcome).toBe('of the other');
    expect(await recorded()).toBe('of the other');
    await close();
    const again = await setUp();
    const failing = await again.another();
    failing.end.reject(new Error('declined'));
    await expect(failing.outcome).rejects.toThrow('declined');
    again.first.end.resolve('of the first');
    expect(await again.first.outcome).toBe('of the first');
    expect(await again.recorded()).toBe('of the first');
    await again.close();
  });

  test('[effect.2] what ended between the opening and the call is not run again', async () => {
    const { first, open, close } = await setUp();
    const session = await open();
    first.end.resolve('of the first');
    await first.outcome;
    expect(await session.step('pay', () => 'ran again')).toBe('of the first');
    await close();
  });

  test('[save.3] of two that take up the same step, the second is refused before it runs, and has its result later', async () => {
    const { open, close } = await setUp();
    const [one, two] = [await open(), await open()];
    const call = new Call(one);
    expect(await call.entered).toBe(2);
    const refused = { code: 'CONFLICT', details: { sessionId: 's', branch: 'main', ordinal: 0 } };
    await expect(two.step('pay', () => 'ran, too')).rejects.toMatchObject(refused);
    call.end.resolve('of the one');
    await call.outcome;
    expect(await two.step('pay', () => 'ran, too')).toBe('of the one');
    await close();
  });
});

test('[save.4] a step in flight keeps its key, also if its next beginning could not be stored', async () => {
  const storage = new InMemoryCheckpointStorage();
  const keys: string[] = [];
  const first = await new CheckpointManager({ storage }).session('s');
  const entered = new Promise<void>((resolve) => {
    void first.step('pay', ({ idempotencyKey }) => {
      keys.push(idempotencyKey);
      resolve();
      return new Promise(() => undefined);
    });
  });
  await entered;
  const session = await new CheckpointManager({ storage: faultyStorage(storage, { commits: { 1: 'fails' } }) }).session(
    's',
  );
  const pay = () =>
    session.step('pay', ({ idempotencyKey, attempt }) => {
      keys.push(idempotencyKey);
      return attempt;
    });
  await expect(pay()).rejects.toMatchObject({ code: 'STORAGE' });
  expect(await pay()).toBe(2);
  expect(keys[1]).toBe(keys[0]);
});
