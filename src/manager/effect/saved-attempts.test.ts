import { expect, test } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import type { Session } from '../session/session.ts';
import type { SessionOptions } from '../write/session-options.ts';

type Log = { log: string[] };
type Try = { readonly attempt: number; readonly idempotencyKey: string };

const EMPTY: Log = { log: [] };
const FROM_START: Omit<SessionOptions, 'initial' | 'schema'> = { replayFrom: 'start' };

const note = (session: Session<Log>, entry: string) => session.update((draft) => void draft.log.push(entry));

/** A step that never ends, once it has begun. */
const hang = (session: Session<Log>, name: string, options?: { input: unknown }) =>
  new Promise<Try>((begun) => {
    const run = (attempt: Try) => {
      begun(attempt);
      return new Promise<string>(() => undefined);
    };
    void session.step(name, run, options);
  });

/** Makes a step that fails, and returns its attempt. */
async function fail(session: Session<Log>, name: string, options?: { input: unknown }): Promise<Try> {
  const tries: Try[] = [];
  const run = (attempt: Try) => {
    tries.push(attempt);
    throw new Error('timeout');
  };
  await expect(session.step(name, run, options)).rejects.toThrow('timeout');
  return tries[0] as Try;
}

/** Makes a step that returns its attempt. */
const succeed = (session: Session<Log>, name: string, options?: { input: unknown }): Promise<Try> =>
  session.step(name, ({ attempt, idempotencyKey }) => ({ attempt, idempotencyKey }), options);

