import { expect, test } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import type { Session } from '../session/session.ts';
import { StorageCopy } from '../transfer/copy-storage.ts';
import { formatEffect } from './effect-record.ts';

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

describeOn(STORAGES)('dropRecordings on %s', (_, create) => {
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

const REMOVING = STORAGES.filter(([name]) => name !== 'file'); // a folder keeps the places of steps

describeOn(REMOVING)('a log whose beginning was removed, on %s', (_, create) => {
  /** Twelve turns, of which the last two are left, on a session that has a fork of its head. */
  async function playAndDrop() {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('s');
    for (let turn = 0; turn < 12; turn++) {
      await play(session, [turn]);
      await session.save({ turn });
    }
    await play(session, [12]);
    await manager.prune({ policy: { keepLast: 2 } });
    expect(await manager.dropRecordings('s')).toBe(11);
    return { storage, manager, session };
  }
  const ordinalsIn = async (storage: ChunkStorage) =>
    (await storage.readEffects({ sessionId: 's' })).map(({ ordinal }) => ordinal);

  test('[effect.6] has no rows of steps that no kept checkpoint goes on from, and goes on as before', async () => {
    const { storage, manager, session } = await playAndDrop();
    expect(await ordinalsIn(storage)).toEqual([11, 12]);
    expect(await manager.dropRecordings()).toBe(0);
    expect(await play(session, [13])).toEqual([13]);
    expect(await play(await manager.session('s'), [12, 13, 14])).toEqual([14]);
    expect(await manager.verify()).toMatchObject({ status: 'clean', effects: 4 });
    await manager.close();
  });

  test('[effect.6] no step is replayed from its start, whatever it is called', async () => {
    const { manager } = await playAndDrop();
    for (const mode of ['live', 'recorded', 'frozen'] as const) {
      const again = await manager.session('s', { replayFrom: 'start', mode });
      const ran: string[] = [];
      const step = (name: string, input: number) => again.step(name, () => ran.push(name), { input });
      for (const name of ['model', 'other'])
        await expect(step(name, 12)).rejects.toMatchObject({ code: 'REPLAY_MISMATCH', details: { branch: 'main' } });
      expect(ran).toEqual([]);
      await again.close();
    }
    await manager.close();
  });

  test('[session.4] is exported, brought in, copied and mirrored as it is', async () => {
    const { storage, manager, session } = await playAndDrop();
    const there = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    await there.importSession(manager.exportSession('s'));
    expect((await there.verify()).findings).toEqual([]);
    expect(await play(await there.session('s'), [12, 13])).toEqual([13]);
    const target = new InMemoryCheckpointStorage();
    const copy = async (mirror: boolean) => (await new StorageCopy(storage, target, { mirror }).run()).sessions;
    expect(await copy(false)).toMatchObject([{ problems: [] }]);
    expect(await ordinalsIn(target)).toEqual([11, 12]);
    await play(session, [13]);
    for (const turn of [14, 15]) await session.save({ turn });
    await manager.prune({ policy: { keepLast: 2 } });
    await manager.dropRecordings('s');
    expect(await copy(true)).toMatchObject([{ problems: [] }]);
    expect(await ordinalsIn(target)).toEqual([]);
    expect((await new CheckpointManager({ storage: target }).verify()).findings).toEqual([]);
    await manager.close();
  });

  test('[effect.6] a step that is missing and was not dropped is damage', async () => {
    const { storage, manager } = await playAndDrop();
    await storage.dropEffects?.({ sessionId: 's' as SessionId, branch: 'main', before: 12, limit: 10 });
    expect((await manager.verify()).findings).toMatchObject([
      { problem: 'it recorded 13 effects, the first 11 of which were dropped, and 1 of the others are there' },
    ]);
    const lines = async () => {
      for await (const _line of manager.exportSession('s'));
    };
    await expect(lines()).rejects.toMatchObject({ code: 'CORRUPT' });
    await storage.dropEffects?.({ sessionId: 's' as SessionId, branch: 'main', before: 13, limit: 10 });
    await expect(manager.session('s')).rejects.toMatchObject({ code: 'CORRUPT' });
    await manager.close();
  });

  test('[effect.6] an outcome that comes after its step was dropped is no damage, and goes with the next', async () => {
    const { storage, manager } = await playAndDrop();
    const late = formatEffect(
      { sessionId: 's' as SessionId, branch: 'main' },
      {
        ordinal: 3,
        name: 'model',
        status: 'done',
        attempt: 1,
        idempotencyKey: 'late',
        startedAtMs: 1,
      },
      { text: '1', refs: [] },
    );
    await storage.commit({ sessionId: 's' as SessionId, effects: [late] });
    expect((await manager.verify()).findings).toEqual([]);
    const there = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    await there.importSession(manager.exportSession('s'));
    expect((await there.verify()).effects).toBe(2);
    expect(await manager.dropRecordings('s')).toBe(1);
    await manager.close();
  });

  test('[effect.6] calls of agents keep their keys while an older checkpoint of another branch is kept', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const session = await manager.session('s');
    const old = await session.save({ turn: -1 });
    await manager.rewind(old, { branch: 'second' });
    const second = await manager.session('s');
    const place = { name: 'job', digest: null, nth: 0 };
    for (let turn = 0; turn < 4; turn++) {
      await second.step('plain', () => turn);
      await second.step('call', () => turn, { work: { ...place, key: `key ${turn}` } });
      await second.save({ turn });
    }
    await manager.prune({ policy: { keepLast: 1 } });
    await manager.dropRecordings('s');
    const keys = async () =>
      (await storage.readEffects({ sessionId: 's' })).map(({ body }) => JSON.parse(body).idempotencyKey);
    expect(await keys()).toEqual(expect.arrayContaining(['key 0', 'key 1', 'key 2', 'key 3']));
    expect(await keys()).toHaveLength(7);
    expect((await manager.verify()).findings).toEqual([]);
    await manager.deleteBranch('s', 'main');
    await manager.prune({ policy: { keepLast: 1 } });
    await manager.dropRecordings('s');
    expect(await keys()).toEqual([]);
    expect((await manager.verify()).findings).toEqual([]);
    await manager.close();
  });
});

describeOn(REMOVING)('a fork of what was dropped, on %s', (_, create) => {
  /** Five turns on main, and a fork of the second that has a checkpoint of its own. */
  async function fork() {
    const manager = new CheckpointManager({ storage: create().storage });
    const session = await manager.session('s', { initial: { turn: 0 } });
    const ids: string[] = [];
    for (let turn = 0; turn < 5; turn++) {
      await play(session, [turn]);
      ids.push(await session.save({ turn }));
    }
    await session.close();
    await manager.rewind(ids[1] ?? '', { branch: 'fork', edit: [{ op: 'replace', path: '/turn', value: 100 }] });
    const open = () => manager.session('s', { branch: 'fork', mode: 'recorded', initial: { turn: 0 } });
    /** Leaves the heads, and drops what they do not need. */
    const drop = async () => {
      await manager.prune({ policy: { keepLast: 1 } });
      await manager.dropRecordings('s');
    };
    return { manager, open, drop };
  }

  test('[effect.6] is not replayed with what is left of the recordings', async () => {
    const { manager, open, drop } = await fork();
    await drop();
    const session = await open();
    const ran = session.step('model', () => 'ran', { input: 4 });
    await expect(ran).rejects.toMatchObject({ code: 'REPLAY_MISMATCH', details: { branch: 'main' } });
    await manager.close();
  });

  test('[effect.6] goes on with the recordings that it has not taken over yet', async () => {
    const { manager, open, drop } = await fork();
    const session = await open();
    expect(await play(session, [2])).toEqual([]);
    await session.save({ turn: 2 });
    await session.close();
    await manager.deleteBranch('s', 'main');
    await drop();
    expect(await play(await open(), [3, 4, 5])).toEqual([5]);
    await manager.close();
  });

  test('[effect.6] that went its own way does not come back to them', async () => {
    const { manager, open, drop } = await fork();
    const session = await manager.session('s', { branch: 'fork' });
    expect(await play(session, [2])).toEqual([2]);
    await session.save({ turn: 2 });
    await session.close();
    await manager.deleteBranch('s', 'main');
    await drop();
    expect(await manager.engine.storage.readEffects({ sessionId: 's', branch: 'fork' })).toEqual([]);
    expect(await play(await open(), [3])).toEqual([3]);
    expect((await manager.verify()).findings).toEqual([]);
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
