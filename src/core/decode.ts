import { decodeAtom, decodeBytes } from './atom.ts';
import type { ChunkContent, Digest } from './chunk.ts';
import type { ClassCodecs } from './class-codec.ts';
import { createError } from './error-value.ts';
import { CorruptError } from './errors.ts';
import { TAG_START } from './format.ts';
import type { KnownParts } from './known-parts.ts';
import { setField } from './odd-key.ts';
import type { TreeLevels, TreeNode } from './shadow.ts';

/** Where the decoded containers came from: lets the next save know them without encoding them again. */
export type Origins = {
  readonly digests: Map<object, Digest>;
  readonly levels: Map<object, TreeLevels>;
};

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
type JsonObject = { [key: string]: Json };

/** The refs of the chunk being read; taken in reading order. */
type Cursor = { readonly refs: readonly Digest[]; next: number };

/** Finds a chunk by its digest; throws if it is absent or damaged. */
export type FindChunk = (digest: Digest) => ChunkContent;

/** Turns chunks back into values. Runs no code that data could name: tags select from a closed set and from registered codecs. */
export class Decoder {
  readonly #find: FindChunk;
  readonly #codecs: ClassCodecs;
  readonly #origins: Origins | undefined;
  readonly #known: KnownParts | undefined;

  constructor(
    find: FindChunk,
    codecs: ClassCodecs,
    { origins, known }: { origins?: Origins; known?: KnownParts | undefined } = {},
  ) {
    this.#find = find;
    this.#codecs = codecs;
    this.#origins = origins;
    this.#known = known;
  }

  decode({ text, refs }: ChunkContent): unknown {
    const json = parse(text);
    if (!text.includes(TAG_START)) return json;
    const cursor = { refs, next: 0 };
    const value = this.#revive(json, cursor);
    if (cursor.next !== refs.length) throw new CorruptError('A chunk has references that its text does not use.');
    return value;
  }

  #decodeRef(digest: Digest): unknown {
    const known = this.#known?.find(digest, this.#codecs);
    if (known !== undefined) return known.value;
    const value = this.decode(this.#find(digest));
    if (this.#origins !== undefined && typeof value === 'object' && value !== null)
      this.#origins.digests.set(value, digest);
    return value;
  }

  #revive(json: Json, cursor: Cursor): unknown {
    if (typeof json !== 'object' || json === null) return json;
    if (Array.isArray(json)) {
      const values: unknown[] = json;
      for (let at = 0; at < values.length; at++) values[at] = this.#revive(json[at] as Json, cursor);
      return values;
    }
    return firstKey(json) === '$' ? this.#reviveTag(json.$ as Json, cursor) : this.#reviveFields(json, cursor, json);
  }

  #reviveFields(json: JsonObject, cursor: Cursor, target: object): object {
    for (const key of Object.keys(json)) setField(target, key, this.#revive(json[key] as Json, cursor));
    return target;
  }

  #revivePairs(pairs: readonly [string, Json][], cursor: Cursor, target: object): object {
    for (const [key, json] of pairs) setField(target, key, this.#revive(json, cursor));
    return target;
  }

  #reviveTag(tagged: Json, cursor: Cursor): unknown {
    if (tagged === 0) return this.#decodeRef(takeRef(cursor));
    if (!Array.isArray(tagged) || typeof tagged[0] !== 'string') throw new CorruptError('A tagged value has no tag.');
    const [tag, ...args] = tagged as [string, ...Json[]];
    const atom = decodeAtom(tag, args);
    return atom === undefined ? this.#reviveContainer(tag, args, cursor) : atom.value;
  }

  #reviveContainer(tag: string, args: Json[], cursor: Cursor): unknown {
    switch (tag) {
      case 'object':
        return this.#reviveFields(args[0] as JsonObject, cursor, args[0] as JsonObject);
      case 'bare':
        return this.#reviveFields(args[0] as JsonObject, cursor, Object.create(null));
      case 'fields':
        return this.#revivePairs(args[0] as [string, Json][], cursor, {});
      case 'bareFields':
        return this.#revivePairs(args[0] as [string, Json][], cursor, Object.create(null));
      case 'Map':
        return new Map(this.#revive(args[0] as Json, cursor) as [unknown, unknown][]);
      case 'Set':
        return new Set(this.#revive(args[0] as Json, cursor) as unknown[]);
      case 'Error':
        return createError(String(args[0]), this.#revive(args[1] as Json, cursor) as Record<string, unknown>);
      case 'class':
        return this.#codecs.decode(String(args[0]), this.#revive(args[1] as Json, cursor));
      case 'tree':
        return this.#reviveTree(args, cursor);
      default:
        throw new CorruptError(
          `The state holds a value tagged ${JSON.stringify(tag)}, which this version does not know.`,
        );
    }
  }

  #reviveTree([kind, count, edges]: Json[], cursor: Cursor): unknown {
    const rows = edges as Json[][];
    const levels: TreeNode[][] = rows.slice(1).map(() => []);
    const items: unknown[] = [];
    rows.slice(0, -1).forEach((counts, at) => {
      for (const _ of counts) this.#expand(takeRef(cursor), rows.length - 1 - at, { items, levels });
    });
    for (const item of rows.at(-1) ?? []) items.push(this.#revive(item, cursor));
    if (items.length !== count)
      throw new CorruptError(`A tree says it has ${String(count)} elements and has ${items.length}.`);
    const value = assemble(String(kind), items);
    if (typeof value === 'object') this.#origins?.levels.set(value, levels.map(toLevel));
    return value;
  }

  /** Reads a closed node and all below it; notes each node in its level. */
  #expand(digest: Digest, height: number, into: { items: unknown[]; levels: TreeNode[][] }): void {
    const known = this.#known?.findItems(digest, this.#codecs);
    if (known !== undefined) {
      for (const item of known) into.items.push(item);
      return;
    }
    const content = this.#find(digest);
    const from = into.items.length;
    if (height === 1) for (const item of this.decode(content) as unknown[]) into.items.push(item);
    else for (const ref of content.refs) this.#expand(ref, height - 1, into);
    const items = into.items.length - from;
    into.levels[height - 1]?.push({ digest, entries: height === 1 ? items : content.refs.length, items });
  }
}

function toLevel(nodes: TreeNode[]): TreeLevels[number] {
  return { nodes, entries: nodes.reduce((sum, node) => sum + node.entries, 0) };
}

function assemble(kind: string, items: unknown[]): string | object {
  switch (kind) {
    case 'Array':
      return items;
    case 'Set':
      return new Set(items);
    case 'Map':
      return new Map(items as [unknown, unknown][]);
    case 'object':
    case 'bare': {
      const target = kind === 'object' ? {} : Object.create(null);
      for (const [key, value] of items as [string, unknown][]) setField(target, key, value);
      return target;
    }
    case 'text':
      return items.join('');
    default:
      return decodeBytes(kind, Buffer.concat(items.map((piece) => Buffer.from(String(piece), 'base64'))));
  }
}

function parse(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (cause) {
    throw new CorruptError('A chunk does not hold JSON.', { cause });
  }
}

function takeRef(cursor: Cursor): Digest {
  const digest = cursor.refs[cursor.next++];
  if (digest === undefined) throw new CorruptError('A chunk uses more references than it has.');
  return digest;
}

function firstKey(json: object): string | undefined {
  for (const key in json) return key;
  return undefined;
}
