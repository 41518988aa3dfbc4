import { CorruptError } from '../../../core/errors.ts';
import { type Chunk, type ChunkContent, createChunk, type Digest, digestText } from '../../../core/tree/chunk.ts';
import { REF_TEXT } from '../../../core/value/grammar.ts';
import { KeptValues, type StoreChunks } from './store-chunks.ts';

/** What a trie holds for one key: its place in the order of coming, a chunk, and how many items are below that. */
export type TrieEntry = { readonly at: number; readonly size?: number; readonly ref: Digest };

/** An entry with its key. */
export type ListedEntry = TrieEntry & { readonly key: string };

/** What becomes of some keys: another entry, or `undefined` for none. */
export type TrieChanges = ReadonlyMap<string, TrieEntry | undefined>;

type Leaf = { readonly kind: 'leaf'; readonly entries: ReadonlyMap<string, TrieEntry> };
type Branch = { readonly kind: 'branch'; readonly children: ReadonlyMap<string, Digest> };
type Node = Leaf | Branch;

/** New chunks, which are in no storage yet. */
type Written = Map<Digest, Chunk>;

/** A leaf with more entries than this is split. Every change writes a leaf again, so it is small; but most namespaces fit into one. */
const LEAF_ENTRIES = 16;

/** Lists that are kept, in entries. */
const KEPT_ENTRIES = 200_000;

const LEAF_START = '{"$":["Map",[';

const NO_LEAF: Leaf = { kind: 'leaf', entries: new Map() };

/**
 * Entries by key, in chunks that a change rewrites few of: a leaf holds some entries, and a branch has a child for each hexadecimal
 * digit of the digests of the keys below it. Read as a state, a leaf is a Map and a branch an object. `refName` is the field in
 * which entries have their chunk.
 */
export class StoreTrie {
  readonly #chunks: StoreChunks;
  readonly #refName: string;
  readonly #nodes = new WeakMap<ChunkContent, Node>();
  readonly #lists = new KeptValues<Digest, readonly ListedEntry[]>(KEPT_ENTRIES, ({ length }) => length);

  constructor(chunks: StoreChunks, refName: string) {
    this.#chunks = chunks;
    this.#refName = refName;
  }

  async find(root: Digest | undefined, key: string): Promise<TrieEntry | undefined> {
    const digits = placeOf(key);
    let at = root;
    for (let depth = 0; at !== undefined; depth++) {
      const node = this.#parse(await this.#chunks.readOne(at));
      if (node.kind === 'leaf') return node.entries.get(key);
      at = node.children.get(digits[depth] as string);
    }
    return undefined;
  }

  /** All entries of each of these tries, in the order in which they came; each level of all of them is one read. */
  async list(roots: readonly Digest[]): Promise<(readonly ListedEntry[])[]> {
    const known = roots.map((root) => this.#lists.get(root));
    const missing = new Set(roots.filter((_, at) => known[at] === undefined));
    const read = missing.size === 0 ? new Map<Digest, ListedEntry[]>() : await this.#readAll(missing);
    for (const [root, entries] of read) {
      entries.sort((a, b) => a.at - b.at);
      this.#lists.set(root, entries);
    }
    return roots.map((root, at) => known[at] ?? read.get(root) ?? []);
  }

  async #readAll(roots: ReadonlySet<Digest>): Promise<Map<Digest, ListedEntry[]>> {
    const found = new Map([...roots].map((root): [Digest, ListedEntry[]] => [root, []]));
    let level = [...roots].map((root) => ({ root, digest: root }));
    while (level.length > 0) {
      const chunks = await this.#chunks.read(level.map(({ digest }) => digest));
      level = level.flatMap(({ root, digest }) => {
        const node = this.#parse(chunks.get(digest) as ChunkContent);
        if (node.kind === 'branch') return [...node.children.values()].map((child) => ({ root, digest: child }));
        for (const [key, entry] of node.entries) found.get(root)?.push({ key, ...entry });
        return [];
      });
    }
    return found;
  }

  /** The trie after some changes; new chunks are added to `written`. Undefined if nothing is left. */
  async update(root: Digest | undefined, changes: TrieChanges, written: Written): Promise<Digest | undefined> {
    const node = await this.#change(root, changes, { depth: 0, written });
    return node && this.#write(node, written);
  }

