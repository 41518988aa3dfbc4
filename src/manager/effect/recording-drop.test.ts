import { describe, expect, test } from 'vitest';
import { STORAGES } from '../../../test/support/storages.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import type { Session } from '../session/session.ts';

/** A result that takes chunks of its own. */
const answerOf = (turn: number) => Array.from({ length: 30 }, (_, at) => `turn ${turn}, line ${at}, `.repeat(30));

async function play(session: Session, turns: readonly number[]): Promise<number[]> {
  const ran: number[] = [];
  for (const turn of turns) {
    const answer = () => {
      ran.push(turn);
      return answerOf(turn);
    };
    expect(await session.step('model', answer, { input: turn })).toEqual(answerOf(turn));
  }
  return ran;
}

describe.each(STORAGES)('dropRecordings on %s', (_, create) => {
  /** Turns 0 to 9, each but the last followed by a checkpoint. */
  async function playTen() {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('s');
    const checkpoints = [];
    for (let turn = 0; turn < 9; turn++) {
      await play(session, [turn]);
      checkpoints.push(await session.save({ turn }));
    }
    await play(session, [9]);
    return { storage, manager, checkpoints };
  }

  const resultsIn = async (storage: ReturnType<typeof create>['storage']) =>
    (await storage.readEffects({ sessionId: 's' })).flatMap(({ ordinal, result }) =>
      result === undefined ? [] : [ordinal],
    );

  test('[effect.6] what no kept checkpoint goes on from is dropped, with its space', async () => {
    const { storage, manager } = await playTen();
    expect(await manager.dropRecordings('s')).toBe(1); // before the first checkpoint
    const before = await storage.stats();
    await manager.prune({ policy: { keepLast: 2 } });
    expect(await manager.dropRecordings()).toBe(7);
    expect(await resultsIn(storage)).toEqual([8, 9]);
    await manager.gc();
    expect((await storage.stats()).chunks).toBeLessThan(before.chunks / 3);
    expect(await manager.dropRecordings()).toBe(0);
    expect((await manager.verify()).findings).toEqual([]);
    await manager.close();
  });

  test('[effect.6] the session goes on from its head, and from each checkpoint it has, as before', async () => {
    const { manager, checkpoints } = await playTen();
    await manager.prune({ policy: { keepLast: 2 } });
    await manager.dropRecordings('s');
    expect(await play(await manager.session('s'), [9, 10])).toEqual([10]);
    await manager.fork(checkpoints[7] as string, { branch: 'again' });
    expect(await play(await manager.session('s', { branch: 'again', mode: 'frozen' }), [8, 9])).toEqual([]);
    await manager.close();
  });

  test('[effect.6] to replay a dropped step is refused, and says why', async () => {
    const { manager } = await playTen();
    await manager.dropRecordings('s');
    const session = await manager.session('s', { replayFrom: 'start' });
    await expect(session.step('model', () => 1, { input: 0 })).rejects.toMatchObject({
      code: 'REPLAY_MISMATCH',
      message: expect.stringContaining('dropped'),
    });
    await manager.close();
  });

  test('[effect.6] steps of a branch without a checkpoint of its own, and of a session without any, are kept', async () => {
    const { storage, manager, checkpoints } = await playTen();
    await manager.fork(checkpoints[4] as string, { branch: 'other' });
    await play(await manager.session('s', { branch: 'other' }), [20, 21]);
    const only = await manager.session('t');
    await play(only, [1, 2]);
    await manager.dropRecordings();
    expect(await play(await manager.session('s', { branch: 'other' }), [20, 21, 22])).toEqual([22]);
    expect(await play(await manager.session('t'), [1, 2])).toEqual([]);
    expect((await resultsIn(storage)).length).toBeGreaterThan(0);
    await manager.close();
  });

  test('[effect.6] what was in flight when a kept checkpoint was saved is kept', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('s');
    await play(session, [0]);
    let finish = (): void => undefined;
    const slow = session.step('slow', () => new Promise<string>((resolve) => (finish = () => resolve('late'))));
    await play(session, [1]);
    await session.save({ turn: 1 });
    finish();
    await slow;
    expect(await manager.dropRecordings('s')).toBe(1);
    const again = await manager.session('s');
    expect(await again.step('slow', () => 'run again')).toBe('late');
    await manager.close();
  });
});

test('[effect.6] what dropping reads grows with the branches, not with their square', async () => {
  const read = { refs: 0 };
  class Counting extends InMemoryCheckpointStorage {
    override async readRefs(filter = {}) {
      const refs = await super.readRefs(filter);
      read.refs += refs.length;
      return refs;
    }
  }
  const manager = new CheckpointManager({ storage: new Counting() });
  const session = await manager.session('s');
  await play(session, [1]);
  const head = await session.save({});
  for (let n = 0; n < 50; n++) await manager.fork(head, { branch: `b${n}` });
  read.refs = 0;
  expect(await manager.dropRecordings('s')).toBe(1);
  expect(read.refs).toBeLessThan(200);
});
