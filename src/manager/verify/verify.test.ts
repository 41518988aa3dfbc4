import { expect, test } from 'vitest';
import type { Chunk, Digest } from '../../core/tree/chunk.ts';
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