  async #change(
    digest: Digest | undefined,
    changes: TrieChanges,
    { depth, written }: { readonly depth: number; readonly written: Written },
  ): Promise<Node | undefined> {
    const node = digest === undefined ? NO_LEAF : await this.#open(digest, written);
    if (node.kind === 'leaf') return this.#build(mergeEntries(node.entries, changes), depth, written);
    const children = new Map(node.children);
    for (const [digit, group] of groupByDigit(changes, depth)) {
      const child = await this.#change(children.get(digit), group, { depth: depth + 1, written });
      if (child === undefined) children.delete(digit);
      else children.set(digit, this.#write(child, written));
    }
    const [first, second] = children.values();
    if (first === undefined) return undefined;
    // A leaf that is alone takes the place of its branch.
    const lonely = second === undefined ? await this.#open(first, written) : undefined;
    return lonely?.kind === 'leaf' ? lonely : { kind: 'branch', children };
  }

  async #open(digest: Digest, written: Written): Promise<Node> {
    return this.#parse(written.get(digest) ?? (await this.#chunks.readOne(digest)));
  }

  #build(entries: ReadonlyMap<string, TrieEntry>, depth: number, written: Written): Node | undefined {
    if (entries.size === 0) return undefined;
    if (entries.size <= LEAF_ENTRIES) return { kind: 'leaf', entries };
    const children = new Map<string, Digest>();
    for (const [digit, group] of groupByDigit(entries, depth))
      children.set(digit, this.#write(this.#build(group, depth + 1, written) ?? NO_LEAF, written));
    return { kind: 'branch', children };
  }

  #write(node: Node, written: Written): Digest {
    const chunk = createChunk(node.kind === 'leaf' ? this.#formatLeaf(node) : formatBranch(node));
    written.set(chunk.digest, chunk);
    return chunk.digest;
  }

  #formatLeaf({ entries }: Leaf): ChunkContent {
    const sorted = [...entries].sort(([a], [b]) => (a < b ? -1 : 1));
    const texts = sorted.map(([key, { at, size }]) => {
      const known = JSON.stringify({ at, size }).slice(1, -1);
      return `[${JSON.stringify(key)},{${known},"${this.#refName}":${REF_TEXT}}]`;
    });
    return { text: `${LEAF_START}${texts.join(',')}]]}`, refs: sorted.map(([, { ref }]) => ref) };
  }

  /** A chunk that is kept is parsed once. */
  #parse(chunk: ChunkContent): Node {
    try {
      const node = this.#nodes.get(chunk) ?? parseNode(chunk);
      this.#nodes.set(chunk, node);
      return node;
    } catch (cause) {
      throw new CorruptError('A part of the store is not what a store writes. Run verify.', { cause });
    }
  }
}

function parseNode({ text, refs }: ChunkContent): Node {
  if (!text.startsWith(LEAF_START)) {
    const digits = Object.keys(JSON.parse(text) as object);
    return { kind: 'branch', children: new Map(digits.map((digit, at) => [digit, refs[at] as Digest])) };
  }
  const pairs = (JSON.parse(text) as { $: [string, [string, Omit<TrieEntry, 'ref'>][]] }).$[1];
  const entries = pairs.map(([key, { at, size }], n): [string, TrieEntry] => [
    key,
    { at, ...(size !== undefined && { size }), ref: refs[n] as Digest },
  ]);
  return { kind: 'leaf', entries: new Map(entries) };
}

/** Digits come in the order in which JavaScript keeps the keys of an object: numbers before letters. */
function formatBranch({ children }: Branch): ChunkContent {
  const sorted = [...children].sort(([a], [b]) => (a < b ? -1 : 1));
  const fields = sorted.map(([digit]) => `"${digit}":${REF_TEXT}`);
  return { text: `{${fields.join(',')}}`, refs: sorted.map(([, ref]) => ref) };
}

function mergeEntries(entries: ReadonlyMap<string, TrieEntry>, changes: TrieChanges): ReadonlyMap<string, TrieEntry> {
  const merged = new Map(entries);
  for (const [key, entry] of changes) {
    if (entry === undefined) merged.delete(key);
    else merged.set(key, entry);
  }
  return merged;
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
