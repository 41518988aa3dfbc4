import { CorruptError } from '../errors.ts';
import type { PathStep } from '../path.ts';
import type { ChunkContent, Digest } from '../tree/chunk.ts';
import {
  asFieldPairs,
  asFields,
  asList,
  type Cursor,
  checkUsed,
  firstKey,
  type Json,
  parseChunkText,
  readCounts,
  readTag,
  readTree,
  taggedIn,
  takeRef,
} from '../tree/chunk-text.ts';
import { OTHER_PRIMITIVE, OVERHEAD, PADDING, sizeOfAtom } from '../tree/size.ts';
import { decodeAtom } from '../value/atom.ts';
import { TAG_START, type ValueLimits } from '../value/format.ts';
import {
  type ChunkForm,
  checkKeys,
  checkKind,
  commonForm,
  type ElementForm,
  formOf,
  isRef,
  pairForm,
} from './element-form.ts';
import { locate, ReadBudget, toReadError } from './read-budget.ts';

/** How much there is of something, with all below it, nothing shared. `depth`: how many containers are in each other. */
type Totals = { readonly nodes: number; readonly bytes: number; readonly depth: number };

/** What a chunk holds. */
export type ChunkMeasure = Totals & {
  readonly form: ChunkForm;
  /** Of a list or node: how many elements, and what all of them are. */
  readonly items: number;
  readonly elements: ElementForm;
  /** Of a list of two: which kind of pair it is. */
  readonly pair: 'named' | 'pairs' | undefined;
  /** The height it has as a node of a tree: 1 for a list, which may be a leaf. */
  readonly height: number;
};

/** The measure of a chunk that was measured before; undefined if there is none. */
export type FindMeasure = (digest: Digest) => ChunkMeasure | undefined;

/**
 * Checks that a chunk holds what chunks hold, and measures it, from the measures of the chunks it refers to: each chunk is read once,
 * however often it is referred to. Throws a CorruptError that says what is wrong. What is in class instances is for their codecs.
 */
export function measureChunk(content: ChunkContent, find: FindMeasure): ChunkMeasure {
  try {
    const isNode = content.refs.length > 0 && !content.text.includes(TAG_START);
    return isNode ? measureNode(content, find) : new Measuring(content, find).measure();
  } catch (error) {
    throw toReadError(error);
  }
}

/** Throws an InvalidInputError if a state is more than may be saved. */
export function checkMeasure({ nodes, bytes, depth }: ChunkMeasure, limits: ValueLimits): void {
  try {
    new ReadBudget(limits).countAll({ nodes, bytes, depth });
  } catch (error) {
    throw toReadError(error);
  }
}

function findMeasure(find: FindMeasure, digest: Digest): ChunkMeasure {
  const measure = find(digest);
  if (measure !== undefined) return measure;
  throw new CorruptError(`Chunk ${digest} is missing.`, { details: { digest } });
}

/** A node above the leaves: counts, and as many nodes of the level below. */
function measureNode(content: ChunkContent, find: FindMeasure): ChunkMeasure {
  const below = content.refs.map((digest) => asNode(findMeasure(find, digest)));
  const counts = readCounts(content);
  const height = below[0]?.height ?? 0;
  const isSound = below.every((node, at) => node.height === height && node.items === counts[at]);
  if (!isSound || height === 0) throw new CorruptError('A node of a tree does not fit those below it.');
  const sum = (field: 'nodes' | 'bytes' | 'items') => below.reduce((total, node) => total + node[field], 0);
  return {
    nodes: sum('nodes'),
    bytes: sum('bytes'),
    depth: below.reduce((most, node) => Math.max(most, node.depth), 0),
    form: 'node',
    items: sum('items'),
    elements: commonForm(below),
    pair: undefined,
    height: height + 1,
  };
}

/** A leaf is no container of its own. */
function asNode(measure: ChunkMeasure): ChunkMeasure {
  if (measure.form !== 'list') return measure;
  const { nodes, bytes, depth } = measure;
  return { ...measure, nodes: nodes - 1, bytes: bytes - OVERHEAD, depth: depth - 1 };
}

