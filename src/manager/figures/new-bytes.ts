import type { ChunkContent, Digest } from '../../core/tree/chunk.ts';
import type { ChunkStorage } from '../../storage/contract.ts';

/** About how many bytes one state has that another does not, before compression. Reads only where the two differ, level by level. */
export async function countNewBytes(
  storage: ChunkStorage,
  before: ChunkContent | undefined,
  after: ChunkContent,
): Promise<number> {
  if (before?.text === after.text && before.refs.join() === after.refs.join()) return 0;
  let bytes = 0;
  const seen = new Set<Digest>();
  let fresh: readonly ChunkContent[] = [after];
  let old: readonly ChunkContent[] = before === undefined ? [] : [before];
  while (fresh.length > 0) {
    bytes += fresh.reduce((sum, { text, refs }) => sum + Buffer.byteLength(text) + refs.length * 32, 0);
    const ahead = new Set(fresh.flatMap(({ refs }) => refs));
    const behind = new Set(old.flatMap(({ refs }) => refs));
    const wanted = [...ahead].filter((digest) => !behind.has(digest) && !seen.has(digest));
    const left = [...behind].filter((digest) => !ahead.has(digest) && !seen.has(digest));
    for (const digest of [...ahead, ...behind]) seen.add(digest);
    fresh = await read(storage, wanted);
    old = fresh.length === 0 ? [] : await read(storage, left);
  }
  return bytes;
}

async function read(storage: ChunkStorage, digests: readonly Digest[]): Promise<ChunkContent[]> {
  return digests.length === 0 ? [] : (await storage.readChunks(digests)).filter((chunk) => chunk !== undefined);
}
