import type { Chunk, ChunkContent, Digest } from '../../../core/tree/chunk.ts';
import type { Repository } from '../../../manager/engine/repository.ts';

/** Remembers what was used, up to a weight; what came first goes first. */
export class KeptValues<Key, Value extends object> {
  readonly #maxWeight: number;
  readonly #weigh: (value: Value) => number;
  readonly #values = new Map<Key, Value>();
  #weight = 0;

  constructor(maxWeight: number, weigh: (value: Value) => number) {
    this.#maxWeight = maxWeight;
    this.#weigh = weigh;
  }

  get(key: Key): Value | undefined {
    return this.#values.get(key);
  }

  set(key: Key, value: Value): void {
    this.#drop(key);
    this.#values.set(key, value);
    this.#weight += this.#weigh(value);
    for (const oldest of this.#values.keys()) {
      if (this.#weight <= this.#maxWeight) return;
      this.#drop(oldest);
    }
  }

  #drop(key: Key): void {
    const value = this.#values.get(key);
    if (value === undefined) return;
    this.#values.delete(key);
    this.#weight -= this.#weigh(value);
  }
}

/** Chunks by their digests. */
type ChunkMap = ReadonlyMap<Digest, ChunkContent>;

/** Enough for the parts of a large store that are in use; more is read again when needed. */
const KEPT_CHARS = 64 * 1024 * 1024;

const REF_CHARS = 64;

/**
 * Reads the chunks of a store and keeps those that were read last. A chunk is named by what it holds, so what is kept stays right
 * whoever changes the store.
 */
export class StoreChunks {
  readonly #repository: Repository;
  readonly #kept = new KeptValues<Digest, ChunkContent>(
    KEPT_CHARS,
    ({ text, refs }) => text.length + refs.length * REF_CHARS,
  );
  /** Chunks that are in no storage yet, but can be read here. */
  unstored: ChunkMap = new Map();

  constructor(repository: Repository) {
    this.#repository = repository;
  }

  /** Keeps chunks that were stored just now, or read. */
  keep(chunks: Iterable<Chunk>): void {
    for (const { digest, text, refs } of chunks)
      if (this.#kept.get(digest) === undefined) this.#kept.set(digest, { text, refs });
  }

  async readOne(digest: Digest): Promise<ChunkContent> {
    return this.#find(digest) ?? ((await this.read([digest])).get(digest) as ChunkContent);
  }

  /** These chunks; one bulk read for all that are not kept. */
  async read(digests: Iterable<Digest>): Promise<Map<Digest, ChunkContent>> {
    const found = new Map<Digest, ChunkContent>();
    const missing = new Set<Digest>();
    for (const digest of digests) {
      const chunk = this.#find(digest);
      if (chunk === undefined) missing.add(digest);
      else found.set(digest, chunk);
    }
    if (missing.size === 0) return found;
    const read = await this.#repository.readChunks([...missing]);
    for (const chunk of read) found.set(chunk.digest, chunk);
    this.keep(read);
    return found;
  }

  /** These chunks and all below them, level by level. */
  async readBelow(digests: Iterable<Digest>): Promise<ChunkMap> {
    const found = new Map<Digest, ChunkContent>();
    let wanted = new Set(digests);
    while (wanted.size > 0) {
      const level = await this.read(wanted);
      for (const [digest, chunk] of level) found.set(digest, chunk);
      wanted = new Set([...level.values()].flatMap(({ refs }) => refs.filter((ref) => !found.has(ref))));
    }
    return found;
  }

  #find(digest: Digest): ChunkContent | undefined {
    return this.#kept.get(digest) ?? this.unstored.get(digest);
  }
}
