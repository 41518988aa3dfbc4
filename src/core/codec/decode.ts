import { setField } from '../defined.ts';
import { CorruptError } from '../errors.ts';
import type { ChunkContent, Digest } from '../tree/chunk.ts';
import { Shadow, type ShadowChild, type TreeNode } from '../tree/shadow.ts';
import { OVERHEAD, PADDING, sizeOfAtom } from '../tree/size.ts';
import { decodeAtom } from '../value/atom.ts';
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
  TAG_START,
  type TaggedFields,
  takeRef,
} from '../value/grammar.ts';
import { assemble, asText, createMap, createSet, NO_TEXTS } from './assemble.ts';
import { addShadow, atomShadow, instanceShadow, kindShadow, noteChunk, toChild, treeShadow } from './decoded-shadow.ts';
import type { Parts } from './parts.ts';
import { addTo, locate, ReadBudget, toReadError } from './read-budget.ts';

/** Finds a chunk by its digest; throws if it is absent or damaged. */
export type FindChunk = (digest: Digest) => ChunkContent;

type DecoderOptions = {
  readonly codecs: ClassCodecs;
  readonly limits: ValueLimits;
  /** Whether the shadow is wanted. */
  readonly isForEditing?: boolean;
  readonly parts?: Parts | undefined;
  /** Whether texts must be exactly as they are written. */
  readonly isStrict?: boolean;
};

/** Where a value stands: in the text of which chunk, inside how many containers. */
type Reading = { readonly cursor: Cursor<Digest>; readonly depth: number };

/** The same of the elements of a collection, with where their shadows go. */
type PairReading = Reading & { readonly children: Children };

/** A tree that is being read. */
type Expansion = {
  readonly kind: string;
  readonly depth: number;
  readonly levels: TreeNode[][];
  readonly children: Children;
  /** How many elements were read. */
  done: number;
};

/** The shadows of what is in a container, if they are wanted. */
type Children = ShadowChild[] | undefined;

type ErrorFields = Record<string, unknown>;

const PAIRED_KINDS: ReadonlySet<string> = new Set(['Map', 'object', 'bare']);

/**
 * Turns chunks back into values. Runs no code that data could name: tags select from a closed set and from registered codecs.
 * What is more than the limits, or is not what chunks hold, is an error with the path of it. One decoder serves one state.
 */
export class Decoder {
  readonly #find: FindChunk;
  readonly #codecs: ClassCodecs;
  readonly #isForEditing: boolean;
  readonly #parts: Parts | undefined;
  readonly #parse: (text: string) => Json;
  /** What was read so far. */
  readonly budget: ReadBudget;
  /** The shadow of the value that was read last: what the next save knows it by without encoding it again. */
  #made: ShadowChild;
  /** Whether a secret may be left out somewhere: none was met, and no codec that could have made one. */
  mayHoldSecrets = false;

  constructor(find: FindChunk, { codecs, limits, parts, isForEditing = false, isStrict = false }: DecoderOptions) {
    this.#find = find;
    this.#codecs = codecs;
    this.#isForEditing = isForEditing;
    this.#parts = parts;
    this.#parse = isStrict ? parseExactText : parseChunkText;
    this.budget = new ReadBudget(limits);
  }

  decode(content: ChunkContent): unknown {
    try {
      return this.#decodeChunk(content, 0);
    } catch (error) {
      throw toReadError(error);
    }
  }

