import { type Chunk, type ChunkContent, createChunk, type Digest } from '../../../core/tree/chunk.ts';
import { REF_TEXT } from '../../../core/value/grammar.ts';
import type { StoreChunks } from './store-chunks.ts';
import { createItemChunk, type EncodedValue, type ItemFields, type StoreItems } from './store-items.ts';
import { type ListedEntry, StoreTrie, type TrieEntry } from './store-trie.ts';

/** How the items of a store are laid out; a header names it, so that another one is not taken for it. */
export const STORE_FORM = 2;

/** The whole of a store as of one checkpoint. `next` is the place of what comes next, in the order of coming. */
export type StoreRoot = { readonly next: number; readonly bytes: number; readonly namespaces: Digest | undefined };

/** A namespace that holds items: how many, and their trie. */
export type StoreNamespace = { readonly path: readonly string[]; readonly size: number; readonly items: Digest };

/** Where an item is: `ref` is its chunk. */
export type StoreEntry = { readonly namespace: readonly string[]; readonly key: string; readonly ref: Digest };

/** One change: a value to put, or none to delete the item. Times are those of now, unless given. */
export type StorePut = {
  readonly namespace: readonly string[];
  readonly key: string;
  readonly value: EncodedValue | undefined;
  readonly index?: false | readonly string[] | undefined;
  readonly times?: { readonly createdAt: number; readonly updatedAt: number };
};

/** A store before anything was put. */
export const EMPTY_ROOT: StoreRoot = { next: 0, bytes: 0, namespaces: undefined };

/** What a batch makes of one item: a later change replaces an earlier one, but after a deletion an item begins anew. */
type NetChange = { readonly put: StorePut; readonly isFresh: boolean };

/** A store being changed. */
type Draft = { next: number; bytes: number; readonly nowMs: number; readonly written: Map<Digest, Chunk> };

/**
 * The items of a store as chunks: a trie of namespaces, each with a trie of its items. Whatever is read or changed, only the
 * chunks on the way to it are touched.
 */
export class StoreTree {
  readonly #namespaces: StoreTrie;
  readonly #places: StoreTrie;
  readonly #items: StoreItems;
  #paths: { readonly of: readonly ListedEntry[]; readonly found: readonly StoreNamespace[] } = { of: [], found: [] };

  constructor(chunks: StoreChunks, items: StoreItems) {
    this.#namespaces = new StoreTrie(chunks, 'items');
    this.#places = new StoreTrie(chunks, 'item');
    this.#items = items;
  }

  async find(root: StoreRoot, namespace: readonly string[], key: string): Promise<StoreEntry | undefined> {
    const group = await this.#namespaces.find(root.namespaces, JSON.stringify(namespace));
    const place = await this.#places.find(group?.ref, key);
    return place && { namespace, key, ref: place.ref };
  }

