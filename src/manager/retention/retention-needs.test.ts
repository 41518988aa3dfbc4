import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { formatTombstone } from '../engine/records.ts';
import { judge, type RetentionCase, type RetentionPolicy } from './retention.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const NOW_MS = Date.UTC(2026, 10, 15, 12);

const idOf = (number: number) => `chk_${String(number).padStart(22, '0')}` as CheckpointId;

type Fields = Partial<Pick<CheckpointHeader, 'type' | 'timestampMs' | 'userId'>> & {
  readonly parent?: number;
  readonly needs?: boolean;
  readonly sessionId?: string;
};

function header(number: number, { parent, needs = false, sessionId = 's', ...fields }: Fields = {}): CheckpointHeader {
  return {
    id: idOf(number),
    sessionId: sessionId as SessionId,
    branch: 'main',
    ...(parent !== undefined && { parentId: idOf(parent) }),
    ...(needs && { needsParent: true }),
    sequence: number,
    type: 'manual',
    timestampMs: NOW_MS,
    stateDigest: 'digest' as Digest,
    stateBytes: 1,
    ...fields,
  };
}

/** One after the other; those that `isWhole` do not need their parent. */
const chain = (count: number, isWhole: (number: number) => boolean, fields: (number: number) => Fields = () => ({})) =>
  Array.from({ length: count }, (_, at) =>
    header(at + 1, { ...(at > 0 && { parent: at, needs: !isWhole(at + 1) }), ...fields(at + 1) }),
  );

async function decide(
  checkpoints: readonly CheckpointHeader[],
  policy: RetentionPolicy,
  rest: Partial<RetentionCase> = {},
): Promise<{ kept: number[]; reasons: Record<number, string> }> {
  const verdicts = await judge({ checkpoints, policy, protections: new Map(), nowMs: NOW_MS, ...rest });
  const numberOf = (id: CheckpointId) => Number(id.slice(4));
  return {
    kept: verdicts.flatMap(({ id, keep }) => (keep ? [numberOf(id)] : [])).sort((a, b) => a - b),
    reasons: Object.fromEntries(verdicts.map(({ id, reason }) => [numberOf(id), reason])),
  };
}