/** The same for elements that are no values of their own: pairs are no containers, names and pieces no values. */
function asElements({ nodes, bytes, depth, items }: Totals & { items: number }, kind: string): Totals {
  switch (kind) {
    case 'Array':
    case 'Set':
      return { nodes, bytes, depth };
    case 'Map':
      return { nodes: nodes - items, bytes: bytes - items * OVERHEAD, depth: depth - 1 };
    case 'object':
    case 'bare':
      return { nodes: nodes - 2 * items, bytes: bytes - items * OVERHEAD, depth: depth - 1 };
    default:
      return { nodes: nodes - items, bytes: bytes - items * (OVERHEAD + PADDING), depth };
  }
}

/** Reads one chunk. Like the decoder, but makes no value and opens no other chunk. */
class Measuring {
  readonly #content: ChunkContent;
  readonly #cursor: Cursor;
  readonly #find: FindMeasure;
  #nodes = 0;
  #bytes = 0;
  #depth = 0;

  constructor(content: ChunkContent, find: FindMeasure) {
    this.#content = content;
    this.#cursor = { refs: content.refs, next: 0 };
    this.#find = find;
  }

  measure(): ChunkMeasure {
    const { text } = this.#content;
    const json = parseChunkText(text);
    // A key that comes twice, or a space: values do not show them.
    if (JSON.stringify(json) !== text) throw new CorruptError('A chunk is not written as chunks are.');
    const elements = Array.isArray(json) ? this.#readElements(json, this.#enter(0)) : this.#readValue(json);
    checkUsed(this.#cursor);
    const isList = Array.isArray(json);
    return {
      ...this.#totals(),
      form: formOf(json),
      items: isList ? json.length : 0,
      elements,
      pair: isList ? pairForm(json) : undefined,
      height: isList ? 1 : 0,
    };
  }

  #totals(): Totals {
    return { nodes: this.#nodes, bytes: this.#bytes, depth: this.#depth };
  }

  #readValue(json: Json): ElementForm {
    this.#read(json, 0);
    return 'any';
  }

