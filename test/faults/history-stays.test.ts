import { expect, test } from 'vitest';
import { applyPatch } from '../../src/core/diff/apply-patch.ts';
import type { CheckpointId } from '../../src/core/record/id.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../src/storage/memory/memory-storage.ts';
import { createRandom, type Random } from '../../src/testing/contract/random.ts';
import { reportFaults } from '../support/fault-report.ts';
import { trials } from '../support/trials.ts';

type State = { readonly n: number; readonly list: readonly number[]; readonly plan: { readonly tone: string } };

const ACTS = 8;
const DAY_MS = 86_400_000;
/** How far a clock that is set wrong may be off, in both directions. */
const JUMPS_MS = [1_000, 3_600_000, DAY_MS, 3_650 * DAY_MS] as const;

/** Everything that a storage holds of a checkpoint, as text. */
async function bytesOf(storage: InMemoryCheckpointStorage, id: CheckpointId): Promise<string> {
  const row = await storage.readCheckpoint(id);
  const chunks = await storage.readReachable(row?.root?.refs ?? []);
  return JSON.stringify([row?.digest, row?.body, row?.root, chunks.map(({ digest, text }) => [digest, text]).sort()]);
}

/** Does one thing that makes a branch or a checkpoint. */
async function act(
  manager: CheckpointManager,
  random: Random,
  ids: readonly CheckpointId[],
): Promise<CheckpointId | undefined> {
  const at = ids[random.below(ids.length)] as CheckpointId;
  const edit = (state: unknown) => ({ ...(state as State), n: random.below(100) });
  switch (random.below(5)) {
    case 0: {
      const { branch } = await manager.fork(at, { edit });
      return (await (
        await manager.session('s', { branch })
      ).save({ n: 1, list: [random.below(9)], plan: { tone: 'x' } })) as CheckpointId;
    }
    case 1:
      await manager.fork(at, {
        edit: (state) => applyPatch(state, [{ op: 'add', path: '/list/-', value: random.below(100) }]),
      });
      return undefined;
    case 2:
      await manager.fork(at);
      return undefined;
    case 3: {
      const state = (await manager.restore(at)) as { list: number[] };
      state.list.push(random.below(100));
      return undefined;
    }
    default: {
      const session = await manager.session('s');
      return session.update((draft) => void (draft as { list: number[] }).list.push(random.below(100)));
    }
  }
}

test('[session.2] whatever is forked, edited, restored and saved: what was saved before keeps its bytes', async () => {
  const failures: string[] = [];
  const total = trials(10_000);
  for (let seed = 1; seed <= total; seed++) {
    const random = createRandom(seed);
    const storage = new InMemoryCheckpointStorage();
    const manager = new CheckpointManager({ storage });
    const ids: CheckpointId[] = [await (await manager.session('s')).save({ n: 0, list: [1], plan: { tone: 'cool' } })];
    const before = new Map([[ids[0] as CheckpointId, await bytesOf(storage, ids[0] as CheckpointId)]]);
    for (let acts = 0; acts < ACTS; acts++) {
      const id = await act(manager, random, ids);
      if (id === undefined) continue;
      ids.push(id);
      before.set(id, await bytesOf(storage, id));
    }
    for (const [id, bytes] of before)
      if ((await bytesOf(storage, id)) !== bytes) failures.push(`SAVESTATE_SEED=${seed}: ${id}`);
  }
  reportFaults('random histories, earlier checkpoints unchanged', { trials: total, failures });
  expect(failures).toEqual([]);
});

test('a clock that jumps loses nothing, and the order of a history is that of its saves', async () => {
  const failures: string[] = [];
  const total = trials(1_000);
  for (let seed = 1; seed <= total; seed++) {
    const random = createRandom(seed);
    let nowMs = Date.UTC(2026, 0, 1);
    const storage = new InMemoryCheckpointStorage();
    const open = () => new CheckpointManager({ storage, now: () => nowMs, retention: { types: {} } });
    let manager = open();
    const saved: CheckpointId[] = [];
    for (let n = 0; n < 12; n++) {
      const jumpMs = random.pick(JUMPS_MS) * (random.below(2) === 0 ? 1 : -1);
      if (random.below(2) === 0) nowMs = Math.max(0, nowMs + jumpMs); // no clock shows a time before 1970
      if (random.below(4) === 0) manager = open(); // a process that knows no time before
      saved.push(await (await manager.session('s')).save({ n }));
    }
    const history = await (await open().session('s')).history();
    const states = await Promise.all(history.map(async ({ id }) => ((await manager.load(id)) as { n: number }).n));
    if (
      states.join() !==
      saved
        .map((_, n) => n)
        .reverse()
        .join()
    )
      failures.push(`seed ${seed}: ${states}`);
    if ([...saved].sort().join() !== saved.join()) failures.push(`seed ${seed}: ids are out of order`);
    const { findings } = await manager.verify();
    if (findings.length > 0) failures.push(`seed ${seed}: ${findings[0]?.problem}`);
  }
  reportFaults('clocks that jump', { trials: total, failures });
  expect(failures).toEqual([]);
});
