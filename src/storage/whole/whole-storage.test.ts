import { describe, expect, test } from 'vitest';
import { StateCodec } from '../../core/codec/state-codec.ts';
import { Checkpoint, type CheckpointJson } from '../../core/record/checkpoint.ts';
import { storageContract } from '../../testing/storage-contract.ts';
import type { CheckpointStorage } from './checkpoint-storage.ts';
import { WholeCheckpointStorage } from './whole-storage.ts';

/** The three methods of the requirement's example, over a table of JSON texts; `delete` is the optional fourth. */
class TableStorage implements CheckpointStorage {
  readonly #table = new Map<string, string>();

  async save(checkpoint: Checkpoint): Promise<string> {
    this.#table.set(checkpoint.id, JSON.stringify(checkpoint));
    return checkpoint.id;
  }

  async load(checkpointId: string): Promise<Checkpoint | null> {
    const json = this.#table.get(checkpointId);
    return json === undefined ? null : Checkpoint.fromJSON(JSON.parse(json));
  }

  async listByUser(userId: string, limit: number, offset: number): Promise<Checkpoint[]> {
    const rows = [...this.#table.values()].map((json) => JSON.parse(json) as CheckpointJson);
    const own = rows.filter((row) => row.userId === userId).sort((a, b) => (a.id < b.id ? 1 : -1));
    return own.slice(offset, offset + limit).map((row) => Checkpoint.fromJSON(row));
  }

  async delete(checkpointId: string): Promise<void> {
    this.#table.delete(checkpointId);
  }
}

const NO_EFFECTS = 'three methods cannot record effects, and this rule is shown with some';
const NOT_A_STATE = 'whole checkpoints hold states, and the root in this rule is none';

storageContract('WholeCheckpointStorage on three methods', {
  describe,
  test,
  open: async () => new WholeCheckpointStorage(new TableStorage(), new StateCodec()),
  skip: {
    ...Object.fromEntries([1, 4, 10, 12, 15].map((rule) => [`storage.${rule}`, NO_EFFECTS])),
    '[storage.16] effects keep their chunks until they or their session go': NO_EFFECTS,
    '[storage.19] a healthy storage finds nothing damaged': NO_EFFECTS,
    'storage.6': NOT_A_STATE,
  },
});

test.each([[undefined], [5], [[undefined]], [['x']]])(
  '[whole.1] listByUser that returns %j is an error with a code',
  async (answer) => {
    const inner = Object.assign(new TableStorage(), { listByUser: async () => answer as never });
    const storage = new WholeCheckpointStorage(inner, new StateCodec());
    const listing = storage.listCheckpoints({ userId: 'u', limit: 5 });
    await expect(listing).rejects.toMatchObject({ code: expect.stringMatching(/^(STORAGE|INVALID_INPUT)$/) });
  },
);