  /** Decodes a state, and returns its shadow with it. */
  decodeForEditing(content: ChunkContent): { readonly state: unknown; readonly shadow: ShadowChild } {
    return { state: this.decode(content), shadow: this.#made };
  }

  #decodeChunk(content: ChunkContent, depth: number): unknown {
    return this.#open(content, depth, (json, place) => {
      if (content.text.includes(TAG_START)) return this.#revive(json, place);
      this.#made = this.budget.countPlain(json, depth, this.#isForEditing ? addShadow : addTo);
      return json;
    });
  }

  /** Reads a chunk, which must use all its refs. */
  #open<Value>({ text, refs }: ChunkContent, depth: number, read: (json: Json, place: Reading) => Value): Value {
    this.budget.visit();
    const cursor = { refs, next: 0 };
    const value = read(this.#parse(text), { cursor, depth });
    checkUsed(cursor);
    return value;
  }

  #decodeRef(digest: Digest, depth: number): unknown {
    if (this.#parts === undefined) return this.#decodeFound(digest, depth);
    const place = { digest, depth, codecs: this.#codecs };
    return this.#parts.value(place, this.budget, () => this.#decodeFound(digest, depth));
  }

  #decodeFound(digest: Digest, depth: number): unknown {
    const content = this.#find(digest);
    // Else a row of chunks that hold nothing but each other would be as deep as it is long.
    if (content.text === REF_TEXT) throw new CorruptError('A chunk holds nothing but a reference.');
    const value = this.#decodeChunk(content, depth);
    if (this.#made instanceof Shadow) noteChunk(this.#made, digest, content);
    return value;
  }

  #note(shadow: () => ShadowChild): void {
    if (this.#isForEditing) this.#made = shadow();
  }

  get #newChildren(): Children {
    return this.#isForEditing ? [] : undefined;
  }

  #revive(json: Json, place: Reading): unknown {
    if (typeof json !== 'object' || json === null) {
      this.budget.countPrimitive(json);
      this.#made = this.#isForEditing ? toChild(json) : undefined;
      return json;
    }
    if (Array.isArray(json)) return this.#reviveArray(json, this.#enter(place));
    if (!isTagged(json)) return this.#reviveFields(Object.entries(json), this.#enter(place), json);
    const tagged = readTag(json);
    if (tagged === 0) return this.#decodeRef(takeRef(place.cursor), place.depth);
    const [tag, ...args] = tagged;
    return this.#reviveAtom(tag, args, place);
  }

  #reviveAtom(tag: string, args: Json[], place: Reading): unknown {
    if (tag === 'tree') return this.#reviveTree(args, place);
    const atom = decodeAtom(tag, args);
    if (atom === undefined) return this.#reviveContainer(tag, args, this.#enter(place));
    if (typeof atom.value === 'object') this.budget.enter(place.depth);
    this.budget.count(sizeOfAtom(atom.value, args[0]));
    this.mayHoldSecrets ||= tag === 'secret';
    this.#note(() => atomShadow(tag, args, atom.value));
    return atom.value;
  }

  /** Counts a container; what is in it stands one level deeper. */
  #enter({ cursor, depth }: Reading): Reading {
    this.budget.enter(depth);
    return { cursor, depth: depth + 1 };
  }

  #reviveArray(json: Json[], place: Reading): unknown[] {
    const children = this.#newChildren;
    const values = this.#reviveItems(json, place, children);
    this.#note(() => kindShadow(values, 'Array', children));
    return values;
  }

  #reviveItems(json: Json[], place: Reading, children: Children): unknown[] {
    const values: unknown[] = json;
    let at = 0;
    try {
      for (; at < values.length; at++) {
        values[at] = this.#revive(json[at] as Json, place);
        children?.push(this.#made);
      }
    } catch (error) {
      throw locate(error, at);
    }
    return values;
  }

  #reviveFields(fields: readonly [string, Json][], place: Reading, target: object): object {
    const children = this.#newChildren;
    for (const [key, json] of fields) {
      setField(target, key, this.#reviveField(key, json, place));
      children?.push(this.#made);
    }
    this.#note(() => kindShadow(target, 'object', children));
    return target;
  }

  #reviveField(key: string, json: Json, place: Reading): unknown {
    try {
      this.budget.addKey(key);
      return this.#revive(json, place);
    } catch (error) {
      throw locate(error, key);
    }
  }

  #reviveTagged({ isBare, fields }: TaggedFields, place: Reading): object {
    const target = this.#reviveFields(fields, place, isBare ? Object.create(null) : {});
    checkEntries(Object.keys(target).length, fields.length);
    return target;
  }

  #reviveContainer(tag: string, args: Json[], place: Reading): unknown {
    const object = readFields(tag, args[0]);
    if (object !== undefined) return this.#reviveTagged(object, place);
    switch (tag) {
      case 'Map':
      case 'Set':
        return this.#reviveEntries(tag, asList(args[0]), place);
      case 'Error':
      case 'class':
        return this.#reviveInstance(tag, args, place);
      default:
        throw new CorruptError(
          `The state holds a value tagged ${JSON.stringify(tag)}, which this version does not know.`,
        );
    }
  }

  #reviveEntries(tag: 'Map' | 'Set', json: Json[], place: Reading): unknown {
    const children = this.#newChildren;
    const inside = { ...place, children };
    const value =
      tag === 'Map'
        ? createMap(json.map((pair, at) => this.#reviveEntry(pair, inside, at)))
        : createSet(this.#reviveItems(json, place, children));
    this.#note(() => kindShadow(value, tag, children));
    return value;
  }

  #reviveInstance(kind: 'Error' | 'class', [name, payload = null]: Json[], place: Reading): unknown {
    if (typeof name !== 'string') throw new CorruptError('An instance lacks the name of its class.');
    const data = this.#revive(payload, place);
    this.mayHoldSecrets ||= kind === 'class';
    const value = kind === 'class' ? this.#codecs.decode(name, data) : createError(name, data as ErrorFields);
    this.#note(() => instanceShadow(value, { kind, name, data: this.#made }, this.#codecs));
    return value;
  }

  #reviveEntry(pair: Json, place: PairReading, at: number): [unknown, unknown] {
    try {
      return this.#revivePair(pair, place, 'Map');
    } catch (error) {
      throw locate(error, at);
    }
  }

  /** A pair is no container of its own; in a tree it may be a chunk. The key of an object is no value. */
  #revivePair(json: Json, place: PairReading, kind: string): [unknown, unknown] {
    const { children } = place;
    if (isRef(json)) {
      const content = this.#find(takeRef(place.cursor));
      return this.#open(content, place.depth, (inner, at) =>
        this.#revivePair(asList(inner), { ...at, children }, kind),
      );
    }
    const [key, value] = asPair(json) as [Json, Json];
    if (kind === 'Map') return asPair(this.#reviveItems([key, value], place, children));
    const field = this.#reviveField(asText(key), value, place);
    children?.push(this.#made);
    return [key, field];
  }

  #reviveTree(args: Json[], outer: Reading): unknown {
    const { kind, count, rows, items: last } = readTree(args);
    const place = kind === 'text' ? outer : this.#enter(outer);
    if (kind === 'text') this.budget.count(OVERHEAD); // a long text is no container, whatever it is made of
    const children = this.#newChildren;
    const tree: Expansion = { kind, depth: place.depth, levels: rows.map(() => []), children, done: 0 };
    const items: unknown[] = [];
    for (const [at, counts] of rows.entries())
      for (const count of counts)
        this.#expand({ digest: takeRef(place.cursor), count, height: rows.length - at }, tree, items);
    for (const item of this.#reviveElements(last, { ...place, children }, kind)) items.push(item);
    if (items.length !== count) throw new CorruptError(`A tree says it has ${count} elements and has ${items.length}.`);
    const value = assemble(kind, items);
    this.#note(() => treeShadow(value, { kind, levels: tree.levels, items, children }));
    return value;
  }

  /** Reads the elements of a closed node. */
  #expand(node: ClosedNode, tree: Expansion, into: unknown[]): void {
    const { digest, count, height } = node;
    const { kind, depth, done } = tree;
    const decode = () => this.#expandFound(node, tree);
    const items =
      this.#parts?.items({ digest, kind, height, depth, codecs: this.#codecs }, this.budget, decode) ?? decode();
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
    this.budget.visit();
    const counts = readCounts(content);
    const items: unknown[] = [];
    for (const [at, digest] of content.refs.entries())
      this.#expand({ digest, count: counts[at] ?? 0, height }, tree, items);
    return items;
  }

  /** The elements of a leaf, which is no container of its own. */
  #decodeLeaf(content: ChunkContent, { kind, depth, done, children }: Expansion): unknown[] {
    try {
      return this.#open(content, depth, (json, place) =>
        this.#reviveElements(asList(json), { ...place, children }, kind),
      );
    } catch (error) {
      throw locate(error, `<from element ${done} on>`);
    }
  }

  /** Pieces of texts and bytes are no values of their own; pairs are no containers. */
  #reviveElements(json: Json[], place: PairReading, kind: string): unknown[] {
    if (kind === 'Array' || kind === 'Set') return this.#reviveItems(json, place, place.children);
    if (PAIRED_KINDS.has(kind)) return json.map((pair) => this.#revivePair(pair, place, kind));
    return json.map((piece) => this.#readPiece(piece, place));
  }

  #readPiece(json: Json, { cursor, depth }: Reading): string {
    if (!isRef(json)) throw new CorruptError(NO_TEXTS);
    const piece = this.#open(this.#find(takeRef(cursor)), depth, asText);
    this.budget.addBytes(Math.max(0, piece.length - PADDING));
    return piece;
  }
}

/** A closed node of a tree, and how many elements it says it holds. */
type ClosedNode = { readonly digest: Digest; readonly count: number; readonly height: number };
