import { StorageError, UnsupportedError } from '../../core/errors.ts';
import { checkOptions, checkValue, having, type OptionChecks, wholeFrom } from '../../core/options.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { Chunk, Digest } from '../../core/tree/chunk.ts';
import { OBJECTS_FINDING, readStub } from '../../core/tree/object-stub.ts';
import type { ChunkStorage, CollectResult, Commit, CommitResult } from '../contract.ts';
import { EncryptedStorage } from '../encryption/encrypted-storage.ts';
import { wrapStorage } from '../wrap.ts';
import type { ObjectStore, StoredObject } from './object-store.ts';
import { blankUnused, isObjectName, packChunks, type Span, unpackChunks } from './packs.ts';

/** Which values live in objects. */
export type ObjectsOptions = {
  /** What a commit brings goes to objects if it is more than this together; default 65,536. */
  readonly minBytes?: number | undefined;
  /** An object that nothing refers to is deleted by `gc` when it is older than this; default a day. A commit that takes half as long is refused. */
  readonly graceMs?: number | undefined;
};

const OPTIONS: OptionChecks<ObjectsOptions> = { minBytes: wholeFrom(1), graceMs: wholeFrom(60_000) };
const DAY_MS = 86_400_000;
/** Shorter chunks stay in the storage: each would cost more as a piece of an object than it saves. */
const MIN_CHUNK_CHARS = 2_048;
const PAGE = 500;

/**
 * Keeps large values in an object store, and everything else in the storage: an object is put before the commit that refers to it, so a
 * crash leaves an object too many and never one too few. Use it in place of the storage; `encrypted()` goes around it.
 */
export function withObjects(storage: ChunkStorage, objects: ObjectStore, options: ObjectsOptions = {}): ChunkStorage {
  checkValue(storage, having('commit', 'readReachable', 'listSessions'), 'The storage of withObjects()');
  checkValue(objects, having('put', 'get', 'delete', 'list'), 'The object store of withObjects()');
  checkOptions(options, OPTIONS, 'withObjects()');
  if (storage instanceof EncryptedStorage)
    throw new UnsupportedError(
      'Objects would not be encrypted. Write encrypted(withObjects(storage, objects), { keys }).',
    );
  return wrapStorage(storage, new ObjectTier(storage, objects, options));
}

/** What a commit brings, once its objects are stored, and when that was begun. */
type Stored = { readonly beganMs: number; readonly chunks: readonly Chunk[] };

/** What is different from the storage. */
class ObjectTier
  implements Pick<ChunkStorage, 'commit' | 'readChunks' | 'readReachable' | 'collect' | 'checkIntegrity' | 'close'>
{
  readonly #storage: ChunkStorage;
  readonly #objects: ObjectStore;
  readonly #minBytes: number;
  readonly #graceMs: number;
  /** The last commit of each session that waited for an object: those after it come after it. */
  readonly #lines = new Map<SessionId, Promise<unknown>>();

  constructor(storage: ChunkStorage, objects: ObjectStore, { minBytes = 65_536, graceMs = DAY_MS }: ObjectsOptions) {
    this.#storage = storage;
    this.#objects = objects;
    this.#minBytes = minBytes;
    this.#graceMs = graceMs;
  }

  async commit(commit: Commit): Promise<CommitResult> {
    const { sessionId, chunks = [] } = commit;
    const large = this.#findLarge(chunks);
    const before = this.#lines.get(sessionId);
    if (before === undefined && large.size === 0) return this.#storage.commit(commit);
    const storing = this.#toObjects(chunks, large);
    const done = Promise.allSettled([before, storing]).then(async () =>
      this.#storage.commit({ ...commit, chunks: this.#inTime(await storing) }),
    );
    this.#lines.set(sessionId, done);
    try {
      return await done;
    } finally {
      if (this.#lines.get(sessionId) === done) this.#lines.delete(sessionId);
    }
  }

  #findLarge(chunks: readonly Chunk[]): ReadonlySet<Chunk> {
    const minChars = Math.min(MIN_CHUNK_CHARS, this.#minBytes);
    const large = chunks.filter(({ text, refs }) => refs.length === 0 && text.length >= minChars);
    const size = large.reduce((sum, { text }) => sum + text.length, 0);
    return new Set(size >= this.#minBytes ? large : []);
  }

  async #toObjects(chunks: readonly Chunk[], large: ReadonlySet<Chunk>): Promise<Stored> {
    const beganMs = Date.now();
    const packs = packChunks([...large]);
    const stubs = new Map(packs.flatMap((pack) => pack.stubs.map((stub): [Digest, Chunk] => [stub.digest, stub])));
    const stored = chunks.map((chunk) => (large.has(chunk) ? (stubs.get(chunk.digest) ?? chunk) : chunk));
    for (const { name, bytes } of packs) await this.#objects.put(name, bytes);
    return { beganMs, chunks: stored };
  }

  /** What took longer may have been deleted as left over. */
  #inTime({ beganMs, chunks }: Stored): readonly Chunk[] {
    if (Date.now() - beganMs <= this.#graceMs / 2) return chunks;
    throw new StorageError('The objects of this commit took too long to store. Save again.');
  }

  async readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    return unpackChunks(this.#objects, await this.#storage.readChunks(digests));
  }

  async readReachable(digests: readonly Digest[]): Promise<Chunk[]> {
    return unpackChunks(this.#objects, await this.#storage.readReachable(digests));
  }

  /**
   * First the storage; then the objects that are old and that no chunk is in, and of the others what no chunk is in. What a commit refers
   * to later is never old.
   */
  async collect(options: { readonly signal?: AbortSignal } = {}): Promise<CollectResult> {
    const collected = await this.#storage.collect(options);
    const old = await this.#findOld();
    const used = old.size > 0 ? await this.#findUsed(options.signal) : undefined;
    let { bytes } = collected;
    for (const object of old.values()) {
      options.signal?.throwIfAborted();
      const spans = used?.get(object.name);
      if (spans === undefined) {
        await this.#objects.delete(object.name);
        bytes += object.bytes;
      } else await blankUnused(this.#objects, object, spans);
    }
    return { ...collected, bytes };
  }

  async #findOld(): Promise<Map<string, StoredObject>> {
    const old = new Map<string, StoredObject>();
    const beforeMs = Date.now() - this.#graceMs;
    for await (const object of this.#objects.list())
      if (object.modifiedMs <= beforeMs && isObjectName(object.name)) old.set(object.name, object);
    return old;
  }

  async #findUsed(signal: AbortSignal | undefined): Promise<Map<string, Span[]>> {
    const used = new Map<string, Span[]>();
    for (let after: Digest | undefined; ; ) {
      signal?.throwIfAborted();
      const page = await this.#storage.listChunks({ limit: PAGE, ...(after !== undefined && { after }) });
      for (const chunk of await this.#storage.readChunks(page)) {
        const place = chunk && readStub(chunk);
        if (place === undefined) continue;
        const { object, from, to } = place;
        const spans = used.get(object);
        if (spans === undefined) used.set(object, [{ from, to }]);
        else spans.push({ from, to });
      }
      after = page.at(-1);
      if (page.length < PAGE) return used;
    }
  }

  /** That there are objects is no damage here. */
  async checkIntegrity(): Promise<string[]> {
    return (await this.#storage.checkIntegrity()).filter((finding) => finding !== OBJECTS_FINDING);
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#lines.values());
    await this.#storage.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