describeOn(STORAGES)('attempts and saves on %s', (_, create) => {
  function setUp() {
    const manager = new CheckpointManager({ storage: create().storage });
    const open = (options?: Omit<SessionOptions, 'initial' | 'schema'>) =>
      manager.session('s', { initial: EMPTY, ...options });
    return { manager, open };
  }

  test.each(['update', 'save', 'fork'] as const)(
    '[effect.1] a program that runs again from its start repeats no finished call, in the order of the calls (%s)',
    async (way) => {
      const { manager, open } = setUp();
      const calls: string[] = [];
      const failing = new Set([1, 3]);
      const run = async () => {
        const session = await open(FROM_START);
        const log: string[] = [];
        for (let at = 0; at < 5; at++) {
          const result = await session.step('w', ({ attempt }) => {
            calls.push(`${at}#${attempt}`);
            if (failing.delete(at)) throw new Error('down');
            return `W${at}`;
          });
          log.push(result);
          if (way === 'save') await session.save({ log: [...log] });
          else await note(session, result);
        }
        return session.state.log;
      };
      await expect(run()).rejects.toThrow('down');
      if (way === 'fork') {
        await manager.fork({ sessionId: 's', at: '@' }, { branch: 'f' });
        await manager.switchBranch('s', 'f');
      }
      await expect(run()).rejects.toThrow('down');
      const all = ['W0', 'W1', 'W2', 'W3', 'W4'];
      for (let times = 0; times < 3; times++) expect(await run()).toEqual(all);
      expect(calls).toEqual(['0#1', '1#1', way === 'fork' ? '1#1' : '1#2', '2#1', '3#1', '3#2', '4#1']);
      const frozen = await open({ ...FROM_START, mode: 'frozen' });
      for (const result of all) expect(await frozen.step('w', () => 'ran')).toBe(result);
      expect(await manager.verify()).toMatchObject({ status: 'clean' });
      await manager.close();
    },
  );

  test('[effect.1] from the start, a step in flight at the crash keeps its place among those of its name', async () => {
    const { manager, open } = setUp();
    const begin = async () => {
      const session = await open(FROM_START);
      await session.step('a', () => 'A');
      await note(session, 'A');
      return session;
    };
    const first = await hang(await begin(), 'c');
    const second = await begin();
    expect(await succeed(second, 'c')).toEqual({ attempt: 2, idempotencyKey: first.idempotencyKey });
    await note(second, 'C');
    const third = await begin();
    expect(third.head?.header).toMatchObject({ effectCount: 1 }); // what it has not asked for is not in its state
    expect(await succeed(third, 'c')).toMatchObject({ attempt: 2 });
    await note(third, 'C');
    expect(await third.step('c', () => 'second')).toBe('second');
    expect(third.state.log).toEqual(['A', 'C']);
    await manager.close();
  });

  test('[effect.3] of steps without an input that ran at the same time, each has its own result from the start', async () => {
    const { manager, open } = setUp();
    const session = await open(FROM_START);
    let end: (result: string) => void = () => undefined;
    const slow = session.step('w', () => new Promise<string>((resolve) => (end = resolve)));
    expect(await session.step('w', () => 'quick')).toBe('quick');
    await note(session, 'quick');
    end('slow');
    await slow;
    const again = await open(FROM_START);
    expect([await again.step('w', () => 'ran'), await again.step('w', () => 'ran')]).toEqual(['slow', 'quick']);
    await manager.close();
  });

  test.each([{ input: 1 }, undefined])(
    '[effect.2] a failed step keeps its key, also after saves and restarts: %o',
    async (options) => {
      const { manager, open } = setUp();
      const session = await open();
      const { idempotencyKey } = await fail(session, 'pay', options);
      await note(session, 'failed');
      const second = await open();
      await note(second, 'something else');
      const third = await open();
      expect(await fail(third, 'pay', options)).toMatchObject({ attempt: 2, idempotencyKey });
      await note(third, 'failed again');
      expect(await hang(await open(), 'pay', options)).toMatchObject({ attempt: 3, idempotencyKey });
      const fifth = await open();
      await note(fifth, 'in flight');
      const sixth = await open();
      expect(await succeed(sixth, 'pay', options)).toMatchObject({ attempt: 4, idempotencyKey });
      expect(await succeed(await open(), 'pay', options)).toMatchObject({ attempt: 4 });
      await note(sixth, 'paid');
      expect(sixth.head?.header.effectsInFlight).toBeUndefined();
      const { idempotencyKey: other, attempt } = await succeed(await open(), 'pay', options);
      expect([other === idempotencyKey, attempt]).toEqual([false, 1]);
      expect(await manager.verify()).toMatchObject({ status: 'clean' });
      await manager.close();
    },
  );

  test('[effect.5] a frozen replay repeats a failure that was saved, and from that checkpoint on does not', async () => {
    const { manager, open } = setUp();
    const session = await open();
    const start = await session.save();
    await fail(session, 'pay');
    const failed = await note(session, 'failed');
    expect(await (await open()).step('pay', () => 'paid')).toBe('paid');
    for (const [at, hasFailed] of [
      [start, true],
      [failed, false],
    ] as const) {
      const { branch } = await manager.fork(at);
      const replay = await open({ branch, mode: 'frozen' });
      if (hasFailed) await expect(replay.step('pay', () => 'ran')).rejects.toThrow('timeout');
      expect(await replay.step('pay', () => 'ran')).toBe('paid');
    }
    await manager.close();
  });

  test('[effect.5] a branch to replay that does not exist is refused, and says which there are', async () => {
    const { manager, open } = setUp();
    const session = await open();
    const start = await session.save();
    await session.step('a', () => 'paid', { input: 1 });
    const { branch } = await manager.fork(start);
    for (const mode of ['live', 'recorded', 'frozen'] as const)
      await expect(manager.session('s', { branch, mode, replayBranch: 'mian' })).rejects.toMatchObject({
        code: 'NOT_FOUND',
        message: `Session "s" has no branch "mian" to replay (it has: ${branch}, main).`,
      });
    const replay = await manager.session('s', { branch, mode: 'recorded', replayBranch: 'main' });
    expect(await replay.step('a', () => 'ran', { input: 1 })).toBe('paid');
    await expect(manager.session('new', { replayBranch: 'other' })).rejects.toMatchObject({ code: 'NOT_FOUND' });
    const own = await manager.session('new', { replayBranch: 'main' });
    expect(own.isResumed).toBe(false);
    const begun = await manager.session('steps', { branch: 'first' });
    await begun.step('a', () => 'recorded');
    const other = await manager.session('steps', { branch: 'second', replayBranch: 'first' });
    expect(await other.step('a', () => 'ran')).toBe('recorded');
    await manager.close();
  });
});
