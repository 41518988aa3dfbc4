import type { Chunk, ChunkContent, Digest } from '../../../core/tree/chunk.ts';
import type { Repository } from '../../../manager/engine/repository.ts';
import { KeptValues } from './store-kept.ts';

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
  readonly #kept = new KeptValues<Digest, ChunkContent>(KEPT_CHARS, charsOf);
  #unstored: ChunkMap = new Map();

  constructor(repository: Repository) {
    this.#repository = repository;
  }

  /** Keeps chunks that were stored just now. */
  keep(chunks: Iterable<Chunk>): void {
    for (const { digest, text, refs } of chunks) this.#keep(digest, { text, refs });
  }

  /** Says which chunks are in no storage yet, but can be read here. */
  setUnstored(chunks: ChunkMap): void {
    this.#unstored = chunks;
  }

  async readOne(digest: Digest): Promise<ChunkContent> {
    const chunk = this.#find(digest);
    if (chunk !== undefined) return chunk;
    const [read] = await this.#repository.readChunks([digest]);
    return this.#keep(digest, read as Chunk);
  }

  /** These chunks; one bulk read for all that are not kept. */
  async read(digests: Iterable<Digest>): Promise<Map<Digest, ChunkContent>> {
    const found = new Map<Digest, ChunkContent>();
    const missing: Digest[] = [];
    for (const digest of new Set(digests)) {
      const chunk = this.#find(digest);
      if (chunk === undefined) missing.push(digest);
      else found.set(digest, chunk);
    }
    const read = missing.length === 0 ? [] : await this.#repository.readChunks(missing);
    for (const { digest, text, refs } of read) found.set(digest, this.#keep(digest, { text, refs }));
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
    return this.#kept.get(digest) ?? this.#unstored.get(digest);
  }

  #keep(digest: Digest, chunk: ChunkContent): ChunkContent {
    const known = this.#kept.get(digest);
    if (known === undefined) this.#kept.set(digest, chunk);
    return known ?? chunk;
  }
}

function charsOf({ text, refs }: ChunkContent): number {
  return text.length + refs.length * REF_CHARS;
}
