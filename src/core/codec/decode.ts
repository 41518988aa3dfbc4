import { CorruptError } from '../errors.ts';
import type { ChunkContent, Digest } from '../tree/chunk.ts';
import {
  asFieldPairs,
  asFields,
  asList,
  type Cursor,
  checkEntries,
  checkUsed,
  firstKey,
  isRef,
  type Json,
  type JsonObject,
  parseChunkText,
  parseExactText,
  readCounts,
  readTag,
  readTree,
  taggedIn,
  takeRef,
} from '../tree/chunk-text.ts';
import type { TreeLevels, TreeNode } from '../tree/shadow.ts';
import { OVERHEAD, PADDING, sizeOfAtom } from '../tree/size.ts';
import { decodeAtom } from '../value/atom.ts';
import type { ClassCodecs } from '../value/class-codec.ts';
import { createError } from '../value/error-value.ts';
import { TAG_START, type ValueLimits } from '../value/format.ts';
import { setField } from '../value/odd-key.ts';
import { anew, asPair, assemble, asText, checkLength, createMap, createSet } from './assemble.ts';
import type { DecodedParts } from './decoded-parts.ts';
import type { KnownParts } from './known-parts.ts';
import { locate, ReadBudget, toReadError } from './read-budget.ts';

/** Where the decoded containers came from: lets the next save know them without encoding them again. */
export type Origins = {
  readonly digests: Map<object, Digest>;
  readonly levels: Map<object, TreeLevels>;
};

/** Finds a chunk by its digest; throws if it is absent or damaged. */
export type FindChunk = (digest: Digest) => ChunkContent;

type DecoderOptions = {
  readonly codecs: ClassCodecs;
  readonly limits: ValueLimits;
  readonly origins?: Origins;
  readonly known?: KnownParts | undefined;
  /** If the value is only checked: parts that were decoded before stand for themselves, and texts must be exactly as they are written. */
  readonly checked?: DecodedParts;
};

/** Where a value stands: in the text of which chunk, inside how many containers. */
type Place = { readonly cursor: Cursor; readonly depth: number };

/**
 * Turns chunks back into values. Runs no code that data could name: tags select from a closed set and from registered codecs.
 * What is more than the limits, or is not what chunks hold, is an error with the path of it. One decoder serves one state.
 */
export class Decoder {
  readonly #find: FindChunk;
  readonly #codecs: ClassCodecs;
  readonly #origins: Origins | undefined;
  readonly #known: KnownParts | undefined;
  readonly #checked: DecodedParts | undefined;
  readonly #budget: ReadBudget;

  constructor(find: FindChunk, { codecs, limits, origins, known, checked }: DecoderOptions) {
    this.#find = find;
    this.#codecs = codecs;
    this.#origins = origins;
    this.#known = known;
    this.#checked = checked;
    this.#budget = new ReadBudget(limits);
  }

  decode(content: ChunkContent): unknown {
    try {
      return this.#decodeChunk(content, 0);
    } catch (error) {
      throw toReadError(error);
    }
  }

