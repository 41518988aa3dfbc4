import { expect, test } from 'vitest';
import { Checkpoint, type CheckpointJson } from '../../core/record/checkpoint.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { CheckpointStorage } from './checkpoint-storage.ts';

type Change = (json: CheckpointJson) => unknown;

/** What a process that ended leaves: rows of JSON. */
class Table implements CheckpointStorage {
  readonly rows = new Map<string, string>();
  change: Change = (json) => json;

  async save(checkpoint: Checkpoint): Promise<string> {
    this.rows.set(checkpoint.id, JSON.stringify(checkpoint));
    return checkpoint.id;
  }

  async load(id: string): Promise<Checkpoint | null> {
    const row = this.rows.get(id);
    return row === undefined ? null : Checkpoint.fromJSON(this.change(JSON.parse(row) as CheckpointJson));
  }

  async listByUser(userId: string, limit: number, offset: number): Promise<Checkpoint[]> {
    return this.list((one) => one.userId === userId).slice(offset, offset + limit);
  }

  list(isWanted: (one: Checkpoint) => boolean): Checkpoint[] {
    const all = [...this.rows.values()].map((row) => Checkpoint.fromJSON(JSON.parse(row)));
    return all.filter(isWanted).toReversed();
  }
}

class TableBySession extends Table {
  async listBySession(sessionId: string, limit: number, offset: number): Promise<Checkpoint[]> {
    return this.list((one) => one.sessionId === sessionId).slice(offset, offset + limit);
  }
}

/** Saves an agent in one process, twice in one branch and once in another. */
async function fill(storage: CheckpointStorage) {
  const manager = new CheckpointManager({ storage });
  const agent = { id: 'a', userId: 'u', n: 1 };
  const first = await manager.save(agent);
  agent.n = 2;
  await manager.save(agent);
  const restored = await manager.restore<typeof agent>(first);
  restored.n = 9;
  await manager.save(restored);
  return first;
}

test('[whole.1] with listBySession, sessions and saves of objects go on in another process', async () => {
  const storage = new TableBySession();
  const first = await fill(storage);
  const manager = new CheckpointManager({ storage });
  const session = await manager.session('a');
  expect([session.state, session.head?.sequence]).toEqual([{ id: 'a', userId: 'u', n: 2 }, 2]);
  expect(await manager.branches('a')).toHaveLength(2);
  const third = await manager.get(await session.save({ id: 'a', userId: 'u', n: 3 }));
  expect(third).toMatchObject({ sequence: 3, branch: 'main' });
  const other = new CheckpointManager({ storage });
  expect(await other.get(await other.save({ id: 'a', userId: 'u', n: 4 }))).toMatchObject({ sequence: 4 });
  await other.rewind(first);
  expect((await other.tree('a')).roots).toEqual([first]);
});

test('[whole.1] long sessions are read page by page', async () => {
  const storage = new TableBySession();
  const manager = new CheckpointManager({ storage });
  const agent = { id: 'a', n: 0 };
  for (agent.n = 1; agent.n <= 450; agent.n++) await manager.save(agent);
  const { state, head } = await new CheckpointManager({ storage }).session('a');
  expect([state, head?.sequence]).toEqual([{ id: 'a', n: 450 }, 450]);
});

test('[whole.1] without it, a session that this process did not save is refused', async () => {
  const storage = new Table();
  await fill(storage);
  const manager = new CheckpointManager({ storage });
  await expect(manager.session('a')).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: expect.stringContaining('listBySession'),
  });
  await manager.save({ id: 'b', n: 1 });
  expect((await manager.session('b')).state).toEqual({ id: 'b', n: 1 });
});

/** As PostgreSQL orders the keys of jsonb: shorter ones first. */
function reorder(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key, reorder(inner)] as const);
  return Object.fromEntries(entries.toSorted(([a], [b]) => a.length - b.length || (a < b ? -1 : 1)));
}

test('[whole.1] a storage that puts keys into another order is told so', async () => {
  const storage = new Table();
  const id = await new CheckpointManager({ storage }).save({ zebra: 1, ant: 2 });
  storage.change = reorder;
  await expect(new CheckpointManager({ storage }).load(id)).rejects.toMatchObject({
    code: 'CORRUPT',
    message: expect.stringMatching(/another order.*jsonb/),
  });
  storage.change = ({ state, ...header }) => ({ ...header, state: reorder(state) });
  await expect(new CheckpointManager({ storage }).load(id)).rejects.toMatchObject({
    code: 'CORRUPT',
    message: expect.stringContaining('order of keys'),
  });
});
