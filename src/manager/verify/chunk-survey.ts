import { type ChunkMeasure, checkMeasure, measureChunk } from '../../core/codec/measure.ts';
import { messageOf, SavestateError } from '../../core/errors.ts';
import { type Chunk, type ChunkContent, checkChunk, type Digest } from '../../core/tree/chunk.ts';
import type { ValueLimits } from '../../core/value/format.ts';
import { Breather } from '../../storage/breather.ts';
import type { ChunkStorage } from '../../storage/contract.ts';

const PAGE = 500;

/** Is told what is wrong. */
export type AddFinding = (subject: string, problem: string) => void;

/** Reads every chunk of a storage once, checks it, and measures it as soon as those it refers to are measured. */
export class ChunkSurvey {
  readonly #storage: ChunkStorage;
  readonly #add: AddFinding;
  readonly #breather = new Breather();
  /** What each undamaged chunk refers to. */
  readonly #refs = new Map<Digest, readonly Digest[]>();
  /** Chunks that can be read whole. */
  readonly #measures = new Map<Digest, ChunkMeasure>();
  /** Chunks that were named already, or looked for again. */
  readonly #seen = new Set<Digest>();

  constructor(storage: ChunkStorage, add: AddFinding) {
    this.#storage = storage;
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
    await this.#settle();
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
      if (chunk.refs.every((ref) => this.#measures.has(ref))) this.#measure(digest, chunk);
    } catch (error) {
      this.#seen.add(digest);
      this.#note(`chunk ${digest}`, error);
    }
  }

  #measure(digest: Digest, content: ChunkContent): void {
    try {
      this.#measures.set(
        digest,
        measureChunk(content, (ref) => this.#measures.get(ref)),
      );
    } catch (error) {
      this.#seen.add(digest);
      this.#note(`chunk ${digest}`, error);
    }
  }

  /** Measures what came before those it refers to: from the lowest up, each when all below it are. */
  async #settle(): Promise<void> {
    const waiting = new Map<Digest, number>();
    const above = new Map<Digest, Digest[]>();
    for (const [digest, refs] of this.#refs) {
      if (this.#measures.has(digest) || this.#seen.has(digest)) continue;
      const below = [...new Set(refs)].filter((ref) => !this.#measures.has(ref));
      waiting.set(digest, below.length);
      for (const ref of below) above.set(ref, [...(above.get(ref) ?? []), digest]);
      await this.#breather.breathe();
    }
    let ready = [...waiting].flatMap(([digest, count]) => (count === 0 ? [digest] : []));
    while (ready.length > 0)
      ready = [...ready.slice(PAGE), ...(await this.#measurePage(ready.slice(0, PAGE), { waiting, above }))];
  }

  /** Measures these; returns those that wait for nothing any more. */
  async #measurePage(
    digests: readonly Digest[],
    { waiting, above }: { waiting: Map<Digest, number>; above: ReadonlyMap<Digest, readonly Digest[]> },
  ): Promise<Digest[]> {
    const ready: Digest[] = [];
    for (const [at, chunk] of (await this.#readChunks(digests)).entries()) {
      const digest = digests[at] as Digest;
      await this.#breather.breathe();
      if (chunk === undefined) continue;
      this.#measure(digest, chunk);
      if (!this.#measures.has(digest)) continue;
      for (const parent of above.get(digest) ?? []) {
        const left = (waiting.get(parent) ?? 0) - 1;
        waiting.set(parent, left);
        if (left === 0) ready.push(parent);
      }
    }
    return ready;
  }

  /** Why a state or result cannot be read; undefined if it can. Looks again for what was not there before: it may have come since. */
  async findProblem(root: ChunkContent, limits: ValueLimits): Promise<string | undefined> {
    const absent = await this.#findUnsound(root.refs);
    if (absent.length > 0) return `needs ${absent.length} missing or damaged chunks, such as ${absent[0]}`;
    try {
      checkMeasure(
        measureChunk(root, (ref) => this.#measures.get(ref)),
        limits,
      );
      return undefined;
    } catch (error) {
      return `cannot be read: ${messageOf(error)}`;
    }
  }

  async #findUnsound(refs: readonly Digest[]): Promise<readonly Digest[]> {
    const unsound = refs.filter((ref) => !this.#measures.has(ref));
    const late = unsound.filter((ref) => !this.#seen.has(ref));
    if (late.length === 0) return unsound;
    for (const digest of late) this.#seen.add(digest);
    for (const chunk of await this.#readReachable(late)) {
      if (this.#refs.has(chunk.digest) || (this.#seen.has(chunk.digest) && !late.includes(chunk.digest))) continue;
      this.#seen.delete(chunk.digest);
      await this.#take(chunk.digest, chunk);
    }
    await this.#settle();
    for (const digest of late) this.#seen.add(digest);
    return refs.filter((ref) => !this.#measures.has(ref));
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