  #decodeChunk({ text, refs }: ChunkContent, depth: number): unknown {
    this.#budget.visit();
    const json = this.#parse(text);
    const cursor = { refs, next: 0 };
    const value = text.includes(TAG_START) ? this.#revive(json, { cursor, depth }) : this.#countPlain(json, depth);
    checkUsed(cursor);
    return value;
  }

  #parse(text: string): Json {
    return this.#checked === undefined ? parseChunkText(text) : parseExactText(text);
  }

  #countPlain(json: Json, depth: number): Json {
    this.#budget.countPlain(json, depth);
    return json;
  }

  #decodeRef(digest: Digest, depth: number): unknown {
    const known = this.#known?.find(digest, this.#codecs);
    if (known !== undefined) return known.value;
    if (this.#checked === undefined) return this.#decodeFound(digest, depth);
    const place = { key: digest, depth };
    return anew(this.#checked.take(place, this.#budget, () => this.#decodeFound(digest, depth)));
  }

  #decodeFound(digest: Digest, depth: number): unknown {
    const content = this.#find(digest);
    // Else a row of chunks that hold nothing but each other would be as deep as it is long.
    if (content.text === REF_ALONE) throw new CorruptError('A chunk holds nothing but a reference.');
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
    if (!Array.isArray(json) && firstKey(json) === '$') return this.#reviveTag(taggedIn(json), place);
    const inner = this.#enter(place);
    return Array.isArray(json) ? this.#reviveItems(json, inner) : this.#reviveFields(json, inner, json);
  }

  /** Counts a container; what is in it stands one level deeper. */
  #enter({ cursor, depth }: Place): Place {
    this.#budget.enter(depth);
    return { cursor, depth: depth + 1 };
  }

  /** A long text is no container, whatever it is made of. */
  #countText(place: Place): Place {
    this.#budget.count(OVERHEAD);
    return place;
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

  #reviveFields(json: JsonObject, place: Place, target: object): object {
    for (const key of Object.keys(json)) this.#reviveField([key, json[key] as Json], place, target);
    return target;
  }

  #reviveField([key, json]: [string, Json], place: Place, target: object): void {
    try {
      this.#budget.addKey(key);
      setField(target, key, this.#revive(json, place));
    } catch (error) {
      throw locate(error, key);
    }
  }

  #revivePairs(json: Json | undefined, place: Place, target: object): object {
    const pairs = asFieldPairs(json);
    for (const pair of pairs) this.#reviveField(pair, place, target);
    checkEntries(Object.keys(target).length, pairs.length);
    return target;
  }

  #reviveTag(tagged: Json | undefined, place: Place): unknown {
    if (tagged === 0) return this.#decodeRef(takeRef(place.cursor), place.depth);
    const [tag, ...args] = readTag(tagged);
    checkLength(tag, args);
    if (tag === 'tree') return this.#reviveTree(args, place);
    const atom = decodeAtom(tag, args);
    if (atom === undefined) return this.#reviveContainer(tag, args, place);
    if (typeof atom.value === 'object') this.#budget.enter(place.depth);
    this.#budget.count(sizeOfAtom(atom.value, args[0]));
    return atom.value;
  }

  #reviveContainer(tag: string, args: Json[], place: Place): unknown {
    const inner = this.#enter(place);
    switch (tag) {
      case 'object':
        return this.#reviveFields(asFields(args[0]), inner, asFields(args[0]));
      case 'bare':
        return this.#reviveFields(asFields(args[0]), inner, Object.create(null));
      case 'fields':
        return this.#revivePairs(args[0], inner, {});
      case 'bareFields':
        return this.#revivePairs(args[0], inner, Object.create(null));
      case 'Map':
        return createMap(asList(args[0]).map((pair, at) => this.#reviveEntry(pair, inner, at)));
      case 'Set':
        return createSet(this.#reviveItems(asList(args[0]), inner));
      case 'Error':
        return createError(String(args[0]), this.#revivePayload(args, inner) as ErrorFields);
      case 'class':
        return this.#codecs.decode(String(args[0]), this.#revivePayload(args, inner));
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
    if (!Array.isArray(json)) return this.#decodePair(json, place, kind);
    if (kind === 'Map') return asPair(this.#reviveItems(json, place));
    const [key, value] = asPair(json);
    this.#budget.addKey(asText(key));
    try {
      return [key, this.#revive(value as Json, place)];
    } catch (error) {
      throw locate(error, asText(key));
    }
  }

  #decodePair(json: Json, { cursor: outer, depth }: Place, kind: string): [unknown, unknown] {
    if (asFields(json).$ !== 0) throw new CorruptError('A collection of pairs holds something else.');
    const { text, refs } = this.#find(takeRef(outer));
    this.#budget.visit();
    const cursor = { refs, next: 0 };
    const pair = this.#revivePair(asList(this.#parse(text)), { cursor, depth }, kind);
    checkUsed(cursor);
    return pair;
  }

  #reviveTree(args: Json[], outer: Place): unknown {
    const { kind, count, rows, items: last } = readTree(args);
    const place = kind === 'text' ? this.#countText(outer) : this.#enter(outer);
    const levels: TreeNode[][] = rows.map(() => []);
    const into: Expansion = { kind, items: [], before: 0, levels, depth: place.depth };
    rows.forEach((counts, at) => {
      for (const count of counts) this.#expand({ digest: takeRef(place.cursor), count }, rows.length - at, into);
    });
    for (const item of this.#reviveElements(last, place, kind)) into.items.push(item);
    if (into.items.length !== count)
      throw new CorruptError(`A tree says it has ${count} elements and has ${into.items.length}.`);
    const value = assemble(kind, into.items);
    if (typeof value === 'object') this.#origins?.levels.set(value, levels.map(toLevel));
    return value;
  }

  /** Reads a closed node and all below it; notes each node in its level. */
  #expand({ digest, count }: { digest: Digest; count: number }, height: number, into: Expansion): void {
    const items = this.#known?.findItems(digest, this.#codecs) ?? this.#expandChecked(digest, height, into);
    const from = into.items.length;
    if (items === undefined) this.#expandFound(digest, height, into);
    else for (const item of items) into.items.push(item);
    if (into.items.length - from !== count) throw new CorruptError('A node of a tree does not fit those below it.');
  }

  #expandChecked(digest: Digest, height: number, into: Expansion): unknown[] | undefined {
    if (this.#checked === undefined) return undefined;
    const { kind, depth } = into;
    const place = { key: `${kind} ${height} ${digest}`, depth };
    const items = this.#checked.take(place, this.#budget, () => {
      const apart: Expansion = { ...into, items: [], before: into.before + into.items.length };
      this.#expandFound(digest, height, apart);
      return apart.items;
    });
    if (kind === 'Set') return items.map(anew);
    return kind === 'Map' ? items.map((pair) => [anew(asPair(pair)[0]), asPair(pair)[1]]) : items;
  }

  #expandFound(digest: Digest, height: number, into: Expansion): void {
    const content = this.#find(digest);
    const from = into.items.length;
    if (height === 1) for (const item of this.#decodeLeaf(content, into)) into.items.push(item);
    else this.#expandInner(content, height, into);
    const items = into.items.length - from;
    into.levels[height - 1]?.push({ digest, entries: height === 1 ? items : content.refs.length, items });
  }

  #expandInner(content: ChunkContent, height: number, into: Expansion): void {
    this.#budget.visit();
    const counts = readCounts(content);
    for (const [at, digest] of content.refs.entries())
      this.#expand({ digest, count: counts[at] ?? 0 }, height - 1, into);
  }

  /** The elements of a leaf, which is no container of its own. */
  #decodeLeaf({ text, refs }: ChunkContent, { kind, items, before, depth }: Expansion): unknown[] {
    this.#budget.visit();
    const cursor = { refs, next: 0 };
    try {
      const elements = this.#reviveElements(asList(this.#parse(text)), { cursor, depth }, kind);
      checkUsed(cursor);
      return elements;
    } catch (error) {
      throw locate(error, `<from element ${before + items.length} on>`);
    }
  }

  /** Pieces of texts and bytes are no values of their own; pairs are no containers. */
  #reviveElements(json: Json[], place: Place, kind: string): unknown[] {
    if (kind === 'Array' || kind === 'Set') return this.#reviveItems(json, place);
    if (PAIRED_KINDS.has(kind)) return json.map((pair) => this.#revivePair(pair, place, kind));
    return json.map((piece) => this.#readPiece(piece, place.cursor));
  }

  #readPiece(json: Json, outer: Cursor): string {
    if (!isRef(json)) throw new CorruptError('A long text or a list of bytes is not made of texts.');
    this.#budget.visit();
    const { text, refs } = this.#find(takeRef(outer));
    const piece = asText(this.#parse(text));
    checkUsed({ refs, next: 0 });
    this.#budget.addBytes(Math.max(0, piece.length - PADDING));
    return piece;
  }
}

/** The elements of a tree so far. */
type Expansion = {
  readonly kind: string;
  readonly items: unknown[];
  /** How many elements come before these. */
  readonly before: number;
  readonly levels: TreeNode[][];
  readonly depth: number;
};

type ErrorFields = Record<string, unknown>;

const PAIRED_KINDS: ReadonlySet<string> = new Set(['Map', 'object', 'bare']);

const REF_ALONE = '{"$":0}';

function toLevel(nodes: TreeNode[]): TreeLevels[number] {
  return { nodes, entries: nodes.reduce((sum, node) => sum + node.entries, 0) };
}
