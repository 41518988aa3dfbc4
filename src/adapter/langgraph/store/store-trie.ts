import { CorruptError } from '../../../core/errors.ts';
import { type Chunk, type ChunkContent, createChunk, type Digest, digestText } from '../../../core/tree/chunk.ts';
import { REF_TEXT } from '../../../core/value/grammar.ts';
import type { StoreChunks } from './store-chunks.ts';

/** What a trie holds for one key: a few fields, and a chunk. */
export type TrieEntry<Fields extends object> = { readonly fields: Fields; readonly ref: Digest };

/** What becomes of some keys: another entry, or `undefined` for none. */
type TrieChanges<Fields extends object> = ReadonlyMap<string, TrieEntry<Fields> | undefined>;

type Leaf<Fields extends object> = {
  readonly kind: 'leaf';
  readonly entries: ReadonlyMap<string, TrieEntry<Fields>>;
};
type Branch = { readonly kind: 'branch'; readonly children: ReadonlyMap<string, Digest> };
type Node<Fields extends object> = Leaf<Fields> | Branch;

/** A leaf with more entries than this is split. Every change writes a leaf again, so it is small; but most namespaces fit into one. */
const LEAF_ENTRIES = 16;

const LEAF_START = '{"$":["Map",[';

/**
 * Entries by key, in chunks that a change rewrites few of: a leaf holds some entries, and a branch has a child for each hexadecimal
 * digit of the digests of the keys below it. Read as a state, a leaf is a Map and a branch an object. `refName` is the field in
 * which entries have their chunk.
 */
export class StoreTrie<Fields extends object> {
  readonly #chunks: StoreChunks;
  readonly #refName: string;
  readonly #nodes = new WeakMap<ChunkContent, Node<Fields>>();

  constructor(chunks: StoreChunks, refName: string) {
    this.#chunks = chunks;
    this.#refName = refName;
  }

  async find(root: Digest | undefined, key: string): Promise<TrieEntry<Fields> | undefined> {
    const digits = placeOf(key);
    let at = root;
    for (let depth = 0; at !== undefined; depth++) {
      const node = this.#parse(await this.#chunks.readOne(at));
      if (node.kind === 'leaf') return node.entries.get(key);
      at = node.children.get(digits[depth] as string);
    }
    return undefined;
  }

  /** All entries of each of these tries, in no particular order; each level of all of them is one read. */
  async entries(roots: readonly (Digest | undefined)[]): Promise<Map<string, TrieEntry<Fields>>[]> {
    const found = roots.map(() => new Map<string, TrieEntry<Fields>>());
    let level = roots.flatMap((digest, at) => (digest === undefined ? [] : [{ digest, at }]));
    while (level.length > 0) {
      const chunks = await this.#chunks.read(level.map(({ digest }) => digest));
      const nodes = level.map(({ digest, at }) => ({ at, node: this.#parse(chunks.get(digest) as ChunkContent) }));
      level = nodes.flatMap(({ at, node }) => {
        if (node.kind === 'branch') return [...node.children.values()].map((digest) => ({ digest, at }));
        for (const [key, entry] of node.entries) found[at]?.set(key, entry);
        return [];
      });
    }
    return found;
  }

  /** The trie after some changes; new chunks are added to `written`. Undefined if nothing is left. */
  async update(
    root: Digest | undefined,
    changes: TrieChanges<Fields>,
    written: Map<Digest, Chunk>,
  ): Promise<Digest | undefined> {
    const node = await this.#change(root, { changes, depth: 0, written });
    return node && this.#write(node, written);
  }

  async #change(root: Digest | undefined, change: Change<Fields>): Promise<Node<Fields> | undefined> {
    const node = root === undefined ? NO_LEAF : this.#parse(await this.#chunks.readOne(root));
    return node.kind === 'leaf' ? this.#changeLeaf(node as Leaf<Fields>, change) : this.#changeBranch(node, change);
  }

  #changeLeaf({ entries }: Leaf<Fields>, { changes, depth, written }: Change<Fields>): Node<Fields> | undefined {
    const changed = new Map(entries);
    for (const [key, entry] of changes) {
      if (entry === undefined) changed.delete(key);
      else changed.set(key, entry);
    }
    return changed.size === 0 ? undefined : this.#build(changed, depth, written);
  }

  #build(entries: ReadonlyMap<string, TrieEntry<Fields>>, depth: number, written: Map<Digest, Chunk>): Node<Fields> {
    if (entries.size <= LEAF_ENTRIES) return { kind: 'leaf', entries };
    const children = new Map<string, Digest>();
    for (const [digit, group] of groupByDigit(entries, depth))
      children.set(digit, this.#write(this.#build(group, depth + 1, written), written));
    return { kind: 'branch', children };
  }

  async #changeBranch(
    { children }: Branch,
    { changes, depth, written }: Change<Fields>,
  ): Promise<Node<Fields> | undefined> {
    const changed = new Map<string, Digest | Node<Fields>>(children);
    for (const [digit, group] of groupByDigit(changes, depth)) {
      const child = await this.#change(children.get(digit), { changes: group, depth: depth + 1, written });
      if (child === undefined) changed.delete(digit);
      else changed.set(digit, child);
    }
    if (changed.size === 0) return undefined;
    const lonely = changed.size === 1 ? await this.#onlyLeaf(changed.values()) : undefined;
    return lonely ?? { kind: 'branch', children: this.#writeAll(changed, written) };
  }

  /** A leaf that is alone takes the place of its branch. */
  async #onlyLeaf(children: Iterable<Digest | Node<Fields>>): Promise<Leaf<Fields> | undefined> {
    const [child = NO_LEAF] = children;
    const node = typeof child === 'string' ? this.#parse(await this.#chunks.readOne(child)) : child;
    return node.kind === 'leaf' ? node : undefined;
  }