  /** All namespaces, in the order in which they came. */
  async namespaces({ namespaces }: StoreRoot): Promise<readonly StoreNamespace[]> {
    if (namespaces === undefined) return [];
    const [of = []] = await this.#namespaces.list([namespaces]);
    if (this.#paths.of === of) return this.#paths.found;
    const found = of.map(({ key, size = 0, ref }) => ({ path: JSON.parse(key) as string[], size, items: ref }));
    this.#paths = { of, found };
    return found;
  }

  /** The items of some namespaces, namespace by namespace, in the order in which they came. */
  async items(groups: readonly StoreNamespace[]): Promise<StoreEntry[]> {
    const lists = await this.#places.list(groups.map(({ items }) => items));
    return groups.flatMap(({ path: namespace }, at) =>
      (lists[at] ?? []).map(({ key, ref }) => ({ namespace, key, ref })),
    );
  }

  /** The store after some changes, and the new chunks; the same root if they change nothing. */
  async apply(
    root: StoreRoot,
    puts: readonly StorePut[],
    nowMs: number,
  ): Promise<{ readonly root: StoreRoot; readonly written: ReadonlyMap<Digest, Chunk> }> {
    const draft: Draft = { next: root.next, bytes: root.bytes, nowMs, written: new Map() };
    const changes = new Map<string, TrieEntry | undefined>();
    for (const [name, group] of groupPuts(puts)) {
      const before = await this.#namespaces.find(root.namespaces, name);
      const after = await this.#changeNamespace(before, group, draft);
      if (after !== before) changes.set(name, after);
    }
    if (changes.size === 0) return { root, written: new Map() };
    const namespaces = await this.#namespaces.update(root.namespaces, changes, draft.written);
    return { root: { next: draft.next, bytes: draft.bytes, namespaces }, written: draft.written };
  }

  async #changeNamespace(
    before: TrieEntry | undefined,
    group: ReadonlyMap<string, NetChange>,
    draft: Draft,
  ): Promise<TrieEntry | undefined> {
    const { at, ref, ...held } = before ?? { at: draft.next++, size: 0, ref: undefined };
    let { size = 0 } = held;
    const changes = new Map<string, TrieEntry | undefined>();
    for (const [key, change] of group) {
      const old = await this.#places.find(ref, key);
      if (old === undefined && change.put.value === undefined) continue;
      const place = await this.#changeItem(old, change, draft);
      size += Number(place !== undefined) - Number(old !== undefined);
      changes.set(key, place);
    }
    if (changes.size === 0) return before;
    const items = await this.#places.update(ref, changes, draft.written);
    return items && { at, size, ref: items };
  }

  async #changeItem(
    old: TrieEntry | undefined,
    { put, isFresh }: NetChange,
    draft: Draft,
  ): Promise<TrieEntry | undefined> {
    const before = old && { at: old.at, ...(await this.#items.readFields(old.ref)) };
    if (before !== undefined) draft.bytes -= before.bytes;
    if (put.value === undefined) return undefined;
    draft.bytes += put.value.bytes;
    const { at, createdAt } = isFresh || before === undefined ? { at: draft.next++, createdAt: draft.nowMs } : before;
    const chunk = createItemChunk(put.value, fieldsOf(put, draft.nowMs, createdAt));
    for (const one of [...put.value.chunks, chunk]) draft.written.set(one.digest, one);
    return { at, ref: chunk.digest };
  }
}

function fieldsOf({ value, index, times }: StorePut, nowMs: number, createdAt: number): ItemFields {
  return { createdAt, updatedAt: nowMs, ...times, bytes: value?.bytes ?? 0, ...(index !== undefined && { index }) };
}

/** Changes by namespace, which stands there as JSON so that no two share a name, and by key. */
function groupPuts(puts: readonly StorePut[]): Map<string, Map<string, NetChange>> {
  const groups = new Map<string, Map<string, NetChange>>();
  for (const put of puts) {
    const name = JSON.stringify(put.namespace);
    const group = groups.get(name) ?? new Map<string, NetChange>();
    groups.set(name, group);
    const before = group.get(put.key);
    const wasDeleted = before !== undefined && before.put.value === undefined;
    if (wasDeleted) group.delete(put.key); // so that it comes after what was put meanwhile
    group.set(put.key, { put, isFresh: wasDeleted || before?.isFresh === true });
  }
  return groups;
}

/** The state of a store: a chunk that reads like any other state. */
export function formatRoot({ next, bytes, namespaces }: StoreRoot): Chunk {
  const start = `{"form":${STORE_FORM},"next":${next},"bytes":${bytes}`;
  if (namespaces === undefined) return createChunk({ text: `${start}}`, refs: [] });
  return createChunk({ text: `${start},"namespaces":${REF_TEXT}}`, refs: [namespaces] });
}

/** Reads what `formatRoot` wrote. */
export function parseRoot({ text, refs }: ChunkContent): StoreRoot {
  const { next, bytes } = JSON.parse(text) as { next: number; bytes: number };
  return { next, bytes, namespaces: refs[0] };
}
