import type { Digest } from '../core/chunk.ts';

const BATCH = 500;

/**
 * The set of chunks reachable from some roots, grown batch by batch, so that a storage may read refs in its own way:
 *
 *     reachable.add(roots);
 *     for (let batch = reachable.take(); batch.length > 0; batch = reachable.take()) {
 *       for (const refs of readRefs(batch)) reachable.add(refs);
 *     }
 *
 * Collectors do this once over everything and again, inside their exclusive section, over what was committed meanwhile.
 */
export class Reachable {
  readonly #seen = new Set<Digest>();
  #pending: Digest[] = [];

  add(digests: readonly Digest[]): void {
    for (const digest of digests) {
      if (this.#seen.has(digest)) continue;
      this.#seen.add(digest);
      this.#pending.push(digest);
    }
  }

  /** The next chunks whose refs are to be added; empty when the set is complete. */
  take(): Digest[] {
    return this.#pending.splice(-BATCH);
  }

  has(digest: Digest): boolean {
    return this.#seen.has(digest);
  }
}
