import { CorruptError, InvalidInputError } from '../errors.ts';
import type { ChunkContent, Digest } from '../tree/chunk.ts';
import { type Linked, linkChunk, Ref } from './linked.ts';

/** A computation that stops whenever it needs chunks it asked the source for. */
export type Steps<Result> = Generator<void, Result, void>;

/** Loads chunks in batches; returns them in the order asked for. */
export type LoadChunks = (digests: readonly Digest[]) => Promise<readonly ChunkContent[]>;

/** The chunks of one comparison: collects what is wanted, loads it in one call, keeps it. */
export class ChunkSource {
  readonly #load: LoadChunks;
  readonly #contents = new Map<Digest, ChunkContent>();
  readonly #linked = new Map<Digest, Exclude<Linked, Ref>>();
  readonly #maxVisits: number;
  #wanted = new Set<Digest>();
  #visits = 0;

  /** A chunk may stand in many places: it is looked at so many times in all. */
  constructor(load: LoadChunks, maxVisits: number) {
    this.#load = load;
    this.#maxVisits = maxVisits;
  }

  /** Asks for a chunk; returns whether the computation must stop to get it. */
  want(digest: Digest): boolean {
    if (this.#contents.has(digest)) return false;
    this.#wanted.add(digest);
    return true;
  }

  /** Loads all that is wanted. */
  async fill(): Promise<void> {
    const digests = [...this.#wanted];
    this.#wanted = new Set();
    if (digests.length === 0) return;
    const contents = await this.#load(digests);
    digests.forEach((digest, at) => {
      const content = contents[at];
      if (content !== undefined) this.#contents.set(digest, content);
    });
  }

  find(digest: Digest): ChunkContent {
    this.#visit();
    const content = this.#contents.get(digest);
    if (content === undefined) throw new CorruptError(`Chunk ${digest} is missing.`, { details: { digest } });
    return content;
  }

  /** The value itself, or what its ref stands for; a ref must be loaded. */
  resolve(value: Linked): Exclude<Linked, Ref> {
    if (!(value instanceof Ref)) return value;
    this.#visit();
    let linked = this.#linked.get(value.digest);
    if (linked === undefined) {
      linked = linkChunk(this.find(value.digest)) as Exclude<Linked, Ref>;
      this.#linked.set(value.digest, linked);
    }
    return linked;
  }

  #visit(): void {
    this.#visits++;
    if (this.#visits > this.#maxVisits)
      throw new InvalidInputError(`The states differ in more than ${this.#maxVisits} parts. Raise limits.maxNodes.`, {
        details: { limit: 'limits.maxNodes' },
      });
  }

  /** Loads the chunks of these values, without those below. */
  *open(values: Iterable<Linked>): Steps<void> {
    let isWaiting = false;
    for (const value of values) if (value instanceof Ref && this.want(value.digest)) isWaiting = true;
    if (isWaiting) yield;
  }

  /** Loads every chunk at and below these refs, level by level. */
  *openAll(refs: readonly Digest[]): Steps<void> {
    const seen = new Set<Digest>(refs);
    let level: readonly Digest[] = refs;
    while (level.length > 0) {
      let isWaiting = false;
      for (const digest of level) if (this.want(digest)) isWaiting = true;
      if (isWaiting) yield;
      level = this.#below(level, seen);
    }
  }

  #below(level: readonly Digest[], seen: Set<Digest>): Digest[] {
    const below: Digest[] = [];
    for (const digest of level) {
      for (const ref of this.find(digest).refs) {
        if (seen.has(ref)) continue;
        seen.add(ref);
        below.push(ref);
      }
    }
    return below;
  }
}

/** Runs computations side by side, so that what they want is loaded together. */
export function* together<Result>(computations: readonly Steps<Result>[]): Steps<Result[]> {
  const results: Result[] = [];
  let running = computations.map((steps, at) => ({ steps, at }));
  while (running.length > 0) {
    running = running.filter(({ steps, at }) => {
      const { done, value } = steps.next();
      if (done === true) results[at] = value as Result;
      return done !== true;
    });
    if (running.length > 0) yield;
  }
  return results;
}
