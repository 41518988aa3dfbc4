import { isUtf8 } from 'node:buffer';
import { CorruptError, InvalidInputError, StorageError } from '../../core/errors.ts';
import { mapBounded } from '../../core/time/bounded.ts';
import {
  type Chunk,
  type ChunkContent,
  type Digest,
  formatChunk,
  isDigest,
  parseChunk,
} from '../../core/tree/chunk.ts';
import type { CollectResult } from '../contract.ts';
import { isNamed } from '../named-bytes.ts';
import type { DurableFiles } from './durable-files.ts';
import type { FileSystem } from './file-system.ts';

const PARALLEL_READS = 16;
// Syncs of one commit that run beside each other end up in the same journal commit of the file system.
const PARALLEL_WRITES = 8;
const PREFIX = /^[0-9a-f]{2}$/;
const PREFIX_CHARS = 2;

/** Chunks as files: `ab/<64 characters>` holds the canonical form, so `sha256sum` of a file prints its name, unless it is encrypted. */
export class ChunkFolder {
  readonly #files: DurableFiles;
  readonly #fileSystem: FileSystem;
  readonly #folder: string;
  /** Prefix folders that this process knows to survive a power loss. */
  readonly #durablePrefixes = new Set<string>();

  constructor(files: DurableFiles, folder: string) {
    this.#files = files;
    this.#fileSystem = files.fileSystem;
    this.#folder = folder;
  }

