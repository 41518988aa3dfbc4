import { messageOf } from '../../core/errors.ts';
import { keepRecent } from '../../core/keep-recent.ts';
import { scopeKey } from '../storage/event-row.ts';
import type { MemoryScope } from '../storage/memory-record.ts';
import type { EventVector, MemoryEvent, MemoryStorage } from '../storage/memory-storage.ts';
import { cosine, type Embedder, normaliseVector } from './embedder.ts';
import type { Visible } from './scope-log.ts';

/** How vectors took part: not asked for, used, or not to be had just now, and why. */
export type VectorStatus =
  | { readonly vectors: 'none' | 'used' }
  | { readonly vectors: 'unavailable'; readonly problem: string };

/** How near memories are to a question, as far as vectors can tell. */
export type Nearness = VectorStatus & { readonly cosines?: ReadonlyMap<string, number> };

/** Memories that still lack a vector of the model are given one while searching, at most this many each time. */
const CATCH_UP = 32;

const MAX_SCOPES = 16;

/** Words that are embedded in one go: enough to be quick, few enough to keep a question waiting for a moment only. */
const BATCH = 16;

type Worded = { readonly seq: number; readonly content: string };

type ScopeVectors = { epoch: number; position: number; readonly bySeq: Map<number, Float32Array> };

/** Vectors of the scopes in use, of one model. Whatever happens to the embedder, words are found without it. */
export class VectorIndex {
  readonly #storage: MemoryStorage;
  readonly #embedder: Embedder | undefined;
  readonly #scopes = new Map<string, ScopeVectors>();
  readonly #waiting: Worded[] = [];
  #working: Promise<void> | undefined;

  constructor(storage: MemoryStorage, embedder: Embedder | undefined) {
    this.#storage = storage;
    this.#embedder = embedder;
  }

  /** Has vectors made for new words, which are safe already, while the caller goes on. What fails is made up for while searching. */
  add(events: readonly MemoryEvent[]): void {
    if (this.#embedder === undefined) return;
    for (const { seq, fields } of events)
      if (fields?.content !== undefined) this.#waiting.push({ seq, content: fields.content });
    if (this.#waiting.length > 0) this.#working ??= this.#work(this.#embedder);
  }

  async #work(embedder: Embedder): Promise<void> {
    try {
      while (this.#waiting.length > 0) await this.#store(embedder, this.#waiting.splice(0, BATCH), undefined);
    } catch {
      this.#waiting.length = 0; // a search asks for them again, and says what is wrong
    } finally {
      this.#working = undefined;
    }
  }

  /** Waits until the words that were added have their vectors. */
  async settle(): Promise<void> {
    await this.#working;
  }

  /** How near each visible memory is to a question. */
  async nearness(
    question: () => string,
    { scope, visible, signal }: { scope: MemoryScope; visible: Visible; signal?: AbortSignal | undefined },
  ): Promise<Nearness> {
    if (this.#embedder === undefined) return { vectors: 'none' };
    try {
      await this.settle();
      const [asked] = await this.#embedder.embed([question()], signal === undefined ? {} : { signal });
      if (asked === undefined) return { vectors: 'unavailable', problem: 'the embedder answered nothing' };
      const known = await this.#read(this.#embedder, scope);
      await this.#catchUp(this.#embedder, { known, visible, signal });
      return { vectors: 'used', cosines: compareAll(normaliseVector(asked), known, visible) };
    } catch (error) {
      signal?.throwIfAborted();
      return { vectors: 'unavailable', problem: messageOf(error) };
    }
  }

  async #read(embedder: Embedder, scope: MemoryScope): Promise<Map<number, Float32Array>> {
    const key = scopeKey(scope);
    const epoch = await this.#storage.readEpoch();
    let known = this.#scopes.get(key);
    if (known === undefined || known.epoch !== epoch) known = { epoch, position: 0, bySeq: new Map() };
    keepRecent(this.#scopes, [key, known], MAX_SCOPES);
    for (const { position, seq, vector } of await this.#storage.readVectors(embedder.id, {
      scope,
      afterPosition: known.position,
    })) {
      known.position = Math.max(known.position, position);
      known.bySeq.set(seq, vector);
    }
    return known.bySeq;
  }

  /** After a change of the model, or a failure, the newest memories come first. */
  async #catchUp(
    embedder: Embedder,
    { known, visible, signal }: { known: Map<number, Float32Array>; visible: Visible; signal: AbortSignal | undefined },
  ): Promise<void> {
    const missing = [...visible.bySeq.keys()].filter((seq) => !known.has(seq)).slice(-CATCH_UP);
    const worded = missing.flatMap((seq) => {
      const memory = visible.memories.get(visible.bySeq.get(seq) ?? '');
      return memory === undefined ? [] : [{ seq, content: memory.fields.content }];
    });
    if (worded.length === 0) return;
    for (const { seq, vector } of await this.#store(embedder, worded, signal)) known.set(seq, vector);
  }

  async #store(embedder: Embedder, worded: readonly Worded[], signal: AbortSignal | undefined): Promise<EventVector[]> {
    const texts = worded.map(({ content }) => content);
    const vectors = await embedder.embed(texts, signal === undefined ? {} : { signal });
    const entries = worded.flatMap(({ seq }, at) => {
      const vector = vectors[at];
      return vector === undefined ? [] : [{ seq, vector: normaliseVector(vector) }];
    });
    await this.#storage.writeVectors(embedder.id, entries);
    return entries;
  }
}

function compareAll(
  asked: Float32Array,
  known: ReadonlyMap<number, Float32Array>,
  visible: Visible,
): Map<string, number> {
  const cosines = new Map<string, number>();
  for (const [seq, id] of visible.bySeq) {
    const vector = known.get(seq);
    if (vector !== undefined && vector.length === asked.length) cosines.set(id, cosine(asked, vector));
  }
  return cosines;
}
