import { CorruptError } from '../errors.ts';
import type { ChunkContent, Digest } from '../tree/chunk.ts';
import type { TreeLevels, TreeNode } from '../tree/shadow.ts';
import { OVERHEAD, PADDING, sizeOfAtom } from '../tree/size.ts';
import { decodeAtom, decodeBase64, decodeBytes } from '../value/atom.ts';
import type { ClassCodecs } from '../value/class-codec.ts';
import { createError } from '../value/error-value.ts';
import type { ValueLimits } from '../value/format.ts';
import {
  asList,
  asPair,
  type Cursor,
  checkEntries,
  checkUsed,
  isRef,
  isTagged,
  type Json,
  parseChunkText,
  parseExactText,
  REF_TEXT,
  readCounts,
  readFields,
  readTag,
  readTree,
  setField,
  TAG_START,
  type TaggedFields,
  takeRef,
} from '../value/grammar.ts';
import { locate, ReadBudget, toReadError } from './read-budget.ts';

/** Where the decoded containers came from: lets the next save know them without encoding them again. */
export type Origins = {
  readonly digests: Map<object, Digest>;
  readonly levels: Map<object, TreeLevels>;
};

/** Finds a chunk by its digest; throws if it is absent or damaged. */
export type FindChunk = (digest: Digest) => ChunkContent;

/** What is asked of decoded parts: the value of a chunk inside so many containers, or the elements of a node of a tree. */
export type PartPlace = { readonly digest: Digest; readonly depth: number; readonly codecs: ClassCodecs };
export type NodePlace = PartPlace & { readonly kind: string; readonly height: number };

/** Parts of states that need not be decoded, because they were before. */
export interface Parts {
  value(place: PartPlace, budget: ReadBudget, decode: () => unknown): unknown;
  items(place: NodePlace, budget: ReadBudget, decode: () => unknown[]): unknown[];
}

type DecoderOptions = {
  readonly codecs: ClassCodecs;
  readonly limits: ValueLimits;
  readonly origins?: Origins;
  readonly parts?: Parts | undefined;
  /** Whether texts must be exactly as they are written. */
  readonly isStrict?: boolean;
};

/** Where a value stands: in the text of which chunk, inside how many containers. */
type Place = { readonly cursor: Cursor<Digest>; readonly depth: number };

/** A tree that is being read. */
type Expansion = {
  readonly kind: string;
  readonly depth: number;
  readonly levels: TreeNode[][];
  /** How many elements were read. */
  done: number;
};

type ErrorFields = Record<string, unknown>;

const PAIRED_KINDS: ReadonlySet<string> = new Set(['Map', 'object', 'bare']);

/**
 * Turns chunks back into values. Runs no code that data could name: tags select from a closed set and from registered codecs.
 * What is more than the limits, or is not what chunks hold, is an error with the path of it. One decoder serves one state.
 */
export class Decoder {
  readonly #find: FindChunk;
  readonly #codecs: ClassCodecs;
  readonly #origins: Origins | undefined;
  readonly #parts: Parts | undefined;
  readonly #parse: (text: string) => Json;
  readonly #budget: ReadBudget;

  constructor(find: FindChunk, { codecs, limits, origins, parts, isStrict = false }: DecoderOptions) {
    this.#find = find;
    this.#codecs = codecs;
    this.#origins = origins;
    this.#parts = parts;
    this.#parse = isStrict ? parseExactText : parseChunkText;
    this.#budget = new ReadBudget(limits);
  }

  decode(content: ChunkContent): unknown {
    try {
      return this.#decodeChunk(content, 0);
    } catch (error) {
      throw toReadError(error);
    }
  }

