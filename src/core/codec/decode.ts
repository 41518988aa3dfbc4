import { setField } from '../defined.ts';
import { CorruptError } from '../errors.ts';
import type { PathStep } from '../path.ts';
import type { ChunkContent, Digest } from '../tree/chunk.ts';
import { Shadow, type ShadowChild, type ShadowKind, type TreeNode } from '../tree/shadow.ts';
import { OVERHEAD, PADDING, sizeOfAtom } from '../tree/size.ts';
import { decodeAtom, isBytesTag } from '../value/atom.ts';
import type { ClassCodecs } from '../value/class-codec.ts';
import { traceFields } from '../value/field-trace.ts';
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
  type JsonObject,
  parseChunkText,
  parseExactText,
  REF_TEXT,
  readCounts,
  readFields,
  readTag,
  readTree,
  TAG_START,
  takeRef,
} from '../value/grammar.ts';
import { asText, buildValue } from './build-value.ts';
import { addShadow, atomShadow, containerShadow, noteTree, textShadow, toChild } from './decoded-shadow.ts';
import { append, type Content, countIn, type Elements, type Parts } from './parts.ts';
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
type Reading = {
  readonly cursor: Cursor<Digest>;
  readonly depth: number;
  readonly isDistinct?: boolean;
  /** The only tag of the chunk is the first thing in it, so that what is inside is plain. */
  readonly isPlainInside?: boolean;
};

/** What was read: a value, or if the shadow is wanted its shadow, whose source it is. Primitives are their own. */
type Made = unknown;

/** A tree that is being read. */
type Expansion = {
  readonly kind: string;
  readonly depth: number;
  /** The closed nodes of each level. */
  readonly levels: TreeNode[][];
  /** How many elements were read. */
  done: number;
};

