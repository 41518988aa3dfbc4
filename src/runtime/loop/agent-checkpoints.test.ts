import { expect, test } from 'vitest';
import { HOUR, MINUTE, World } from '../../../test/loop/world.ts';
import { LATER } from '../../../test/support/later.ts';
import { StorageError } from '../../core/errors.ts';
import type { ChunkStorage, Commit } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import type { LoopAgent } from './index.ts';

const NEVER = new Promise<never>(() => undefined);

/** A storage that lets the test in before each mark on a checkpoint is stored. */
function withMarks(onMark: (target: string) => Promise<void> | void): ChunkStorage {
  return new Proxy(new InMemoryCheckpointStorage(), {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      if (name !== 'commit') return value.bind(target);
      return async (commit: Commit) => {
        for (const { kind, target: marked } of commit.refs ?? []) if (kind === 'mark') await onMark(String(marked));
        return target.commit(commit);
      };
    },
  });
}

/** Guards one operation per message; its tool does what the body says. */
function guarding(calls: string[], act: (body: unknown) => unknown): () => LoopAgent {
  return () => ({
    tools: {
      act: {
        run: (input, { idempotencyKey }) => {
          calls.push(idempotencyKey);
          return act(input);
        },
      },
    },
    handle: async ({ body }, turn) => {
      await turn.guard('g', (operation) => operation.call('act', body));
    },
  });
}

const failIf = (body: unknown): void => {
  if (body === 'fail') throw new Error('it failed');
};

test('[loop.15] an operation that succeeded is not done again because its checkpoint was deleted meanwhile', async () => {
  const calls: string[] = [];
  let isDeleting = false;
  const world: World = new World(
    withMarks(async (id) => {
      if (isDeleting) isDeleting = !(await world.look().delete(id));
    }),
  );
  const life = await world.start({ createAgent: guarding(calls, failIf), drift: false });
  await life.loop.deliver({ id: 'm1', body: 'fail' });
  await world.clock.settle();
  const [failed] = await world.history({ type: 'pre_operation' });
  isDeleting = true;
  await life.loop.deliver({ id: 'm2', body: 'succeed' });
  await world.clock.pass(5 * MINUTE);
  expect(isDeleting).toBe(false); // it was deleted in the moment between the look and the mark
  expect((await world.history()).map(({ id }) => id)).not.toContain(failed?.id);
  expect(calls.length).toBe(2);
  expect(life.events.filter(({ kind }) => kind === 'turn')).toMatchObject([{ status: 'done' }, { status: 'done' }]);
});

test('[loop.15] nor because the storage does not take the mark; that is tried again with the next one', async () => {
  const calls: string[] = [];
  let isFailing = true;
  const world = new World(
    withMarks(() => {
      if (isFailing) throw new StorageError('The disk is full.');
    }),
  );
  const life = await world.start({ createAgent: guarding(calls, failIf), drift: false });
  await life.loop.deliver({ id: 'm1', body: 'succeed' });
  await world.clock.pass(31 * MINUTE);
  expect(calls.length).toBe(1);
  expect(life.loop.state.mailbox).toMatchObject({ processedCount: 1, pending: [] });
  expect(life.kinds()).toContain('storage_failed');
  expect((await world.history({ type: 'pre_operation' })).length).toBe(1);
  isFailing = false;
  await life.loop.deliver({ id: 'm2', body: 'succeed' });
  await world.clock.pass(HOUR);
  expect(calls.length).toBe(2);
  expect(await world.history({ type: 'pre_operation' })).toEqual([]);
});