  #decodeChunk(content: ChunkContent, depth: number): unknown {
    return this.#open(content, depth, (json, place) => {
      if (content.text.includes(TAG_START)) return this.#revive(json, place);
      this.#budget.countPlain(json, depth);
      return json;
    });
  }

  /** Reads a chunk, which must use all its refs. */
  #open<Value>({ text, refs }: ChunkContent, depth: number, read: (json: Json, place: Place) => Value): Value {
    this.#budget.visit();
    const cursor = { refs, next: 0 };
    const value = read(this.#parse(text), { cursor, depth });
    checkUsed(cursor);
    return value;
  }

  #decodeRef(digest: Digest, depth: number): unknown {
    if (this.#parts === undefined) return this.#decodeFound(digest, depth);
    const place = { digest, depth, codecs: this.#codecs };
    return this.#parts.value(place, this.#budget, () => this.#decodeFound(digest, depth));
  }

  #decodeFound(digest: Digest, depth: number): unknown {
    const content = this.#find(digest);
    // Else a row of chunks that hold nothing but each other would be as deep as it is long.
    if (content.text === REF_TEXT) throw new CorruptError('A chunk holds nothing but a reference.');
    const value = this.#decodeChunk(content, depth);
    if (this.#origins !== undefined && typeof value === 'object' && value !== null)
      this.#origins.digests.set(value, digest);
    return value;
  }

  #revive(json: Json, place: Place): unknown {
    if (typeof json !== 'object' || json === null) {
      this.#budget.countPrimitive(json);
      return json;
    }
    if (Array.isArray(json)) return this.#reviveItems(json, this.#enter(place));
    if (!isTagged(json)) return this.#reviveFields(Object.entries(json), this.#enter(place), json);
    const tagged = readTag(json);
    if (tagged === 0) return this.#decodeRef(takeRef(place.cursor), place.depth);
    const [tag, ...args] = tagged;
    return this.#reviveAtom(tag, args, place);
  }

  #reviveAtom(tag: string, args: Json[], place: Place): unknown {
    if (tag === 'tree') return this.#reviveTree(args, place);
    const atom = decodeAtom(tag, args);
    if (atom === undefined) return this.#reviveContainer(tag, args, this.#enter(place));
    if (typeof atom.value === 'object') this.#budget.enter(place.depth);
    this.#budget.count(sizeOfAtom(atom.value, args[0]));
    return atom.value;
  }

  /** Counts a container; what is in it stands one level deeper. */
  #enter({ cursor, depth }: Place): Place {
    this.#budget.enter(depth);
    return { cursor, depth: depth + 1 };
  }

  #reviveItems(json: Json[], place: Place): unknown[] {
    const values: unknown[] = json;
    let at = 0;
    try {
      for (; at < values.length; at++) values[at] = this.#revive(json[at] as Json, place);
    } catch (error) {
      throw locate(error, at);
    }
    return values;
  }

  #reviveFields(fields: readonly [string, Json][], place: Place, target: object): object {
    for (const [key, json] of fields) setField(target, key, this.#reviveField(key, json, place));
    return target;
  }

  #reviveField(key: string, json: Json, place: Place): unknown {
    try {
      this.#budget.addKey(key);
      return this.#revive(json, place);
    } catch (error) {
      throw locate(error, key);
    }
  }

  #reviveTagged({ isBare, fields }: TaggedFields, place: Place): object {
    const target = this.#reviveFields(fields, place, isBare ? Object.create(null) : {});
    checkEntries(Object.keys(target).length, fields.length);
    return target;
  }

  #reviveContainer(tag: string, args: Json[], place: Place): unknown {
    const object = readFields(tag, args[0]);
    if (object !== undefined) return this.#reviveTagged(object, place);
    switch (tag) {
      case 'Map':
        return createMap(asList(args[0]).map((pair, at) => this.#reviveEntry(pair, place, at)));
      case 'Set':
        return createSet(this.#reviveItems(asList(args[0]), place));
      case 'Error':
        return createError(String(args[0]), this.#revivePayload(args, place) as ErrorFields);
      case 'class':
        return this.#codecs.decode(String(args[0]), this.#revivePayload(args, place));
      default:
        throw new CorruptError(
          `The state holds a value tagged ${JSON.stringify(tag)}, which this version does not know.`,
        );
    }
  }

  #reviveEntry(pair: Json, place: Place, at: number): [unknown, unknown] {
    try {
      return this.#revivePair(pair, place, 'Map');
    } catch (error) {
      throw locate(error, at);
    }
  }

  #revivePayload([tag, payload = null]: Json[], place: Place): unknown {
    if (typeof tag !== 'string') throw new CorruptError('An instance lacks the name of its class.');
    return this.#revive(payload, place);
  }

  /** A pair is no container of its own; in a tree it may be a chunk. The key of an object is no value. */
  #revivePair(json: Json, place: Place, kind: string): [unknown, unknown] {
    if (isRef(json)) {
      const content = this.#find(takeRef(place.cursor));
      return this.#open(content, place.depth, (inner, at) => this.#revivePair(asList(inner), at, kind));
    }
    const [key, value] = asPair(json) as [Json, Json];
    if (kind === 'Map') return asPair(this.#reviveItems([key, value], place));
    return [key, this.#reviveField(asText(key), value, place)];
  }

  #reviveTree(args: Json[], outer: Place): unknown {
    const { kind, count, rows, items: last } = readTree(args);
    const place = kind === 'text' ? outer : this.#enter(outer);
    if (kind === 'text') this.#budget.count(OVERHEAD); // a long text is no container, whatever it is made of
    const tree: Expansion = { kind, depth: place.depth, levels: rows.map(() => []), done: 0 };
    const items: unknown[] = [];
    for (const [at, counts] of rows.entries())
      for (const count of counts)
        this.#expand({ digest: takeRef(place.cursor), count, height: rows.length - at }, tree, items);
    for (const item of this.#reviveElements(last, place, kind)) items.push(item);
    if (items.length !== count) throw new CorruptError(`A tree says it has ${count} elements and has ${items.length}.`);
    const value = assemble(kind, items);
    if (typeof value === 'object') this.#origins?.levels.set(value, tree.levels.map(toLevel));
    return value;
  }

  /** Reads the elements of a closed node. */
  #expand(node: ClosedNode, tree: Expansion, into: unknown[]): void {
    const { digest, count, height } = node;
    const { kind, depth, done } = tree;
    const decode = () => this.#expandFound(node, tree);
    const items =
      this.#parts?.items({ digest, kind, height, depth, codecs: this.#codecs }, this.#budget, decode) ?? decode();
    if (items.length !== count) throw new CorruptError('A node of a tree does not fit those below it.');
    tree.done = done + count;
    for (const item of items) into.push(item);
  }

  /** Decodes a node and all below it; notes each node in its level. */
  #expandFound({ digest, height }: ClosedNode, tree: Expansion): unknown[] {
    const content = this.#find(digest);
    const items = height === 1 ? this.#decodeLeaf(content, tree) : this.#expandInner(content, height - 1, tree);
    const entries = height === 1 ? items.length : content.refs.length;
    tree.levels[height - 1]?.push({ digest, entries, items: items.length });
    return items;
  }

  #expandInner(content: ChunkContent, height: number, tree: Expansion): unknown[] {
    this.#budget.visit();
    const counts = readCounts(content);
    const items: unknown[] = [];
    for (const [at, digest] of content.refs.entries())
      this.#expand({ digest, count: counts[at] ?? 0, height }, tree, items);
    return items;
  }

  /** The elements of a leaf, which is no container of its own. */
  #decodeLeaf(content: ChunkContent, { kind, depth, done }: Expansion): unknown[] {
    try {
      return this.#open(content, depth, (json, place) => this.#reviveElements(asList(json), place, kind));
    } catch (error) {
      throw locate(error, `<from element ${done} on>`);
    }
  }

  /** Pieces of texts and bytes are no values of their own; pairs are no containers. */
  #reviveElements(json: Json[], place: Place, kind: string): unknown[] {
    if (kind === 'Array' || kind === 'Set') return this.#reviveItems(json, place);
    if (PAIRED_KINDS.has(kind)) return json.map((pair) => this.#revivePair(pair, place, kind));
    return json.map((piece) => this.#readPiece(piece, place));
  }

  #readPiece(json: Json, { cursor, depth }: Place): string {
    if (!isRef(json)) throw new CorruptError(NO_TEXTS);
    const piece = this.#open(this.#find(takeRef(cursor)), depth, asText);
    this.#budget.addBytes(Math.max(0, piece.length - PADDING));
    return piece;
  }
}