describe('verdicts', () => {
  test('[retention.10] what is kept keeps its ancestors up to one that does not need its own, and says so', async () => {
    const { kept, reasons } = await decide(
      chain(8, (number) => number === 4),
      { keepLast: 2 },
    );
    expect(kept).toEqual([4, 5, 6, 7, 8]);
    expect(reasons).toMatchObject({
      3: 'manual: no keep rule asks for it',
      4: `needed to read checkpoint ${idOf(8)}`,
      6: `needed to read checkpoint ${idOf(8)}`,
      7: 'among the last 2 of its session',
    });
  });

  test('[retention.10] whatever kept it: a rule, a tag, a running operation, an age', async () => {
    const linear = chain(6, (number) => number === 2);
    const protections = new Map([[idOf(4), ['tagged v1']]]);
    expect((await decide(linear, { keepLast: 0 }, { protections })).kept).toEqual([2, 3, 4]);
    const running = linear.map((one) => (one.id === idOf(3) ? { ...one, type: 'pre_operation' } : one));
    const policy = { types: { pre_operation: { untilCompleted: true } }, maxCheckpoints: 0 };
    expect((await decide(running, policy)).kept).toEqual([2, 3]);
    const aged = chain(
      6,
      (number) => number === 2,
      (number) => ({ timestampMs: NOW_MS - (6 - number) * DAY_MS }),
    );
    expect((await decide(aged, { keepWithinMs: DAY_MS })).kept).toEqual([2, 3, 4, 5, 6]);
    expect((await decide(aged, { maxAgeDays: 1 })).kept).toEqual([2, 3, 4, 5, 6]);
    expect((await decide(aged, { types: { manual: { keepLast: 1 } } })).kept).toEqual([2, 3, 4, 5, 6]);
  });

  test('[retention.10] forks keep what they share; an ancestor that is gone already is no obstacle', async () => {
    const forked = [header(1), ...[2, 3, 4].map((number) => header(number, { parent: 1, needs: number !== 3 }))];
    const protections = new Map([[idOf(4), ['head of branch main']]]);
    expect((await decide(forked, { keepLast: 0 }, { protections })).kept).toEqual([1, 4]);
    expect((await decide(forked.slice(1), { keepLast: 0 }, { protections })).kept).toEqual([4]);
    const ofThird = new Map([[idOf(3), ['head of branch main']]]);
    expect((await decide(forked, { keepLast: 0 }, { protections: ofThird })).kept).toEqual([3]);
  });

  test('[retention.10] what a protected checkpoint needs is protected: it counts, and limits take others', async () => {
    const delta = chain(4, () => false);
    const plain = [5, 6, 7, 8].map((number) => header(number, { sessionId: 'other', userId: 'u' }));
    const protections = new Map([
      [idOf(4), ['head of branch main']],
      [idOf(8), ['head of branch main']],
    ]);
    const { kept, reasons } = await decide([...delta, ...plain], { maxCheckpoints: 6 }, { protections });
    expect(kept).toEqual([1, 2, 3, 4, 7, 8]);
    expect(reasons[1]).toBe('manual: no rule drops it');
    expect((await decide([...delta, ...plain], { keepLast: 0, maxCheckpoints: 0 }, { protections })).kept).toEqual([
      1, 2, 3, 4, 8,
    ]);
  });

  test('[retention.10] what merely is within a limit keeps what it needs beyond it, until it goes itself', async () => {
    const isWhole = (number: number) => number === 5;
    expect(
      (
        await decide(
          chain(8, isWhole),
          { maxCheckpoints: 5 },
          { protections: new Map([[idOf(8), ['head of branch main']]]) },
        )
      ).kept,
    ).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(
      (
        await decide(
          chain(9, isWhole),
          { maxCheckpoints: 5 },
          { protections: new Map([[idOf(9), ['head of branch main']]]) },
        )
      ).kept,
    ).toEqual([5, 6, 7, 8, 9]);
  });

  test('[retention.10] exactly the needed ones are added, whatever the lineage and the order', async () => {
    const row = fc.record({ parent: fc.nat(), needs: fc.boolean(), isPinned: fc.boolean(), ageDays: fc.nat(9) });
    const policies = fc.constantFrom<RetentionPolicy>(
      { keepLast: 2 },
      { maxAgeDays: 4 },
      { keepDaily: 2, keepLast: 0 },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(row, { maxLength: 30 }), policies, async (rows, policy) => {
        const headers = rows.map(({ parent, needs, ageDays }, at) =>
          header(at + 1, {
            ...(at > 0 && { parent: (parent % at) + 1, needs }),
            timestampMs: NOW_MS - ageDays * DAY_MS,
          }),
        );
        const protections = new Map(rows.flatMap(({ isPinned }, at) => (isPinned ? [[idOf(at + 1), ['pinned']]] : [])));
        const { kept, reasons } = await decide(headers, policy, { protections });
        expect(await decide(headers.toReversed(), policy, { protections })).toEqual({ kept, reasons });
        const roots = headers.map(({ id, timestampMs }) => header(Number(id.slice(4)), { timestampMs }));
        const expected = new Set((await decide(roots, policy, { protections })).kept);
        for (const one of headers.toReversed())
          if (expected.has(one.sequence) && one.needsParent) expected.add(Number(one.parentId?.slice(4)));
        expect(kept).toEqual([...expected].sort((a, b) => a - b));
      }),
    );
  });
});

type Chain = {
  readonly count: number;
  readonly whole?: readonly number[];
  readonly sessionId?: string;
  readonly on?: Checkpoint | undefined;
  /** The branch is not there yet. */
  readonly isNew?: boolean;
};

