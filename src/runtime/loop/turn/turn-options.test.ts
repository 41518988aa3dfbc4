import { describe, expect, test } from 'vitest';
import { MINUTE, World } from '../../../../test/loop/world.ts';
import { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../../storage/memory/memory-storage.ts';
import type { LoopAgent, Turn } from '../index.ts';

/** What one turn threw, and what became of its guarded operations. */
async function refusedIn(act: (turn: Turn) => Promise<unknown>) {
  const world = new World();
  let thrown: unknown;
  const createAgent = (): LoopAgent => ({
    handle: async (_, turn) => void (await act(turn).catch((error: unknown) => (thrown = error))),
  });
  const { loop, events } = await world.start({ createAgent });
  await loop.deliver({ id: 'm1', body: null });
  await world.clock.settle();
  return { thrown, operations: events.filter(({ kind }) => kind === 'operation') };
}

const done = () => 'done';
const BAD_CALLS: readonly [what: string, call: (turn: Turn) => Promise<unknown>, says: RegExp][] = [
  ['an unknown option of a step', (t) => t.step('s', done, { inpt: 1 } as object), /"inpt".*turn\.step.*"input"/],
  ['the work of a step', (t) => t.step('s', done, { work: {} } as object), /"work" is not an option/],
  ['the name of a step, twice', (t) => t.step('s', done, { name: 'x' } as object), /"name" is not an option/],
  ['options of a step that are a text', (t) => t.step('s', done, 'x' as never), /must be an object/],
  ['options of a step that are null', (t) => t.step('s', done, null as unknown as object), /must be an object/],
  ['a signal that is none', (t) => t.step('s', done, { signal: 5 } as object), /AbortSignal; found 5/],
  ['a step without a name', (t) => t.step('', done), /step name/],
  ['a step without a function', (t) => t.step('s', undefined as never), /function; found undefined/],
  ['a step with a value', (t) => t.step('s', 5 as never), /function; found 5/],
  ['an unknown option of a guard', (t) => t.guard('g', done, { onFail: 'rethrow' } as object), /"onFail".*"onFailure"/],
  ['an unknown way to fail', (t) => t.guard('g', done, { onFailure: 'undo' } as object), /"rollback", "rethrow"/],
  ['options of a guard that are null', (t) => t.guard('g', done, null as unknown as object), /must be an object/],
  ['a guard without a function', (t) => t.guard('g', undefined as never), /function; found undefined/],
  ['a guard without a name', (t) => t.guard('', done), /name of turn\.guard/],
  ['a guard with a number for a name', (t) => t.guard(7 as never, done), /found 7/],
  ['a tool without a name', (t) => t.call('', 1), /no tool ""/],
];

test.each(BAD_CALLS)('[input.1] a turn refuses %s, before anything is done', async (_, call, says) => {
  const { thrown, operations } = await refusedIn(call);
  expect(thrown).toMatchObject({ code: 'INVALID_INPUT', message: expect.stringMatching(says) });
  expect(operations).toEqual([]);
});

test('[loop.13] a step with a signal of its own is also ended with its turn', async () => {
  const world = new World();
  const reasons: unknown[] = [];
  const own = new AbortController();
  const createAgent = (): LoopAgent => ({
    handle: (_, turn) =>
      turn.step(
        'wait',
        ({ signal }) =>
          new Promise((_resolve, reject) => {
            signal?.addEventListener('abort', () => {
              reasons.push(signal.reason.name);
              reject(signal.reason);
            });
          }),
        { signal: own.signal },
      ),
  });
  const { loop } = await world.start({ createAgent, settings: { turnTimeoutMs: MINUTE, maxFailures: 1 } });
  await loop.deliver({ id: 'm1', body: null });
  await world.clock.pass(2 * MINUTE);
  expect(reasons).toEqual(['TimeoutError']);
});

test.each([
  ['no function', undefined],
  ['a text', 'pay'],
])('[input.1] a step of a session with %s is refused and not recorded', async (_, run) => {
  const session = await new CheckpointManager({ storage: new InMemoryCheckpointStorage() }).session('s');
  await expect(session.step('pay', run as never)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  const attempts: number[] = [];
  await session.step('pay', ({ attempt }) => void attempts.push(attempt));
  expect(attempts).toEqual([1]);
});

describe('[loop.1] a task that is active needs work()', () => {
  const task = { id: 'count', status: 'active', progress: 0 } as const;
  const SAYS = { code: 'INVALID_INPUT', message: expect.stringMatching(/"count" is active.*no work\(turn\)/) };

  test('one that a new agent begins with', async () => {
    const { ended } = await new World().start({ createAgent: () => ({ handle: done }) as never, initial: { task } });
    expect(await ended).toMatchObject(SAYS);
  });

  test('one that a turn makes active', async () => {
    const world = new World();
    const createAgent = (): LoopAgent => ({ handle: (_, turn) => void Object.assign(turn.state, { task }) });
    const { loop, events } = await world.start({ createAgent, settings: { maxFailures: 1 } });
    await loop.deliver({ id: 'm1', body: null });
    await world.clock.settle();
    expect(events.find(({ kind }) => kind === 'set_aside')).toMatchObject({ error: { message: SAYS.message } });
    expect(loop.state.task).toBeNull();
  });

  test('one that waits does not', async () => {
    const world = new World();
    const waiting = { ...task, status: 'waiting' } as const;
    const { loop } = await world.start({
      createAgent: () => ({ handle: () => undefined }),
      initial: { task: waiting },
    });
    await loop.deliver({ id: 'm1', body: null });
    await world.clock.settle();
    expect(loop.state.mailbox.processedCount).toBe(1);
  });

  test('one that a checkpoint holds, for code that has lost it', async () => {
    const world = new World();
    const createAgent = (): LoopAgent => ({ handle: () => undefined, work: () => undefined });
    const first = await world.start({ createAgent, initial: { task } });
    await world.clock.settle();
    await first.loop.stop();
    const second = await world.start({ createAgent: () => ({ handle: () => undefined }) });
    expect(await second.ended).toMatchObject(SAYS);
  });
});

test('[loop.4] what a turn does after its end is refused', async () => {
  const world = new World();
  const kept: Turn[] = [];
  let runs = 0;
  const createAgent = (): LoopAgent => ({
    tools: { pay: { run: () => ++runs } },
    handle: (_, turn) => void kept.push(turn),
  });
  const { loop } = await world.start({ createAgent });
  await loop.deliver({ id: 'm1', body: null });
  await world.clock.settle();
  const [turn] = kept;
  for (const late of [turn?.step('pay', () => ++runs), turn?.call('pay', 17), turn?.guard('pay', () => ++runs)])
    expect(await late?.catch((error: unknown) => error)).toMatchObject({ code: 'CLOSED' });
  expect(runs).toBe(0);
});

describe('what is under way when a turn fails', () => {
  const WAYS: readonly [
    string,
    (turn: Turn, pay: NonNullable<LoopAgent['tools']>[string]['run']) => Promise<unknown>,
  ][] = [
    ['a call', (turn) => turn.call('pay', 17)],
    ['a step', (turn, pay) => turn.step('pay', (attempt) => pay(17, attempt))],
    ['an operation, before its first call', (turn) => turn.guard('pay', (operation) => operation.call('pay', 17))],
    [
      'an operation, before its last call',
      (turn) => turn.guard('pay', async ({ call }) => [await call('look', 17), await call('pay', 17)]),
    ],
  ];

  /** Pays, and fails meanwhile in its first attempt; the payment ends when the test says so. */
  async function failWhile(begin: (typeof WAYS)[number][1]) {
    const world = new World();
    const keys: string[] = [];
    let end = (): void => undefined;
    const ended = new Promise<void>((resolve) => (end = resolve));
    const pay = (_: unknown, { idempotencyKey }: { readonly idempotencyKey: string }) => {
      keys.push(idempotencyKey);
      return ended.then(() => 'paid');
    };
    const createAgent = (): LoopAgent => ({
      tools: { pay: { run: pay, undo: () => void keys.push('undone') }, look: { run: () => 'open' } },
      handle: async (_, turn) => {
        const failing = turn.attempt === 1 ? Promise.reject(new Error('look-up failed')) : undefined;
        await Promise.all([begin(turn, pay), failing]);
      },
    });
    const life = await world.start({ createAgent });
    await life.loop.deliver({ id: 'm1', body: null });
    await world.clock.pass(MINUTE);
    const turns = () => life.events.flatMap((event) => (event.kind === 'turn' ? [event.status] : []));
    return { world, keys, turns, end };
  }

  test.each(WAYS)('[loop.3] %s: it is waited for, and not done again', async (_, begin) => {
    const { world, keys, turns, end } = await failWhile(begin);
    expect([keys.length, turns()]).toEqual([1, []]);
    end();
    await world.clock.pass(MINUTE);
    expect([keys.length, turns()]).toEqual([1, ['failed', 'done']]);
  });

  test('[loop.3] what does not end within the time of a turn is done again with its key', async () => {
    const { world, keys, turns, end } = await failWhile((turn) => turn.call('pay', 17));
    await world.clock.pass(10 * MINUTE);
    expect([keys.length, new Set(keys).size, turns()]).toEqual([2, 1, ['failed']]);
    end();
    await world.clock.settle();
    expect([keys.length, turns()]).toEqual([2, ['failed', 'done']]);
  });
});