/** A closed node of a tree, and how many elements it says it holds. */
type ClosedNode = { readonly digest: Digest; readonly count: number; readonly height: number };

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

  /** A whole value. */
  decode(content: ChunkContent): unknown {
    return this.#valueOf(this.#readAll(content));
  }

  /** Decodes a state, and returns its shadow with it: what the next save knows it by without encoding it again. */
  decodeForEditing(content: ChunkContent): { readonly state: unknown; readonly shadow: ShadowChild } {
    const shadow = this.#readAll(content);
    return { state: this.#valueOf(shadow), shadow };
  }

  #readAll(content: ChunkContent): Made {
    try {
      return this.#readChunk(content, 0);
    } catch (error) {
      throw toReadError(error);
    }
  }

  #readChunk({ text, refs }: ChunkContent, depth: number): Made {
    this.budget.visit();
    const json = this.#parse(text);
    const cursor = { refs, next: 0 };
    const tagAt = text.indexOf(TAG_START);
    const made =
      tagAt === -1
        ? this.#readPlain(json, depth)
        : this.#read(json, { cursor, depth, isPlainInside: tagAt === 0 && !text.includes(TAG_START, 1) });
    checkUsed(cursor);
    return made;
  }

  /** A value without tags, all at once. */
  #readPlain(json: Json, depth: number): Made {
    const shadow = this.budget.countPlain(json, depth, this.#isForEditing ? addShadow : addTo);
    return this.#isForEditing ? shadow : json;
  }

  /** Reads a chunk, which must use all its refs. */
  #open<Found>({ text, refs }: ChunkContent, depth: number, read: (json: Json, place: Reading) => Found): Found {
    this.budget.visit();
    const cursor = { refs, next: 0 };
    const found = read(this.#parse(text), { cursor, depth });
    checkUsed(cursor);
    return found;
  }

  #readRef({ cursor, depth, isDistinct = false }: Reading): Made {
    const digest = takeRef(cursor);
    if (this.#parts === undefined) return this.#readFound(digest, depth);
    const place = { digest, kind: 'value', height: 0, depth, codecs: this.#codecs, isDistinct };
    return this.#parts.take(place, this.budget, () => this.#readFound(digest, depth));
  }

  #readFound(digest: Digest, depth: number): Made {
    const content = this.#find(digest);
    // Else a row of chunks that hold nothing but each other would be as deep as it is long.
    if (content.text === REF_TEXT) throw new CorruptError('A chunk holds nothing but a reference.');
    const made = this.#readChunk(content, depth);
    if (!(made instanceof Shadow)) return made;
    made.digest = digest;
    made.textChars = content.text.length;
    made.refs = content.refs;
    return made;
  }

  #valueOf(made: Made): unknown {
    return this.#isForEditing && made instanceof Shadow ? made.source : made;
  }

  /** Makes a value of what was read, and its shadow if it is wanted. */
  #build(content: Content): Made {
    const { kind, keys, values: children } = content;
    if (keys.length > 1) checkEntries(new Set(keys).size, keys.length);
    if (!this.#isForEditing) return buildValue(content, this.#codecs);
    const value = buildValue({ kind, keys, values: children.map((child) => this.#valueOf(child)) }, this.#codecs);
    if (typeof value === 'string') return textShadow(value);
    return isBytesTag(kind) ? atomShadow(kind, [], value) : containerShadow(kind as ShadowKind, value, content);
  }

  #read(json: Json, place: Reading): Made {
    if (typeof json !== 'object' || json === null) {
      this.budget.countPrimitive(json);
      return this.#isForEditing ? toChild(json) : json;
    }
    if (Array.isArray(json)) return this.#build(this.#readElements('Array', json, this.#enter(place)));
    if (!isTagged(json)) return this.#readFields(json, this.#enter(place));
    const tagged = readTag(json);
    if (tagged === 0) return this.#readRef(place);
    const [tag, ...args] = tagged;
    return tag === 'tree' ? this.#readTree(args, place) : this.#readTagged(tag, args, place);
  }

  /** Counts a container; what is in it stands one level deeper. */
  #enter({ cursor, depth }: Reading): Reading {
    this.budget.enter(depth);
    return { cursor, depth: depth + 1 };
  }

  /** The same place, of what must not be shared. */
  #toDistinct(place: Reading): Reading {
    return this.#parts === undefined ? place : { ...place, isDistinct: true };
  }

  /** Reads what stands at a key or an index. */
  #readAt(step: PathStep, json: Json, place: Reading): Made {
    try {
      if (typeof step === 'string') this.budget.addKey(step);
      return this.#read(json, place);
    } catch (error) {
      throw locate(error, step);
    }
  }

  /** The fields of an object that is written without a tag; they stay in the object that was parsed. */
  #readFields(json: JsonObject, place: Reading): Made {
    const keys = Object.keys(json);
    const children: Made[] = [];
    for (const key of keys) {
      const made = this.#readAt(key, json[key] as Json, place);
      setField(json, key, this.#valueOf(made));
      if (this.#isForEditing) children.push(made);
    }
    return this.#isForEditing ? containerShadow('object', json, { keys, values: children }) : json;
  }

  #readTagged(tag: string, args: Json[], place: Reading): Made {
    if (tag === 'class' || tag === 'Error') return this.#readInstance(tag, args, place);
    const atom = decodeAtom(tag, args);
    if (atom !== undefined) return this.#readAtom(tag, args, { value: atom.value, depth: place.depth });
    const inside = this.#enter(place);
    const object = readFields(tag, args[0]);
    if (object !== undefined) return this.#build(this.#readElements(object.kind, object.fields, inside));
    switch (tag) {
      case 'Map':
      case 'Set':
        return this.#build(this.#readElements(tag, asList(args[0]), inside));
      default:
        throw new CorruptError(
          `The state holds a value tagged ${JSON.stringify(tag)}, which this version does not know.`,
        );
    }
  }

  #readAtom(tag: string, args: Json[], { value, depth }: { value: unknown; depth: number }): Made {
    if (typeof value === 'object') this.budget.enter(depth);
    this.budget.count(sizeOfAtom(value, args[0]));
    this.mayHoldSecrets ||= tag === 'secret';
    return this.#isForEditing ? atomShadow(tag, args, value) : value;
  }

  #readInstance(kind: 'Error' | 'class', [name, payload = null]: Json[], place: Reading): Made {
    if (typeof name !== 'string') throw new CorruptError('An instance lacks the name of its class.');
    const inside = this.#enter(place);
    const fields = place.isPlainInside === true ? this.#readPlain(payload, inside.depth) : this.#read(payload, inside);
    const made = this.#build({ kind, keys: [name], values: [fields] });
    if (kind === 'Error') return made;
    this.mayHoldSecrets = true;
    if (this.#isForEditing && made instanceof Shadow)
      made.trace = traceFields(made.source as object, this.#codecs.findReadFields);
    return made;
  }

  /** Reads elements, pairs of keys and values, or the pieces of a text or of bytes, which are no values of their own. */
  #readElements(kind: string, json: readonly Json[], place: Reading): Content {
    const content: Elements = { kind, keys: [], values: [] };
    const inside = kind === 'Set' ? this.#toDistinct(place) : place;
    const into = { place, content };
    for (let at = 0; at < json.length; at++) {
      const item = json[at] as Json;
      if (kind === 'Array' || kind === 'Set') content.values.push(this.#readAt(at, item, inside));
      else if (kind === 'Map') this.#readEntry(at, item, into);
      else if (kind === 'object' || kind === 'bare') this.#readPair(item, place, content);
      else content.values.push(this.#readPiece(item, place));
    }
    return content;
  }

  #readEntry(at: number, pair: Json, { place, content }: { place: Reading; content: Elements }): void {
    try {
      this.#readPair(pair, place, content);
    } catch (error) {
      throw locate(error, at);
    }
  }

  /** A pair is no container of its own; in a tree it may be a chunk. The key of an object is no value. */
  #readPair(json: Json, place: Reading, content: Elements): void {
    if (isRef(json)) {
      const chunk = this.#find(takeRef(place.cursor));
      this.#open(chunk, place.depth, (inner, at) => this.#readPair(asList(inner), at, content));
      return;
    }
    const [key, value] = asPair(json) as [Json, Json];
    if (content.kind === 'Map')
      content.values.push(this.#readAt(0, key, this.#toDistinct(place)), this.#readAt(1, value, place));
    else {
      content.keys.push(asText(key));
      content.values.push(this.#readAt(asText(key), value, place));
    }
  }

  #readPiece(json: Json, { cursor, depth }: Reading): string {
    const piece = isRef(json) ? this.#open(this.#find(takeRef(cursor)), depth, asText) : asText(undefined);
    this.budget.addBytes(Math.max(0, piece.length - PADDING));
    return piece;
  }

  #readTree(args: Json[], outer: Reading): Made {
    const { kind, count, rows, items } = readTree(args);
    const place = kind === 'text' ? outer : this.#enter(outer);
    if (kind === 'text') this.budget.count(OVERHEAD); // a long text is no container, whatever it is made of
    const tree: Expansion = { kind, depth: place.depth, levels: rows.map(() => []), done: 0 };
    const content: Elements = { kind, keys: [], values: [] };
    for (const [at, counts] of rows.entries())
      for (const below of counts)
        this.#readNode({ digest: takeRef(place.cursor), count: below, height: rows.length - at }, tree, content);
    append(content, this.#readElements(kind, items, place));
    const found = countIn(content);
    if (found !== count) throw new CorruptError(`A tree says it has ${count} elements and has ${found}.`);
    const made = this.#build(content);
    if (this.#isForEditing && made instanceof Shadow) noteTree(made, tree.levels, content);
    return made;
  }

  /** Reads what is in a closed node, and in all below it. */
  #readNode(node: ClosedNode, tree: Expansion, into: Elements): void {
    const { digest, count, height } = node;
    const { kind, depth, done } = tree;
    const read = () => this.#readFoundNode(node, tree);
    const isDistinct = kind === 'Set' || kind === 'Map';
    const place = { digest, kind, height, depth, codecs: this.#codecs, isDistinct };
    const content = this.#parts === undefined ? read() : this.#parts.take(place, this.budget, read);
    if (countIn(content) !== count) throw new CorruptError('A node of a tree does not fit those below it.');
    tree.done = done + count;
    append(into, content);
  }

  #readFoundNode({ digest, height }: ClosedNode, tree: Expansion): Content {
    const chunk = this.#find(digest);
    const content = height === 1 ? this.#readLeaf(chunk, tree) : this.#readInner(chunk, height - 1, tree);
    const items = countIn(content);
    tree.levels[height - 1]?.push({ digest, entries: height === 1 ? items : chunk.refs.length, items });
    return content;
  }

  #readInner(chunk: ChunkContent, height: number, tree: Expansion): Content {
    this.budget.visit();
    const counts = readCounts(chunk);
    const content: Elements = { kind: tree.kind, keys: [], values: [] };
    for (const [at, digest] of chunk.refs.entries())
      this.#readNode({ digest, count: counts[at] ?? 0, height }, tree, content);
    return content;
  }

  /** The elements of a leaf, which is no container of its own. */
  #readLeaf(chunk: ChunkContent, { kind, depth, done }: Expansion): Content {
    try {
      return this.#open(chunk, depth, (json, place) => this.#readElements(kind, asList(json), place));
    } catch (error) {
      throw locate(error, `<from element ${done} on>`);
    }
  }
}