test('[loop.15] checkpoints of interrupted operations go when one of their name succeeds; before, two are kept', async () => {
  const world = new World();
  const calls: string[] = [];
  const kept = async () => (await world.history({ type: 'pre_operation' })).length;
  for (let life = 1; life <= 4; life++) {
    const process = await world.start({
      createAgent: guarding(calls, () => {
        process.die();
        return NEVER;
      }),
    });
    await process.loop.deliver({ id: `m${life}`, body: null, delivery: 'at-most-once' });
    await process.death;
    await world.clock.settle();
  }
  expect(calls.length).toBe(4);
  const last = await world.start({ createAgent: guarding(calls, failIf), drift: false });
  await world.clock.pass(HOUR);
  expect(await kept()).toBe(2);
  await last.loop.deliver({ id: 'm5', body: 'fail' });
  await world.clock.pass(HOUR);
  expect(await kept()).toBe(1); // of several failures the last one's
  await last.loop.deliver({ id: 'm6', body: 'succeed' });
  await world.clock.pass(HOUR);
  expect(await kept()).toBe(0);
  expect(last.loop.state.mailbox.setAside.map(({ message }) => message.id)).toEqual(['m1', 'm2', 'm3', 'm4']);
});

test.each(['stopped', 'killed'])(
  '[loop.15] processes that live shorter than routineEveryMs, and are %s, leave none of them behind',
  async (end) => {
    const world = new World();
    for (let life = 1; life <= 5; life++) {
      const process = await world.start({ createAgent: guarding([], failIf), drift: false });
      await process.loop.deliver({ id: `m${life}`, body: 'succeed' });
      await world.clock.pass(MINUTE);
      if (end === 'stopped') await process.loop.stop();
      else process.die();
      await world.clock.pass(HOUR);
    }
    const left = end === 'stopped' ? 0 : 1; // that of the last one
    expect((await world.history({ type: 'pre_operation' })).length).toBe(left);
  },
);

test('[loop.15] one that is under way is not given up because another of its name ends', async () => {
  const world = new World();
  const ends: (() => void)[] = [];
  const createAgent = (): LoopAgent => ({
    tools: { act: { run: (input) => (input === 'at once' ? 1 : new Promise<void>((resolve) => ends.push(resolve))) } },
    handle: async (_, turn) => {
      const slow = turn.guard('g', (operation) => operation.call('act', 'slowly'));
      await turn.guard('g', (operation) => operation.call('act', 'at once'));
      await slow;
    },
  });
  const life = await world.start({ createAgent, settings: { turnTimeoutMs: 24 * HOUR } });
  await life.loop.deliver({ id: 'm1', body: null });
  await world.clock.pass(2 * HOUR);
  expect((await world.history({ type: 'pre_operation' })).length).toBe(1);
  for (const end of ends) end();
  await world.clock.pass(HOUR);
  expect(await world.history({ type: 'pre_operation' })).toEqual([]);
});

test('[loop.15] of operations with ever new names that never succeed the last 100 are kept', LATER, async () => {
  const world = new World();
  const createAgent = (): LoopAgent => ({
    tools: { act: { run: () => failIf('fail') } },
    handle: async ({ id }, turn) => {
      await turn.guard(`deploy ${id}`, (operation) => operation.call('act', null));
    },
  });
  const life = await world.start({ createAgent, drift: false });
  for (let number = 1; number <= 105; number++) await life.loop.deliver({ id: `m${number}`, body: null });
  await world.clock.pass(HOUR);
  const names = (await world.history({ type: 'pre_operation' })).map(({ metadata }) => metadata?.operation);
  expect(names.length).toBeLessThanOrEqual(101); // and the one under way
  expect(names.at(-1)).toBe('deploy m105');
});

test('[loop.12] a tag that someone removed by hand is no obstacle', async () => {
  const world = new World();
  let status: 'healthy' | 'suspect' = 'suspect';
  const read = () => ({ status, score: 0, signals: [], summary: '' });
  const nothing = () => undefined;
  const watch = { observe: read, assess: async () => read(), snapshot: () => 1, restore: nothing, reset: nothing };
  const life = await world.start({ createAgent: guarding([], failIf), drift: { watch } });
  await life.loop.deliver({ id: 'm1', body: null });
  await world.clock.pass(31 * MINUTE);
  await world.look().untag('agent-1', 'last-healthy');
  status = 'healthy';
  await life.loop.deliver({ id: 'm2', body: null });
  await world.clock.pass(31 * MINUTE);
  expect((await world.history({ type: 'routine' })).at(-1)?.metadata?.health).toBe('healthy');
  expect(life.loop.status).toBe('running');
});