/** A closed node of a tree, and how many elements it says it holds. */
type ClosedNode = { readonly digest: Digest; readonly count: number; readonly height: number };

function toLevel(nodes: TreeNode[]): TreeLevels[number] {
  return { nodes, entries: nodes.reduce((sum, node) => sum + node.entries, 0) };
}

const NO_TEXTS = 'A long text or a list of bytes is not made of texts.';

/** A piece, or the name of a field. */
function asText(value: unknown): string {
  if (typeof value === 'string') return value;
  throw new CorruptError(NO_TEXTS);
}

function createMap(entries: readonly [unknown, unknown][]): Map<unknown, unknown> {
  const map = new Map(entries);
  checkEntries(map.size, entries.length);
  return map;
}

function createSet(items: readonly unknown[]): Set<unknown> {
  const set = new Set(items);
  checkEntries(set.size, items.length);
  return set;
}

/** Makes a value of the elements of its tree. */
function assemble(kind: string, items: unknown[]): string | object {
  switch (kind) {
    case 'Array':
      return items;
    case 'Set':
      return createSet(items);
    case 'Map':
      return createMap(items.map(asPair));
    case 'object':
    case 'bare': {
      const target = kind === 'object' ? {} : Object.create(null);
      for (const [key, value] of items.map(asPair)) setField(target, asText(key), value);
      checkEntries(Object.keys(target).length, items.length);
      return target;
    }
    case 'text':
      return items.map(asText).join('');
    default:
      return decodeBytes(kind, Buffer.concat(items.map(decodeBase64)));
  }
}