  #count(sizeBytes: number): void {
    this.#nodes++;
    this.#bytes += sizeBytes;
  }

  #enter(depth: number): number {
    this.#count(OVERHEAD);
    this.#depth = Math.max(this.#depth, depth + 1);
    if (depth > MAX_TEXT_DEPTH) throw new CorruptError('A chunk is nested deeper than any that was saved.');
    return depth + 1;
  }

  #addKey(key: string): void {
    this.#bytes += key.length + OVERHEAD;
  }

  /** Elements of a list, which may be a leaf; then they may have to be all of one form. */
  #readElements(json: readonly Json[], depth: number): ElementForm {
    return commonForm(json.map((item, at) => ({ elements: this.#readElementAt(at, item, depth) })));
  }

  #readElementAt(at: number, json: Json, depth: number): ElementForm {
    try {
      return this.#readElement(json, depth);
    } catch (error) {
      throw locate(error, at);
    }
  }

  #readElement(json: Json, depth: number): ElementForm {
    if (!isRef(json)) {
      this.#read(json, depth);
      return (Array.isArray(json) ? pairForm(json) : undefined) ?? 'any';
    }
    this.#read(json, depth);
    const { form, pair } = findMeasure(this.#find, this.#cursor.refs[this.#cursor.next - 1] as Digest);
    return form === 'text' ? 'pieces' : (pair ?? 'any');
  }

  #read(json: Json, depth: number): void {
    if (typeof json !== 'object' || json === null) this.#countPrimitive(json);
    else if (Array.isArray(json)) this.#readList(json, this.#enter(depth));
    else if (firstKey(json) === '$') this.#readTag(taggedIn(json), depth);
    else this.#readFields(Object.entries(json), this.#enter(depth));
  }

  #countPrimitive(json: Json | undefined): void {
    this.#count(typeof json === 'string' ? json.length + OVERHEAD : OTHER_PRIMITIVE);
  }

  #readList(json: readonly Json[], depth: number): void {
    for (const [at, item] of json.entries()) this.#readAt(at, item, depth);
  }

  #readFields(fields: readonly (readonly [string, Json])[], depth: number): void {
    for (const [key, json] of fields) {
      this.#addKey(key);
      this.#readAt(key, json, depth);
    }
  }

  #readAt(step: PathStep, json: Json, depth: number): void {
    try {
      this.#read(json, depth);
    } catch (error) {
      throw locate(error, step);
    }
  }

  /** What a ref stands for is measured, and is as deep as its place. */
  #readRef(depth: number): ChunkMeasure {
    const below = findMeasure(this.#find, takeRef(this.#cursor));
    if (below.form === 'node') throw new CorruptError('A node of a tree stands where a value should be.');
    this.#add(below, depth);
    return below;
  }

  #add({ nodes, bytes, depth: below }: Totals, depth: number): void {
    this.#nodes += nodes;
    this.#bytes += bytes;
    this.#depth = Math.max(this.#depth, depth + below);
  }

  #readTag(tagged: Json | undefined, depth: number): void {
    if (tagged === 0) {
      this.#readRef(depth);
      return;
    }
    const [tag, ...args] = readTag(tagged);
    const atom = decodeAtom(tag, args);
    if (tag === 'tree') this.#readTree(args, depth);
    else if (atom === undefined) this.#readContainer(tag, args, this.#enter(depth));
    else this.#countAtom(atom.value, args, depth);
  }

  #countAtom(value: unknown, args: readonly Json[], depth: number): void {
    if (typeof value === 'object') this.#enter(depth);
    this.#count(sizeOfAtom(value, args[0]));
  }

  #readContainer(tag: string, args: Json[], depth: number): void {
    switch (tag) {
      case 'object':
      case 'bare':
        this.#readFields(Object.entries(asFields(args[0])), depth);
        break;
      case 'fields':
      case 'bareFields':
        checkKeys(asFieldPairs(args[0]).map(([key]) => key));
        this.#readFields(asFieldPairs(args[0]), depth);
        break;
      case 'Map':
        this.#readPairs(asList(args[0]), depth);
        break;
      case 'Set':
        checkKeys(asList(args[0]));
        this.#readList(asList(args[0]), depth);
        break;
      case 'Error':
        this.#readErrorFields(args[1], depth);
        break;
      case 'class':
        this.#read(args[1] ?? null, depth);
        break;
      default:
        throw new CorruptError(`It holds a value tagged ${JSON.stringify(tag)}, which this version does not know.`);
    }
  }

  #readErrorFields(json: Json | undefined, depth: number): void {
    if (isRef(json)) {
      if (this.#readRef(depth).form !== 'fields') throw new CorruptError('An error lacks its fields.');
    } else this.#read(asFields(json), depth);
  }

  #readPairs(pairs: readonly Json[], depth: number): void {
    for (const [at, pair] of pairs.entries()) {
      const [, value, ...more] = asList(pair);
      if (value === undefined || more.length > 0) throw new CorruptError('A map holds something else than pairs.');
      try {
        this.#readList(asList(pair), depth);
      } catch (error) {
        throw locate(error, at);
      }
    }
    checkKeys(pairs.map((pair) => asList(pair)[0] as Json));
  }

  #readTree(args: readonly Json[], depth: number): void {
    const { kind, count, rows, items } = readTree(args);
    const isText = kind === 'text'; // which is no container
    if (isText) this.#count(OVERHEAD);
    const place = isText ? depth : this.#enter(depth);
    const parts = rows.flatMap((counts, at) => counts.map((below) => this.#readNode(rows.length - at, below)));
    if (items.length > 0) parts.push(asNode(this.#readApart(items)));
    for (const part of parts) this.#add(asElements(part, kind), place);
    const found = parts.reduce((sum, part) => sum + part.items, 0);
    if (found !== count) throw new CorruptError(`A tree says it has ${count} elements and has ${found}.`);
    checkKind(kind, found === 0 ? undefined : commonForm(parts));
  }

  /** The open elements of a tree, as if they were a leaf. */
  #readApart(items: Json[]): ChunkMeasure {
    const before = this.#totals();
    [this.#nodes, this.#bytes, this.#depth] = [0, 0, 0];
    const elements = this.#readElements(items, this.#enter(0));
    const totals = this.#totals();
    ({ nodes: this.#nodes, bytes: this.#bytes, depth: this.#depth } = before);
    return { ...totals, form: 'list', items: items.length, elements, pair: undefined, height: 1 };
  }

  #readNode(height: number, items: number): ChunkMeasure {
    const node = findMeasure(this.#find, takeRef(this.#cursor));
    if (node.height !== height || node.items !== items) throw new CorruptError('A tree does not fit its nodes.');
    return asNode(node);
  }
}

/** Far above what a text of ours is nested in itself, and far below what calls can be. */
const MAX_TEXT_DEPTH = 3000;
