import type { Chunk, Digest } from '../core/tree/chunk.ts';

const BATCH = 500;

/**
 * The set of chunks reachable from some roots, by digest or whatever else names them, grown batch by batch, so that a storage may read refs in its own way:
 *
 *     reachable.add(roots);
 *     for (let batch = reachable.take(); batch.length > 0; batch = reachable.take()) {
 *       for (const refs of readRefs(batch)) reachable.add(refs);
 *     }
 *
 * Collectors do this once over everything and again, inside their exclusive section, over what was committed meanwhile.
 */
export class Reachable<Key> {
  readonly #seen = new Set<Key>();
  #pending: Key[] = [];

  add(keys: readonly Key[]): void {
    for (const key of keys) {
      if (this.#seen.has(key)) continue;
      this.#seen.add(key);
      this.#pending.push(key);
    }
  }

  /** The next chunks whose refs are to be added; empty when the set is complete. */
  take(): Key[] {
    return this.#pending.splice(-BATCH);
  }

  has(key: Key): boolean {
    return this.#seen.has(key);
  }

  /** Completes the set, a chunk at a step, where refs are at hand. */
  *grow(refsOf: (key: Key) => readonly Key[]): Generator<undefined> {
    for (let batch = this.take(); batch.length > 0; batch = this.take())
      for (const key of batch) {
        this.add(refsOf(key));
        yield;
      }
  }
}

/** Takes all steps at once. */
export function runAll(steps: Iterator<unknown>): void {
  while (steps.next().done !== true);
}

/** Implements `readReachable` for a storage that has nothing faster: a level at a time. */
export async function readReachableByLevel(
  readChunks: (digests: readonly Digest[]) => Promise<(Chunk | undefined)[]>,
  digests: readonly Digest[],
): Promise<Chunk[]> {
  const found = new Map<Digest, Chunk>();
  let wanted = [...new Set(digests)];
  while (wanted.length > 0) {
    const chunks = (await readChunks(wanted)).filter((chunk) => chunk !== undefined);
    for (const chunk of chunks) found.set(chunk.digest, chunk);
    const below = new Set(chunks.flatMap((chunk) => chunk.refs));
    wanted = [...below].filter((digest) => !found.has(digest));
  }
  return [...found.values()];
}
