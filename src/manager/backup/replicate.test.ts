import { expect, test, vi } from 'vitest';
import { STORAGES } from '../../../test/support/storages.ts';
import { StorageError } from '../../core/errors.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { type ReplicateOptions, replicate } from './replicate.ts';

const storageOf = (wanted: string) => STORAGES.find(([name]) => name === wanted)?.[1]().storage as ChunkStorage;
const wait = { timeout: 60_000, interval: 20 };

/** Begins to replicate; `end` stops it and returns its report. */
function begin(from: ChunkStorage, to: ChunkStorage, options: Partial<ReplicateOptions> = {}) {
  const stop = new AbortController();
  const done = replicate(from, to, { intervalMs: 5, ...options, signal: stop.signal });
  const end = () => {
    stop.abort();
    return done;
  };
  return { done, end };
}

async function exported(storage: ChunkStorage, sessionId: string): Promise<string> {
  const lines: string[] = [];
  for await (const line of new CheckpointManager({ storage }).exportSession(sessionId)) lines.push(line);
  return lines.join('');
}

test.each([
  ['sqlite', 'postgres'],
  ['postgres', 'sqlite'],
  ['memory', 'file'],
])('[backup.3] what is saved in %s is in %s soon after: steps, tags and forks too', async (source, target) => {
  const from = storageOf(source);
  const to = storageOf(target);
  const manager = new CheckpointManager({ storage: from });
  const session = await manager.session('trip', { initial: { n: 0 } });
  await session.save();
  const { end } = begin(from, to);
  const isSame = () =>
    vi.waitFor(async () => expect(await exported(to, 'trip')).toBe(await exported(from, 'trip')), wait);
  await isSame();
  session.state.n++;
  const id = await session.save();
  await isSame();
  let finish: (value: string) => void = () => undefined;
  const step = session.step(
    'slow',
    () =>
      new Promise<string>((resolve) => {
        finish = resolve;
      }),
  );
  await vi.waitFor(async () => expect(await to.readEffects({ sessionId: 'trip' })).toHaveLength(1), wait);
  finish('done'); // ends without a name being moved
  await step;
  await isSame();
  await manager.tag(id, 'good');
  await manager.fork(id, { branch: 'other' });
  const second = await manager.session('later', { initial: {} });
  await second.save();
  await isSame();
  await vi.waitFor(async () => expect(await to.listSessions({ limit: 9 })).toEqual(['later', 'trip']), wait);
  expect(await end()).toMatchObject({ status: 'complete', checkpoints: 3 });
  expect((await new CheckpointManager({ storage: to }).verify()).status).toBe('clean');
  for (const storage of [from, to]) await storage.close();
});

test('[backup.3] it goes on when either storage is away for a while', async () => {
  const from = new InMemoryCheckpointStorage();
  const to = new InMemoryCheckpointStorage();
  const away = { from: 0, to: 0 };
  const flaky = (storage: ChunkStorage, side: 'from' | 'to') =>
    new Proxy(storage, {
      get: (inner, key) => {
        const value: unknown = Reflect.get(inner, key);
        if (typeof value !== 'function') return value;
        return async (...given: unknown[]) => {
          if (away[side]-- > 0) throw new StorageError('The server is away.');
          return Reflect.apply(value, inner, given) as unknown;
        };
      },
    });
  const manager = new CheckpointManager({ storage: from });
  const session = await manager.session('trip', { initial: { n: 0 } });
  await session.save();
  const onError = vi.fn();
  const { end } = begin(flaky(from, 'from'), flaky(to, 'to'), { onError });
  for (const side of ['from', 'to', 'from', 'to'] as const) {
    away[side] = 2;
    session.state.n++;
    const id = await session.save();
    await vi.waitFor(
      async () => expect(await to.readRefs({ sessionId: 'trip', kind: 'branch' })).toMatchObject([{ target: id }]),
      wait,
    );
  }
  expect(onError).toHaveBeenCalled();
  expect(await end()).toMatchObject({ status: 'complete' });
});

test('[backup.3] a session that changed there by itself is reported and left alone, the others go on', async () => {
  const from = new InMemoryCheckpointStorage();
  const to = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({ storage: from });
  const session = await manager.session('trip', { initial: { n: 0 } });
  const other = await manager.session('other', { initial: { n: 0 } });
  await session.save();
  await other.save();
  const onPass = vi.fn<NonNullable<ReplicateOptions['onPass']>>();
  const { end } = begin(from, to, { onPass });
  const there = new CheckpointManager({ storage: to });
  // Names come last: whoever saved before they are there would begin the session anew.
  await vi.waitFor(async () => expect(await to.readRefs({ kind: 'branch' })).toHaveLength(2), wait);
  const theirs = await (await there.session('trip', { initial: { n: 0 } })).save({ n: 100 });
  session.state.n++;
  await session.save();
  await vi.waitFor(() => expect(onPass.mock.lastCall?.[0].sessions[0]?.problem).toContain(theirs), wait);
  other.state.n++;
  const id = await other.save();
  await vi.waitFor(async () => expect(await there.get(id)).toBeDefined(), wait);
  expect(await end()).toMatchObject({ status: 'partial' });
  expect((await there.latest({ sessionId: 'trip' }))?.id).toBe(theirs);
});

test('[backup.3] with mirror a session that is deleted here is deleted there', async () => {
  const from = new InMemoryCheckpointStorage();
  const to = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({ storage: from });
  for (const id of ['trip', 'other']) await (await manager.session(id, { initial: {} })).save();
  const { end } = begin(from, to, { mirror: true });
  await vi.waitFor(async () => expect(await to.listSessions({ limit: 9 })).toHaveLength(2), wait);
  await manager.deleteSession('other');
  await vi.waitFor(async () => expect(await to.listSessions({ limit: 9 })).toEqual(['trip']), wait);
  expect(await end()).toMatchObject({ deletedSessions: ['other'] });
});
