import { type Linked, linkChunk, Opaque, Pairs, Ref, Tree } from '../../core/diff/linked.ts';
import { formatPath, type PathStep } from '../../core/path.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type ChunkContent, createChunk, type Digest } from '../../core/tree/chunk.ts';
import { Breather } from '../../storage/breather.ts';
import type { ChunkStorage } from '../../storage/contract.ts';

/** A chunk that is still to be read: where it is in the state, and how high it is in a tree; a value has no height. */
type Pending = {
  readonly digest: Digest;
  readonly path: readonly PathStep[];
  readonly height: number;
  readonly kind: string;
};

const BATCH = 500;
/** Deeper paths are counted with the ones they are in. */
const MAX_STEPS = 4;
const ANY_ELEMENT = '<[*]>';
const ANY_KEY = '*';

/** Weighs states one after the other: what an earlier one had weighs nothing. Reads each chunk once. */
export class Scale {
  readonly #storage: ChunkStorage;
  readonly #seen = new Set<Digest>();
  #added = new Map<string, number>();
  readonly #breather = new Breather();
  #totalBytes = 0;
  /** How many roots and chunks are missing, or are not what their digests say. */
  damaged = 0;

  constructor(storage: ChunkStorage) {
    this.#storage = storage;
  }

  /** All that was weighed so far. */
  get totalBytes(): number {
    return this.#totalBytes;
  }

  /** What the last state weighed, by path: each chunk once, before compression; the elements of a list are one path. */
  get added(): ReadonlyMap<string, number> {
    return this.#added;
  }

  /** How many bytes of a checkpoint's state were not there before; nothing if it is gone. */
  async add({ id, stateDigest }: Pick<Checkpoint, 'id' | 'stateDigest'>, signal?: AbortSignal): Promise<number> {
    const before = this.#totalBytes;
    this.#added = new Map();
    const row = await this.#storage.readCheckpoint(id);
    if (row?.root === undefined) return 0;
    const root = createChunk(row.root);
    if (root.digest !== stateDigest) this.damaged++;
    let pending = this.#take(root, { digest: root.digest, path: [], height: 0, kind: '' });
    while (pending.length > 0) {
      signal?.throwIfAborted();
      pending = await this.#readLevel(pending);
    }
    return this.#totalBytes - before;
  }

  async #readLevel(pending: readonly Pending[]): Promise<Pending[]> {
    const below: Pending[] = [];
    for (let at = 0; at < pending.length; at += BATCH) {
      const batch = pending.slice(at, at + BATCH).filter(({ digest }) => !this.#seen.has(digest));
      const chunks = await this.#storage.readChunks(batch.map(({ digest }) => digest));
      await this.#breather.each(chunks.entries(), ([place, chunk]) => {
        const wanted = batch[place];
        if (chunk === undefined || createChunk(chunk).digest !== wanted?.digest) this.damaged++;
        else below.push(...this.#take(chunk, wanted));
      });
    }
    return below;
  }

  #take(content: ChunkContent, { digest, path, height, kind }: Pending): Pending[] {
    if (this.#seen.has(digest)) return [];
    this.#seen.add(digest);
    const bytes = Buffer.byteLength(content.text) + content.refs.length * 32;
    this.#totalBytes += bytes;
    const key = formatPath(path).replaceAll(ANY_ELEMENT, '[*]');
    this.#added.set(key, (this.#added.get(key) ?? 0) + bytes);
    if (content.refs.length === 0) return [];
    if (height > 1) return content.refs.map((ref) => ({ digest: ref, path, height: height - 1, kind }));
    const linked = linkChunk(content);
    return height === 1 ? itemsBelow(linked as Linked[], kind, path) : refsBelow(linked, path);
  }
}

function stepInto(path: readonly PathStep[], step: PathStep): readonly PathStep[] {
  return path.length >= MAX_STEPS ? path : [...path, step];
}

function refsBelow(value: Linked, path: readonly PathStep[]): Pending[] {
  if (typeof value !== 'object' || value === null) return [];
  if (value instanceof Ref) return [{ digest: value.digest, path, height: 0, kind: '' }];
  if (value instanceof Tree) return treeBelow(value, path);
  if (value instanceof Pairs) return itemsBelow(value.pairs as Linked[], 'Map', path);
  if (value instanceof Opaque) return value.args.flatMap((part) => refsBelow(part, path));
  if (Array.isArray(value)) return itemsBelow(value, 'Array', path);
  return Object.entries(value).flatMap(([key, item]) => refsBelow(item, stepInto(path, key)));
}

function treeBelow({ kind, levels, items }: Tree, path: readonly PathStep[]): Pending[] {
  const nodes = levels.flatMap((level, at) =>
    level.map(({ ref }) => ({ digest: ref.digest, path, height: levels.length - at, kind })),
  );
  return [...nodes, ...itemsBelow(items, kind, path)];
}

/** Items of objects and maps are pairs of a key and a value. */
function itemsBelow(items: readonly Linked[], kind: string, path: readonly PathStep[]): Pending[] {
  if (kind === 'text') return items.flatMap((item) => refsBelow(item, path));
  const isKeyed = kind === 'Map' || kind === 'object' || kind === 'bare';
  const below = stepInto(path, isKeyed ? ANY_KEY : ANY_ELEMENT);
  return items.flatMap((item) =>
    isKeyed && Array.isArray(item) ? item.flatMap((part) => refsBelow(part, below)) : refsBelow(item, below),
  );
}