/** Saves checkpoints of which all but the first, and those that are named, need their parents. */
async function saveChain(
  manager: CheckpointManager,
  { count, whole = [], sessionId = 's', on, isNew = false }: Chain,
): Promise<Checkpoint[]> {
  const { engine } = manager;
  const saved: Checkpoint[] = on === undefined ? [] : [on];
  for (let number = 1; number <= count; number++) {
    const parent = saved.at(-1);
    const place = {
      sessionId: sessionId as SessionId,
      branch: 'main',
      parent,
      expect: isNew ? null : (parent?.id ?? null),
      needsParent: !whole.includes(number),
    };
    const encoded = engine.codec.encode({ number });
    const content = { described: { type: 'step' }, encoded, chunks: encoded.chunks };
    saved.push(await engine.write((writer) => writer.write(place, content)));
  }
  return saved;
}

async function numbersLeft(manager: CheckpointManager, sessionId = 's'): Promise<number[]> {
  const { checkpoints } = await manager.list({ sessionId }, { order: 'oldest', limit: 1000 });
  return checkpoints.map(({ sequence }) => sequence);
}

function erase(storage: ChunkStorage, checkpoint: Checkpoint): Promise<CheckpointId[]> {
  const body = formatTombstone(checkpoint, NOW_MS, 'behind the back of retention');
  return storage.deleteCheckpoints([{ id: checkpoint.id, body }], { force: true });
}

describeOn(STORAGES)('on %s', (_, create) => {
  test('[retention.10] prune leaves what the head, a tag and a pin need, as the dry run says, and nothing else', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const saved = await saveChain(manager, { count: 12, whole: [4, 8, 11] });
    await manager.tag(saved[5]?.id ?? '', 'v1');
    await manager.pin(saved[2]?.id ?? '');
    const { verdicts } = await manager.prune({ policy: { keepLast: 1 }, dryRun: true });
    const kept = [1, 2, 3, 4, 5, 6, 11, 12];
    expect(
      verdicts.flatMap(({ id, keep }) => (keep ? saved.findIndex((one) => one.id === id) + 1 : [])).sort(),
    ).toEqual(kept.toSorted());
    expect(verdicts.find(({ id }) => id === saved[4]?.id)?.reason).toBe(`needed to read checkpoint ${saved[5]?.id}`);
    await manager.prune({ policy: { keepLast: 1 } });
    expect(await numbersLeft(manager)).toEqual(kept);
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 8, tombstones: 4 });
    await manager.close();
  });

  test('[retention.10] so do the limits after each save, of the manager and of a type; also in sessions that nothing was needed in', async () => {
    const { storage } = create();
    const retention = { maxCheckpoints: 4, types: { step: { keepLast: 2 } } };
    const manager = new CheckpointManager({ storage, retention });
    for (let number = 1; number <= 3; number++) await manager.save({ number }, { sessionId: 'plain' });
    await manager.pin((await manager.latest({ sessionId: 'plain' }))?.id ?? '');
    await saveChain(manager, { count: 7, whole: [5] });
    // The last two need the fifth, and the four in all push out what is older, but not what is pinned.
    expect(await numbersLeft(manager)).toEqual([5, 6, 7]);
    expect(await numbersLeft(manager, 'plain')).toEqual([3]);
    await saveChain(manager, { count: 6, sessionId: 'other' });
    expect(await numbersLeft(manager, 'other')).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await manager.verify()).toMatchObject({ status: 'clean' });
    await manager.close();
  });

  test('[retention.11] a checkpoint that another needs is not deleted by hand, until that is gone', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const [first, second, third] = await saveChain(manager, { count: 4, whole: [4] });
    await expect(manager.delete(first?.id ?? '')).rejects.toMatchObject({
      code: 'CONFLICT',
      message: expect.stringContaining(`${second?.id} cannot be read whole without it`),
      details: { id: first?.id, neededBy: second?.id },
    });
    for (const one of [third, second, first]) expect(await manager.delete(one?.id ?? '')).toBe(true);
    expect(await numbersLeft(manager)).toEqual([4]);
    expect(await manager.verify()).toMatchObject({ status: 'clean' });
    await manager.close();
  });

  test('[retention.11] verify names a checkpoint whose parent it needs and is gone, and counts what needs that in turn', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const saved = await saveChain(manager, { count: 6, whole: [5] });
    const [, second, third, fourth] = saved;
    if (second !== undefined) await erase(storage, second);
    for (const readData of [true, false])
      expect(await manager.verify({ readData })).toMatchObject({
        status: 'damaged',
        findings: [
          {
            subject: `checkpoint ${third?.id}`,
            problem: `its state cannot be read whole: it needs its parent ${second?.id}, which was deleted`,
          },
        ],
        damagedCheckpoints: [third?.id, fourth?.id],
      });
    await manager.close();
  });
});

