import { expect, test } from 'vitest';
import { CorruptError } from '../../core/errors.ts';
import type { Chunk, Digest } from '../../core/tree/chunk.ts';
import type { CheckpointQuery, CheckpointRow, EffectRow } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';

/** Has lost the chunks with a word in them. */
class LossyStorage extends InMemoryCheckpointStorage {
  override async readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    const chunks = await super.readChunks(digests);
    return chunks.map((chunk) => (chunk?.text.includes('lost') ? undefined : chunk));
  }
}

test('[durability.2] a chunk that a state needs in several places is counted once', async () => {
  const manager = new CheckpointManager({ storage: new LossyStorage() });
  const message = { content: `lost ${'word '.repeat(2000)}` };
  const others = Array.from({ length: 40 }, (_, n) => `${n} ${'other '.repeat(100)}`);
  await manager.save({ message, history: [message, ...others] });
  const { status, findings } = await manager.verify({ readData: true });
  expect(status).toBe('damaged');
  expect(findings.map(({ problem }) => problem)).toContainEqual(
    expect.stringContaining('needs 1 missing or damaged chunk, such as'),
  );
});

/** Has lost the second effect of every session. */
class ForgetfulStorage extends InMemoryCheckpointStorage {
  override async readEffects(filter: { sessionId: string }): Promise<EffectRow[]> {
    return (await super.readEffects(filter)).filter(({ ordinal }) => ordinal !== 1);
  }
}

test.each([false, true])(
  '[durability.2] a recorded effect that is missing is damage; saved after it: %s',
  async (isSaved) => {
    const whole = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const lossy = new CheckpointManager({ storage: new ForgetfulStorage() });
    for (const manager of [whole, lossy]) {
      const session = await manager.session('trip', { initial: {} });
      await session.save();
      for (const name of ['p', 'q']) await session.step(name, async () => name);
      if (isSaved) await session.save();
    }
    expect(await whole.verify()).toMatchObject({ status: 'clean', effects: 2 });
    expect(await lossy.verify()).toMatchObject({
      status: 'damaged',
      findings: [
        {
          subject: 'the effects of branch "main" in session "trip"',
          problem: 'it recorded 2 effects, and 1 of them are there',
        },
      ],
    });
  },
);

/** Its list has lost a checkpoint that cannot be read either. */
class UnreadableStorage extends InMemoryCheckpointStorage {
  override async listCheckpoints(query: CheckpointQuery): Promise<CheckpointRow[]> {
    return (await super.listCheckpoints(query)).slice(0, -1);
  }
  override async readCheckpoint(): Promise<never> {
    throw new CorruptError('The page is damaged.');
  }
}

test('[durability.2] a name whose checkpoint cannot be read has one finding, which does not say that it is absent', async () => {
  const storage = new UnreadableStorage();
  const manager = new CheckpointManager({ storage });
  await manager.save({ n: 1 }, { sessionId: 'trip' });
  expect((await manager.verify()).findings).toEqual([
    { subject: 'branch "main" of session "trip"', problem: 'The page is damaged.' },
  ]);
});
