import { StateCheck } from '../../core/codec/state-check.ts';
import { findIn } from '../../core/codec/state-codec.ts';
import { messageOf, SavestateError } from '../../core/errors.ts';
import { formatCount } from '../../core/format-count.ts';
import { type Chunk, type ChunkContent, checkChunk, type Digest } from '../../core/tree/chunk.ts';
import type { ValueLimits } from '../../core/value/format.ts';
import { Breather } from '../../storage/breather.ts';
import type { ChunkStorage } from '../../storage/contract.ts';

const PAGE = 500;

/** Is told what is wrong. */
export type AddFinding = (subject: string, problem: string) => void;

/** Reads every chunk of a storage and checks it, then whatever states are made of them. Remembers one state, however many there are. */
export class ChunkSurvey {
  readonly #storage: ChunkStorage;
  readonly #add: AddFinding;
  readonly #breather = new Breather();
  /** Chunks that were named already. */
  readonly #damaged = new Set<Digest>();
  readonly #states: StateCheck;
  /** What the state that was read last is made of: most of the next one. */
  #contents: ReadonlyMap<Digest, ChunkContent> = new Map();
  /** How many undamaged chunks there are. */
  size = 0;

  constructor(storage: ChunkStorage, limits: ValueLimits, add: AddFinding) {
    this.#storage = storage;
    this.#states = new StateCheck(limits);
    this.#add = add;
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
    if (chunk !== undefined && this.#isSound({ ...chunk, digest })) this.size++;
  }

  #isSound(chunk: Chunk): boolean {
    try {
      checkChunk(chunk);
      return true;
    } catch (error) {
      if (!this.#damaged.has(chunk.digest)) this.#note(`chunk ${chunk.digest}`, error);
      this.#damaged.add(chunk.digest);
      return false;
    }
  }

  /** Why a state or result cannot be read; undefined if it can. */
  async findProblem(root: ChunkContent): Promise<string | undefined> {
    const { contents, absent } = await this.#gather(root.refs);
    const [first] = absent;
    if (first !== undefined) return `needs ${formatCount(absent.size, 'missing or damaged chunk')}, such as ${first}`;
    this.#contents = contents;
    try {
      this.#states.read(root, findIn(contents));
      return undefined;
    } catch (error) {
      return `cannot be read: ${messageOf(error)}`;
    }
  }

  /** These chunks and all below them, level by level; what the last state had is not read again. */
  async #gather(refs: readonly Digest[]): Promise<{ contents: Map<Digest, ChunkContent>; absent: Set<Digest> }> {
    const contents = new Map<Digest, ChunkContent>();
    const absent = new Set<Digest>();
    for (let level = [...new Set(refs)]; level.length > 0; ) {
      const below = new Set<Digest>();
      for (const [at, content] of (await this.#readLevel(level)).entries()) {
        const digest = level[at] as Digest;
        if (content === undefined) absent.add(digest);
        else contents.set(digest, content);
        for (const ref of content?.refs ?? []) below.add(ref);
      }
      level = [...below].filter((digest) => !contents.has(digest) && !absent.has(digest));
    }
    return { contents, absent };
  }

  async #readLevel(digests: readonly Digest[]): Promise<readonly (ChunkContent | undefined)[]> {
    const found = new Map<Digest, ChunkContent>();
    const unknown = digests.filter((digest) => !this.#contents.has(digest) && !this.#damaged.has(digest));
    for (let from = 0; from < unknown.length; from += PAGE) {
      for (const chunk of await this.#readChunks(unknown.slice(from, from + PAGE)))
        if (chunk !== undefined && this.#isSound(chunk)) found.set(chunk.digest, chunk);
      await this.#breather.breathe();
    }
    return digests.map((digest) => this.#contents.get(digest) ?? found.get(digest));
  }

  #note(subject: string, error: unknown): void {
    if (!(error instanceof SavestateError)) throw error;
    this.#add(subject, messageOf(error));
  }
}
