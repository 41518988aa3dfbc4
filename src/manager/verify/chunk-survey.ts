import { StateCheck } from '../../core/codec/state-check.ts';
import { findIn } from '../../core/codec/state-codec.ts';
import { isForgotten, messageOf, SavestateError, withoutAdvice } from '../../core/errors.ts';
import { formatCount } from '../../core/format-count.ts';
import type { SessionId } from '../../core/record/id.ts';
import { type Chunk, type ChunkContent, checkChunk, type Digest } from '../../core/tree/chunk.ts';
import type { ValueLimits } from '../../core/value/format.ts';
import { Breather } from '../../storage/breather.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { readReachableByLevel } from '../../storage/reachable.ts';

/** One damage, in plain words. */
export type VerifyFinding = { readonly subject: string; readonly problem: string };

/** Says of a state or result that its key was removed. */
export const FORGOTTEN = Symbol('forgotten');

/** So many of a list are read at once. */
const PAGE = 500;

/** Gathers what is wrong. What cannot be read is a finding, too, and does not keep the rest from being looked at. */
export class Findings {
  readonly all: VerifyFinding[] = [];
  /** Sessions of which something cannot be read because its key was removed, which is no damage; and how many checkpoints that are. */
  readonly forgotten = new Map<SessionId, number>();

  add(subject: string, problem: string): void {
    this.all.push({ subject, problem: withoutAdvice(problem) });
  }

  forget(sessionId: SessionId, checkpoints = 0): void {
    this.forgotten.set(sessionId, (this.forgotten.get(sessionId) ?? 0) + checkpoints);
  }

  /** The same of an error. One that is not ours is no damage. */
  note(subject: string, error: unknown, sessionId?: SessionId): void {
    if (isForgotten(error)) {
      if (sessionId !== undefined) this.forget(sessionId);
      return;
    }
    if (!(error instanceof SavestateError)) throw error;
    this.add(subject, messageOf(error));
  }

  /** What is read; undefined if that failed. */
  async attempt<Result>(
    subject: string,
    read: () => Promise<Result> | Result,
    sessionId?: SessionId,
  ): Promise<Result | undefined> {
    try {
      return await read();
    } catch (error) {
      this.note(subject, error, sessionId);
      return undefined;
    }
  }

  /** A list page by page. A damaged index may lead in circles, so no page may end where one has ended before. */
  async *pages<Item, Key>(
    subject: string,
    read: (page: { limit: number; after?: Key }) => Promise<readonly Item[]>,
    keyOf: (item: Item) => Key,
  ): AsyncGenerator<readonly Item[]> {
    const ends = new Set<Key>();
    for (let page: { limit: number; after?: Key } = { limit: PAGE }; ; ) {
      const items = await this.attempt(subject, () => read(page));
      const last = items?.at(-1);
      if (items === undefined || last === undefined) return;
      yield items;
      const after = keyOf(last);
      if (ends.has(after)) return this.add(subject, 'it leads in circles');
      ends.add(after);
      page = { limit: PAGE, after };
    }
  }
}

/** Reads every chunk of a storage and checks it, then whatever states are made of them. Remembers one state, however many there are. */
export class ChunkSurvey {
  readonly #storage: ChunkStorage;
  readonly #findings: Findings;
  readonly #breather = new Breather();
  /** Chunks that were named already. */
  readonly #damaged = new Set<Digest>();
  /** Chunks whose key was removed. */
  readonly #forgotten = new Set<Digest>();
  readonly #states: StateCheck;
  /** What the state that was read last is made of: most of the next one. */
  #contents: ReadonlyMap<Digest, Chunk> = new Map();
  /** How many undamaged chunks there are. */
  size = 0;

  constructor(storage: ChunkStorage, limits: ValueLimits, findings: Findings) {
    this.#storage = storage;
    this.#states = new StateCheck(limits);
    this.#findings = findings;
  }

  /** Reads all. An absent one was collected since it was listed, or else whatever needs it will be named. */
  async readAll(): Promise<void> {
    const list = (page: { limit: number; after?: Digest }) => this.#storage.listChunks(page);
    for await (const digests of this.#findings.pages('the list of chunks', list, (digest) => digest))
      for (const [at, chunk] of (await this.#readChunks(digests)).entries()) {
        await this.#breather.breathe();
        if (chunk !== undefined && this.#isSound({ ...chunk, digest: digests[at] as Digest })) this.size++;
      }
  }

  /** A damaged page fails the whole read: then one by one, to name the ones that cannot be read. */
  async #readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    try {
      return await this.#storage.readChunks(digests);
    } catch {
      const chunks: (Chunk | undefined)[] = [];
      for (const digest of digests) {
        const read = () => this.#storage.readChunks([digest]).catch((error) => this.#noteForgotten(digest, error));
        const found = await this.#findings.attempt(`chunk ${digest}`, read);
        chunks.push(found?.[0]);
      }
      return chunks;
    }
  }

  #noteForgotten(digest: Digest, error: unknown): undefined {
    if (!isForgotten(error)) throw error;
    this.#forgotten.add(digest);
  }

  #isSound(chunk: Chunk): boolean {
    try {
      checkChunk(chunk);
      return true;
    } catch (error) {
      if (!this.#damaged.has(chunk.digest)) this.#findings.note(`chunk ${chunk.digest}`, error);
      this.#damaged.add(chunk.digest);
      return false;
    }
  }

  /** Why a state or result cannot be read; undefined if it can. */
  async findProblem(root: ChunkContent): Promise<string | typeof FORGOTTEN | undefined> {
    const chunks = await readReachableByLevel((level) => this.#readLevel(level), root.refs);
    const contents = new Map(chunks.map((chunk) => [chunk.digest, chunk]));
    const needed = [root, ...chunks].flatMap(({ refs }) => refs);
    const absent = new Set(needed.filter((digest) => !contents.has(digest)));
    const [first] = [...absent].filter((digest) => !this.#forgotten.has(digest));
    if (first === undefined && absent.size > 0) return FORGOTTEN;
    if (first !== undefined) return `needs ${formatCount(absent.size, 'missing or damaged chunk')}, such as ${first}`;
    this.#contents = contents;
    try {
      this.#states.read(root, findIn(contents));
      return undefined;
    } catch (error) {
      return `cannot be read: ${messageOf(error)}`;
    }
  }

  #isUnreadable(digest: Digest): boolean {
    return this.#damaged.has(digest) || this.#forgotten.has(digest);
  }

  /** What the last state had is not read again. */
  async #readLevel(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    const found = new Map<Digest, Chunk>();
    const unknown = digests.filter((digest) => !this.#contents.has(digest) && !this.#isUnreadable(digest));
    for (let from = 0; from < unknown.length; from += PAGE) {
      for (const chunk of await this.#readChunks(unknown.slice(from, from + PAGE)))
        if (chunk !== undefined && this.#isSound(chunk)) found.set(chunk.digest, chunk);
      await this.#breather.breathe();
    }
    return digests.map((digest) => this.#contents.get(digest) ?? found.get(digest));
  }
}