  /** Makes chunks durable; those that are there are not written again. Only inside a shared section. */
  async write(chunks: readonly Chunk[]): Promise<void> {
    if (chunks.length === 0) return;
    const unique = [...new Map(chunks.map((chunk) => [chunk.digest, chunk])).values()];
    const prefixes = [...new Set(unique.map(({ digest }) => prefixOf(checkDigest(digest))))];
    await this.#preparePrefixes(prefixes);
    const temps = new Map<string, string>();
    try {
      await mapBounded(unique, PARALLEL_WRITES, async (chunk) => {
        const text = formatChunk(chunk);
        if (await this.#isStored(chunk.digest, text)) return;
        temps.set(await this.#files.writeTemp(text), this.#path(chunk.digest));
      });
      for (const [temp, path] of temps) await this.#fileSystem.rename(temp, path);
    } catch (error) {
      await mapBounded([...temps.keys()], PARALLEL_WRITES, (temp) => this.#files.discard(temp));
      throw error;
    }
    // Also folders of chunks found there: the process that wrote them may not have come to its sync yet.
    await mapBounded(prefixes, PARALLEL_WRITES, (prefix) => this.#files.syncFolder(`${this.#folder}/${prefix}`));
  }

  async #preparePrefixes(prefixes: readonly string[]): Promise<void> {
    const unknown = prefixes.filter((prefix) => !this.#durablePrefixes.has(prefix));
    if (unknown.length === 0) return;
    await mapBounded(unknown, PARALLEL_WRITES, (prefix) => this.#fileSystem.makeFolder(`${this.#folder}/${prefix}`));
    await this.#files.syncFolder(this.#folder);
    for (const prefix of unknown) this.#durablePrefixes.add(prefix);
  }

  /** A file of another size is damaged and is replaced: this is the chance to heal it. */
  async #isStored(digest: Digest, text: string): Promise<boolean> {
    return (await this.#fileSystem.statSize(this.#path(digest))) === Buffer.byteLength(text);
  }

  /** Throws if some of these are not there: a folder that was deleted or replaced lacks them all, so a look at a few tells. */
  async checkSome(digests: readonly Digest[]): Promise<void> {
    await mapBounded(digests.slice(0, PARALLEL_READS), PARALLEL_READS, async (digest) => {
      const path = this.#path(digest);
      if ((await this.#fileSystem.statSize(path)) !== undefined) return;
      throw new StorageError(
        `The file ${path} was deleted while the storage was open, and this save refers to it, so nothing is saved. Put the files back, or save the state to a new session.`,
        { details: { path, digest } },
      );
    });
  }

  /** The chunks in the order asked for; `undefined` where there is none. */
  read(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    return mapBounded(digests, PARALLEL_READS, async (digest) => {
      const bytes = await this.#readFile(digest);
      return bytes && { digest, ...this.#parse(bytes, digest) };
    });
  }

  /** The references of chunks; a CorruptError if one is not what its name says. */
  readRefs(digests: readonly Digest[]): Promise<(readonly Digest[])[]> {
    return mapBounded(digests, PARALLEL_READS, async (digest) => (await this.readNamed(digest))?.refs ?? []);
  }

  /** What is in a chunk; undefined if it is not there, and a CorruptError if it is not what its name says. */
  async readNamed(digest: Digest): Promise<ChunkContent | undefined> {
    const bytes = await this.#readFile(digest);
    if (bytes === undefined) return undefined;
    if (!isNamed(bytes, digest)) throw this.#damaged(digest);
    return this.#parse(bytes, digest);
  }

  async #readFile(digest: Digest): Promise<Uint8Array | undefined> {
    return isDigest(digest) ? this.#fileSystem.readFile(this.#path(digest)) : undefined;
  }

  #parse(bytes: Uint8Array, digest: Digest): ChunkContent {
    // Invalid UTF-8 must not turn into replacement characters: a damaged file has to look damaged.
    if (!isUtf8(bytes)) throw this.#damaged(digest);
    try {
      return parseChunk(Buffer.from(bytes).toString());
    } catch (error) {
      throw this.#damaged(digest, error);
    }
  }

  #damaged(digest: Digest, cause?: unknown): CorruptError {
    const path = this.#path(digest);
    return new CorruptError(`${path} is damaged: its content does not match its name.`, {
      details: { path, digest },
      cause,
    });
  }

  /** Digests in order, after one of them if given, up to a limit. */
  async list({ after = '', limit }: { readonly after?: string; readonly limit: number }): Promise<Digest[]> {
    const found: Digest[] = [];
    for (const prefix of await this.#prefixes()) {
      if (found.length >= limit) break;
      if (prefix < after.slice(0, PREFIX_CHARS)) continue;
      found.push(...(await this.#listPrefix(prefix)).filter((digest) => digest > after));
    }
    return found.slice(0, limit);
  }

  /** Digests of all chunks, folder by folder. */
  async *listAll(): AsyncGenerator<Digest[]> {
    for (const prefix of await this.#prefixes()) yield await this.#listPrefix(prefix);
  }

  async #prefixes(): Promise<string[]> {
    const entries = (await this.#fileSystem.readFolder(this.#folder)) ?? [];
    return entries
      .filter(({ name, kind }) => kind === 'folder' && PREFIX.test(name))
      .map(({ name }) => name)
      .sort();
  }

  async #listPrefix(prefix: string): Promise<Digest[]> {
    const entries = (await this.#fileSystem.readFolder(`${this.#folder}/${prefix}`)) ?? [];
    return entries
      .filter(({ name, kind }) => kind === 'file' && isDigest(name) && prefixOf(name) === prefix)
      .map(({ name }) => name as Digest)
      .sort();
  }

  /** How many of these chunks are there, and their summed size. */
  async measure(digests: readonly Digest[]): Promise<CollectResult> {
    const sizes = await mapBounded(digests, PARALLEL_READS, (digest) => this.#fileSystem.statSize(this.#path(digest)));
    const found = sizes.filter((size) => size !== undefined);
    return { chunks: found.length, bytes: found.reduce((sum, size) => sum + size, 0) };
  }

  /** Removes chunks, and tells how many of them were there. Only inside an exclusive section. */
  async remove(digests: readonly Digest[]): Promise<CollectResult> {
    const removed = await this.measure(digests);
    await mapBounded(digests, PARALLEL_WRITES, (digest) => this.#fileSystem.removeTree(this.#path(digest)));
    const prefixes = [...new Set(digests.map(prefixOf))];
    await mapBounded(prefixes, PARALLEL_WRITES, (prefix) => this.#files.syncFolder(`${this.#folder}/${prefix}`));
    return removed;
  }

  #path(digest: Digest): string {
    return `${this.#folder}/${prefixOf(digest)}/${digest}`;
  }
}

const prefixOf = (digest: string): string => digest.slice(0, PREFIX_CHARS);

function checkDigest(digest: Digest): Digest {
  if (isDigest(digest)) return digest;
  throw new InvalidInputError(`A chunk was given the name "${digest}", which is not 64 lower-case hexadecimal digits.`);
}