test('[retention.11] verify tells a parent that is missing from one that was deleted', async () => {
  const storage = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({ storage });
  const elsewhere = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const [stranger] = await saveChain(elsewhere, { count: 1 });
  // Nobody can save on a parent that is missing; damage can take it away.
  const { commit } = storage;
  storage.commit = (sent) => commit.call(storage, { ...sent, requires: [] });
  await saveChain(manager, { count: 1, on: stranger, isNew: true });
  const { findings, damagedCheckpoints } = await manager.verify();
  expect(findings.map(({ problem }) => problem)).toContain(
    `its state cannot be read whole: it needs its parent ${stranger?.id}, which is missing`,
  );
  expect(damagedCheckpoints).toHaveLength(1);
  await elsewhere.close();
  await manager.close();
});

test('[retention.10] a header without the need is written as before; callers of save cannot set it', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await manager.session('s');
  await session.save({ n: 1 });
  await expect(session.save({ n: 2 }, { needsParent: true } as never)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  for (const { header: saved } of (await manager.list({ sessionId: 's' })).checkpoints)
    expect(saved).not.toHaveProperty('needsParent');
  await manager.close();
});

describe('[retention.10] a head that is gone on from while it is judged stays', () => {
  test('by prune', async () => {
    const storage = new InMemoryCheckpointStorage();
    const manager = new CheckpointManager({ storage });
    const on = (await saveChain(manager, { count: 3 })).at(-1);
    const list = storage.listCheckpoints.bind(storage);
    storage.listCheckpoints = async (query) => {
      const rows = await list(query);
      storage.listCheckpoints = list;
      await saveChain(manager, { count: 1, on });
      return rows;
    };
    await manager.prune({ policy: { maxCheckpoints: 1 } });
    expect(await numbersLeft(manager)).toEqual([1, 2, 3, 4]);
    await manager.close();
  });

  test('by the limits after a save elsewhere', async () => {
    const storage = new InMemoryCheckpointStorage();
    const manager = new CheckpointManager({ storage, retention: { maxCheckpoints: 1 } });
    const on = (await saveChain(manager, { count: 3 })).at(-1);
    await (await manager.session('s')).lease(); // or the session would go whole
    const erasing = storage.deleteCheckpoints.bind(storage);
    let isGoneOn = false;
    storage.deleteCheckpoints = async (deletions, options) => {
      if (!isGoneOn) {
        isGoneOn = true;
        await saveChain(manager, { count: 1, on });
      }
      return erasing(deletions, options);
    };
    for (const n of [1, 2, 3]) await manager.save({ n }, { sessionId: 'other' });
    await manager.engine.settled();
    expect(isGoneOn).toBe(true);
    expect(await numbersLeft(manager)).toEqual([1, 2, 3, 4]);
    await manager.close();
  });
});

test('[retention.10] a save into a long session without needs reads only what is new there', async () => {
  const storage = new InMemoryCheckpointStorage();
  const manager = new CheckpointManager({ storage });
  for (let n = 0; n < 30; n++) await manager.save({ n }, { sessionId: 's', type: 'manual' });
  const read: number[] = [];
  const list = storage.listCheckpoints.bind(storage);
  storage.listCheckpoints = async (query) => {
    const rows = await list(query);
    if (query.order === 'oldest') read.push(rows.length);
    return rows;
  };
  for (let n = 0; n < 6; n++) {
    await manager.save({ n }, { sessionId: 's', type: 'routine' });
    await manager.engine.settled();
  }
  expect(read).toEqual([34, 1, 1]);
  await manager.close();
});
