import { StateCheck } from '../../core/codec/state-check.ts';
import { findIn } from '../../core/codec/state-codec.ts';
import { messageOf, SavestateError } from '../../core/errors.ts';
import { type Chunk, type ChunkContent, checkChunk, type Digest } from '../../core/tree/chunk.ts';
import type { ValueLimits } from '../../core/value/format.ts';
import { Breather } from '../../storage/breather.ts';
import type { ChunkStorage } from '../../storage/contract.ts';

const PAGE = 500;

/** Is told what is wrong. */
export type AddFinding = (subject: string, problem: string) => void;

/** Reads every chunk of a storage and checks it, then whatever states are made of them. */
export class ChunkSurvey {
  readonly #storage: ChunkStorage;
  readonly #add: AddFinding;
  readonly #breather = new Breather();
  /** What each undamaged chunk refers to. */
  readonly #refs = new Map<Digest, readonly Digest[]>();
  /** Chunks that were named already, or looked for again. */
  readonly #seen = new Set<Digest>();
  readonly #states: StateCheck;
  /** What the state that was read last is made of: most of the next one. */
  #contents: ReadonlyMap<Digest, ChunkContent> = new Map();

  constructor(storage: ChunkStorage, limits: ValueLimits, add: AddFinding) {
    this.#storage = storage;
    this.#states = new StateCheck(limits);
    this.#add = add;
  }

  get size(): number {
    return this.#refs.size;
  }

  /** Reads all; stops at a list that leads in circles. */
  async readAll(): Promise<void> {
    const ends = new Set<Digest>();
    for (let after: Digest | undefined; ; ) {
      const digests = await this.#listPage(after);
      after = digests.at(-1);
      if (after === undefined) break;
      if (ends.has(after)) {
        this.#add('the list of chunks', 'it leads in circles');
        break;
      }
      ends.add(after);
      for (const [at, chunk] of (await this.#readChunks(digests)).entries())
        await this.#take(digests[at] as Digest, chunk);
    }
  }

  async #listPage(after: Digest | undefined): Promise<readonly Digest[]> {
    try {
      return await this.#storage.listChunks({ limit: PAGE, ...(after !== undefined && { after }) });
    } catch (error) {
      this.#note('the list of chunks', error);
      return [];
    }
  }

  /** A damaged page fails the whole read: then one by one, to name the ones that cannot be read. */
  async #readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    try {
      return await this.#storage.readChunks(digests);
    } catch {
      const chunks: (Chunk | undefined)[] = [];
      for (const digest of digests) chunks.push(await this.#readChunk(digest));
      return chunks;
    }
  }

  async #readChunk(digest: Digest): Promise<Chunk | undefined> {
    try {
      return (await this.#storage.readChunks([digest]))[0];
    } catch (error) {
      this.#note(`chunk ${digest}`, error);
      return undefined;
    }
  }

  /** An absent one was collected since it was listed, or else whatever needs it will be named. */
  async #take(digest: Digest, chunk: Chunk | undefined): Promise<void> {
    await this.#breather.breathe();
    if (chunk === undefined) return;
    try {
      checkChunk({ ...chunk, digest });
      this.#refs.set(digest, chunk.refs);
    } catch (error) {
      this.#seen.add(digest);
      this.#note(`chunk ${digest}`, error);
    }
  }

  /** Why a state or result cannot be read; undefined if it can. Looks again for what was not there before: it may have come since. */
  async findProblem(root: ChunkContent): Promise<string | undefined> {
    const needed = await this.#findNeeded(root.refs);
    const absent = [...needed].filter((digest) => !this.#refs.has(digest));
    if (absent.length > 0) return `needs ${absent.length} missing or damaged chunks, such as ${absent[0]}`;
    try {
      this.#contents = await this.#readContents(needed);
      this.#states.read(root, findIn(this.#contents));
      return undefined;
    } catch (error) {
      return `cannot be read: ${messageOf(error)}`;
    }
  }

  /** These chunks and all below them. */
  async #findNeeded(refs: readonly Digest[]): Promise<ReadonlySet<Digest>> {
    const needed = this.#reach(refs);
    const late = [...needed].filter((digest) => !this.#refs.has(digest) && !this.#seen.has(digest));
    if (late.length === 0) return needed;
    for (const digest of late) this.#seen.add(digest);
    for (const chunk of await this.#readReachable(late))
      if (!this.#refs.has(chunk.digest)) await this.#take(chunk.digest, chunk);
    return this.#reach(refs);
  }

  #reach(refs: readonly Digest[]): Set<Digest> {
    const reached = new Set(refs);
    for (const digest of reached) for (const ref of this.#refs.get(digest) ?? []) reached.add(ref);
    return reached;
  }

  async #readContents(digests: ReadonlySet<Digest>): Promise<Map<Digest, ChunkContent>> {
    const contents = new Map<Digest, ChunkContent>();
    for (const digest of digests) {
      const content = this.#contents.get(digest);
      if (content !== undefined) contents.set(digest, content);
    }
    const others = [...digests].filter((digest) => !contents.has(digest));
    for (let from = 0; from < others.length; from += PAGE) {
      for (const chunk of await this.#storage.readChunks(others.slice(from, from + PAGE)))
        if (chunk !== undefined) contents.set(chunk.digest, chunk);
      await this.#breather.breathe();
    }
    return contents;
  }

  async #readReachable(digests: readonly Digest[]): Promise<readonly Chunk[]> {
    try {
      return await this.#storage.readReachable(digests);
    } catch (error) {
      this.#note('chunks', error);
      return [];
    }
  }

  #note(subject: string, error: unknown): void {
    if (!(error instanceof SavestateError)) throw error;
    this.#add(subject, messageOf(error));
  }
}