  #writeAll(children: Iterable<[string, Digest | Node<Fields>]>, written: Map<Digest, Chunk>): Map<string, Digest> {
    const digests = new Map<string, Digest>();
    for (const [digit, child] of children)
      digests.set(digit, typeof child === 'string' ? child : this.#write(child, written));
    return digests;
  }

  #write(node: Node<Fields>, written: Map<Digest, Chunk>): Digest {
    const chunk = createChunk(node.kind === 'leaf' ? this.#formatLeaf(node) : formatBranch(node));
    written.set(chunk.digest, chunk);
    return chunk.digest;
  }

  #formatLeaf({ entries }: Leaf<Fields>): ChunkContent {
    const sorted = [...entries].sort(([a], [b]) => (a < b ? -1 : 1));
    const texts = sorted.map(([key, { fields }]) => {
      const known = JSON.stringify(fields).slice(1, -1);
      return `[${JSON.stringify(key)},{${known},"${this.#refName}":${REF_TEXT}}]`;
    });
    return { text: `${LEAF_START}${texts.join(',')}]]}`, refs: sorted.map(([, { ref }]) => ref) };
  }

  /** A chunk that is kept is parsed once. */
  #parse(chunk: ChunkContent): Node<Fields> {
    const node = this.#nodes.get(chunk) ?? this.#parseNew(chunk);
    this.#nodes.set(chunk, node);
    return node;
  }

  #parseNew({ text, refs }: ChunkContent): Node<Fields> {
    try {
      return text.startsWith(LEAF_START) ? this.#parseLeaf(text, refs) : parseBranch(text, refs);
    } catch (cause) {
      throw new CorruptError('A part of the store is not what a store writes. Run verify.', { cause });
    }
  }

  #parseLeaf(text: string, refs: readonly Digest[]): Leaf<Fields> {
    const pairs = (JSON.parse(text) as { $: [string, [string, Record<string, unknown>][]] }).$[1];
    const entries = pairs.map(([key, all], at): [string, TrieEntry<Fields>] => {
      const { [this.#refName]: _ref, ...fields } = all;
      return [key, { fields: fields as Fields, ref: refs[at] as Digest }];
    });
    return { kind: 'leaf', entries: new Map(entries) };
  }
}

type Change<Fields extends object> = {
  readonly changes: TrieChanges<Fields>;
  readonly depth: number;
  readonly written: Map<Digest, Chunk>;
};

const NO_LEAF: Leaf<never> = { kind: 'leaf', entries: new Map() };

/** Digits come in the order in which JavaScript keeps the keys of an object: numbers before letters. */
function formatBranch({ children }: Branch): ChunkContent {
  const sorted = [...children].sort(([a], [b]) => (a < b ? -1 : 1));
  const fields = sorted.map(([digit]) => `"${digit}":${REF_TEXT}`);
  return { text: `{${fields.join(',')}}`, refs: sorted.map(([, ref]) => ref) };
}

function parseBranch(text: string, refs: readonly Digest[]): Branch {
  const digits = Object.keys(JSON.parse(text) as object);
  return { kind: 'branch', children: new Map(digits.map((digit, at) => [digit, refs[at] as Digest])) };
}

/** The digits that lead to a key. As JSON, because half of a pair of surrogates has no bytes of its own to digest. */
function placeOf(key: string): string {
  return digestText(JSON.stringify(key));
}

function groupByDigit<Value>(entries: ReadonlyMap<string, Value>, depth: number): Map<string, Map<string, Value>> {
  const groups = new Map<string, Map<string, Value>>();
  for (const [key, value] of entries) {
    const digit = placeOf(key)[depth] as string;
    const group = groups.get(digit);
    if (group === undefined) groups.set(digit, new Map([[key, value]]));
    else group.set(key, value);
  }
  return groups;
}
