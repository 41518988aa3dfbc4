import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { Checkpoint } from '../../core/record/checkpoint.ts';
import type { Deletion } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { Workers } from '../workers/workers.ts';

/** A promise that is resolved from outside. */
class Gate {
  release: () => void = () => undefined;
  readonly released = new Promise<void>((resolve) => {
    this.release = resolve;
  });
}

/** Deletes only when it is let. */
class HangingStorage extends InMemoryCheckpointStorage {
  deletions = 0;
  readonly #gate = new Gate();
  readonly release = this.#gate.release;

  override async deleteCheckpoints(deletions: readonly Deletion[], options?: { readonly force?: boolean }) {
    this.deletions++;
    await this.#gate.released;
    return super.deleteCheckpoints(deletions, options);
  }
}

/** Whether a promise is still open after everything that can happen by itself has happened. */
async function isOpen(promise: Promise<unknown>): Promise<boolean> {
  let isDone = false;
  const note = () => {
    isDone = true;
  };
  promise.then(note, note);
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  return !isDone;
}

async function saveRoutine(manager: CheckpointManager, count: number): Promise<void> {
  for (let n = 0; n < count; n++) await manager.save({ n }, { sessionId: 's', type: 'routine' });
}

describe('retention after a save', () => {
  // Node asks each one about every promise from its first use on, also when its manager is closed.
  test('shares one async context between all managers of a program', async () => {
    const run = vi.spyOn(AsyncLocalStorage.prototype, 'run');
    onTestFinished(() => run.mockRestore());
    for (let count = 0; count < 3; count++) {
      const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
      await saveRoutine(manager, 4);
      await manager.close();
    }
    expect(new Set(run.mock.contexts).size).toBe(1);
  });

  test('[retention.13] does not make it wait; who looks does, and so does close', async () => {
    const storage = new HangingStorage();
    const manager = new CheckpointManager({ storage });
    const group = await new Workers(manager).saveGroup([{ name: 'a', agent: { id: 'a' } }], { groupId: 'g' });
    await saveRoutine(manager, 6);
    expect(await isOpen(manager.engine.settled())).toBe(true);
    expect(storage.deletions).toBe(1);
    const looks = [
      manager.list({ sessionId: 's' }),
      manager.load(group.id),
      manager.open(group.id),
      manager.restore(group.id),
      new Workers(manager).restoreGroup(group.id),
      manager.latest(),
      manager.stats(),
      manager.tree('s'),
      manager.branches('s'),
      manager.verify(),
      manager.prune({ dryRun: true }),
      manager.gc(),
      manager.exportSession('s').next(),
    ];
    for (const look of looks) expect(await isOpen(look)).toBe(true);
    storage.release();
    const [page] = await Promise.all(looks);
    expect((page as { checkpoints: unknown[] }).checkpoints).toHaveLength(3);
    await manager.close();
    const hanging = new HangingStorage();
    const other = new CheckpointManager({ storage: hanging });
    await saveRoutine(other, 4);
    const closing = other.close();
    expect(await isOpen(closing)).toBe(true);
    hanging.release();
    await closing;
  });

  test('[retention.13] makes it wait when 256 saves are ahead', async () => {
    const storage = new HangingStorage();
    const manager = new CheckpointManager({ storage });
    await saveRoutine(manager, 256);
    let ahead = 256;
    let next: Promise<void>;
    do next = saveRoutine(manager, 1);
    while (!(await isOpen(next)) && ahead++ < 300);
    expect(ahead).toBeLessThanOrEqual(256 + 4); // the first three pushed nothing out
    storage.release();
    await next;
    expect((await manager.list()).checkpoints).toHaveLength(3);
  });

  test('[retention.13] lets handlers look while it deletes', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const seen: number[] = [];
    const look = async () => void seen.push((await manager.list()).checkpoints.length);
    manager.on('checkpoint_deleted', look, { await: true });
    manager.on('checkpoint_saved', look, { await: true });
    await saveRoutine(manager, 5);
    await manager.close();
    expect(seen).toEqual([1, 2, 3, expect.any(Number), expect.any(Number), expect.any(Number), expect.any(Number)]);
  });

  test('[retention.13] that fails is told as what it is, and once where a storage cannot delete', async () => {
    const rows = new Map<string, string>();
    const storage = {
      async save(one: Checkpoint) {
        rows.set(one.id, JSON.stringify(one));
        return one.id;
      },
      async load(id: string) {
        const row = rows.get(id);
        return row === undefined ? null : Checkpoint.fromJSON(JSON.parse(row));
      },
      async listByUser() {
        return [];
      },
    };
    const onHandlerError = vi.fn();
    const manager = new CheckpointManager({ storage, onHandlerError });
    await saveRoutine(manager, 6);
    await manager.engine.settled();
    expect(onHandlerError.mock.calls).toEqual([[expect.objectContaining({ code: 'UNSUPPORTED' }), 'retention']]);
    const warn = vi.spyOn(process, 'emitWarning').mockReturnValue(undefined);
    const quiet = new CheckpointManager({ storage });
    await saveRoutine(quiet, 4);
    await quiet.engine.settled();
    expect(warn.mock.calls).toEqual([[expect.stringMatching(/^Retention after a save failed: /), 'SavestateWarning']]);
    warn.mockRestore();
  });
});

describeOn(STORAGES)('retention beside saves on %s', (_, create) => {
  test('[retention.13] sessions that are ended while they are saved to begin anew; no save fails', async () => {
    const manager = new CheckpointManager({ storage: create().storage, retention: { maxCheckpoints: 3 } });
    const agents = Array.from({ length: 6 }, (_, n) => ({ id: `a${n}`, n: 0, notes: ['x'.repeat(2000)] }));
    for (let round = 0; round < 8; round++) {
      for (const agent of agents) {
        agent.n++;
        await manager.save(agent);
      }
    }
    await Promise.all(agents.map((agent) => manager.save(agent)));
    const { checkpoints } = await manager.list();
    expect(checkpoints.length).toBeLessThanOrEqual(3);
    for (const { id, agentId } of checkpoints)
      expect(await manager.load(id)).toEqual(agents.find((agent) => agent.id === agentId));
    expect((await manager.verify({ readData: true })).findings).toEqual([]);
    await manager.close();
  });

  test('[retention.13] a save under way when its session is to end, or begun while it ends, is stored', async () => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage, retention: { maxCheckpoints: 2 } });
    const session = await manager.session('busy');
    await session.save({ n: 1 });
    await manager.save({ n: 1 }, { sessionId: 'idle' });
    const [ready, ending] = [new Gate(), new Gate()];
    const underWay = session.save({ n: 2 }, { after: ready.released });
    const begun: Promise<unknown>[] = [];
    const deleteSession = storage.deleteSession.bind(storage);
    storage.deleteSession = async (...given) => {
      if (given[0] === 'idle' && begun.length === 0) {
        begun.push(manager.save({ n: 2 }, { sessionId: 'idle' }));
        await ending.released;
      }
      return deleteSession(...given);
    };
    for (let n = 0; n < 4; n++) await manager.save({ id: `a${n}` });
    await vi.waitFor(() => expect(begun).toHaveLength(1), { timeout: 30_000 });
    expect(await isOpen(Promise.all(begun))).toBe(true);
    ending.release();
    await Promise.all(begun);
    await manager.list();
    ready.release();
    expect(await manager.load(await underWay)).toEqual({ n: 2 });
    expect((await manager.list()).checkpoints.length).toBeLessThanOrEqual(2);
    expect((await manager.verify({ readData: true })).findings).toEqual([]);
    await manager.close();
  });
});
