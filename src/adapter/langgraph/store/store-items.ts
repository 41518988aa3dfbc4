import { findIn, type StateCodec } from '../../../core/codec/state-codec.ts';
import { type Chunk, type ChunkContent, createChunk, type Digest } from '../../../core/tree/chunk.ts';
import { REF_TEXT } from '../../../core/value/grammar.ts';
import { KeptValues, type StoreChunks } from './store-chunks.ts';

/** A value on its way into a store: its text, and the chunks that refers to. */
export type EncodedValue = ChunkContent & { readonly chunks: readonly Chunk[]; readonly bytes: number };

/** What is known of an item besides its value. `index` names the fields that a query looks at; default all. */
export type ItemFields = {
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly bytes: number;
  readonly index?: false | readonly string[];
};

/** An item as it is stored. */
export type StoredItem = ItemFields & { readonly value: unknown };

/** Something whose item is in a chunk. */
type HasItem = { readonly ref: Digest };

/** Enough to filter a large store again and again; more is decoded again when needed. */
const KEPT_BYTES = 64 * 1024 * 1024;

/** What an item takes in memory besides its value, roughly. */
const ITEM_BYTES = 300;

const VALUE_START = '"value":';
const FIRST_FIELDS = /^\{"createdAt":([^,]+),"updatedAt":[^,]+,"bytes":([^,]+),/;

/** Turns items into chunks and back. */
export class StoreItems {
  readonly #codec: StateCodec;
  readonly #chunks: StoreChunks;
  readonly #decoded = new KeptValues<Digest, StoredItem>(KEPT_BYTES, ({ bytes }) => bytes + ITEM_BYTES);

  constructor(codec: StateCodec, chunks: StoreChunks) {
    this.#codec = codec;
    this.#chunks = chunks;
  }

  /** Takes a value as it is now, and refuses what cannot be saved. As a field of a state it is a chunk of its own, or within it. */
  encode(value: unknown): EncodedValue {
    const { root, chunks, sizeBytes: bytes } = this.#codec.encode({ value });
    const text = root.text.slice(VALUE_START.length + 1, -1);
    const own = text === REF_TEXT ? chunks.find(({ digest }) => digest === root.refs[0]) : undefined;
    if (own === undefined) return { text, refs: root.refs, chunks, bytes };
    return { text: own.text, refs: own.refs, chunks: chunks.filter((chunk) => chunk !== own), bytes };
  }

  /** What the next item of this key must know, without decoding this one. */
  async readFields(ref: Digest): Promise<Pick<ItemFields, 'createdAt' | 'bytes'>> {
    const [, createdAt, bytes] = FIRST_FIELDS.exec((await this.#chunks.readOne(ref)).text) ?? [];
    return { createdAt: Number(createdAt), bytes: Number(bytes) };
  }

  /** Items for callers to keep and change. */
  async read(entries: readonly HasItem[]): Promise<StoredItem[]> {
    const chunks = await this.#chunks.readBelow(entries.map(({ ref }) => ref));
    const find = findIn(chunks);
    return entries.map(({ ref }) => this.#codec.decode(find(ref), find) as StoredItem);
  }

  /** Items to look at, each decoded once as long as it is kept. */
  async look(entries: readonly HasItem[]): Promise<StoredItem[]> {
    const known = entries.map(({ ref }) => this.#decoded.get(ref));
    const missing = entries.filter((_, at) => known[at] === undefined);
    const read = missing.length === 0 ? [] : await this.read(missing);
    for (const [at, { ref }] of missing.entries()) this.#decoded.set(ref, read[at] as StoredItem);
    let next = 0;
    return known.map((item) => item ?? (read[next++] as StoredItem));
  }
}

/** The chunk of an item. */
export function createItemChunk({ text, refs }: EncodedValue, fields: ItemFields): Chunk {
  const { createdAt, updatedAt, bytes, index } = fields;
  const first = JSON.stringify({ createdAt, updatedAt, bytes, index }).slice(0, -1);
  return createChunk({ text: `${first},${VALUE_START}${text}}`, refs });
}
