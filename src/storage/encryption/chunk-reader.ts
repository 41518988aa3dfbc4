import { groupBy } from '../../core/group-by.ts';
import type { Chunk, Digest } from '../../core/tree/chunk.ts';
import { isDigest } from '../../core/tree/chunk.ts';
import { Breather } from '../breather.ts';
import type { ChunkStorage } from '../contract.ts';
import { readReachableByLevel } from '../reachable.ts';
import { Recent } from './recent.ts';
import { openChunk } from './sealed-rows.ts';
import type { Lock, Vault } from './vault.ts';

const MAX_HOMES = 200_000;

/**
 * Finds chunks by their digests. With one lock a digest has one name; with several it is looked for where it was met last, and then
 * everywhere: chunks of one digest are equal, whatever they are locked by.
 */
export class ChunkReader {
  readonly #inner: ChunkStorage;
  /** Which lock a chunk was referred to under. */
  readonly #homes = new Recent<Digest, string>(MAX_HOMES);
  /** Names of chunks that can be read with all below them, by the keys of this vault. */
  #kept: { readonly vault: Vault; readonly names: Recent<Digest, true> } | undefined;
  #lastListed: { readonly digest: Digest; readonly name: Digest } | undefined;

  constructor(inner: ChunkStorage) {
    this.#inner = inner;
  }

  /** Remembers where chunks are that something under a lock refers to. */
  note(vault: Vault, lock: Lock, digests: readonly Digest[]): void {
    if (vault.onlyLock === undefined) for (const digest of digests) this.#homes.set(digest, lock.name);
  }

  async read(vault: Vault, digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    const found = new Map<Digest, Chunk>();
    let wanted = [...new Set(digests)].filter(isDigest);
    for (const [lock, likely] of this.#byHome(vault, wanted)) await this.#readFrom(vault, lock, { likely, found });
    for (const lock of vault.onlyLock === undefined ? vault.locks : []) {
      wanted = wanted.filter((digest) => !found.has(digest));
      await this.#readFrom(vault, lock, { likely: wanted, found });
    }
    if (digests.length === 0 || vault.locks.length === 0) await this.#inner.readChunks([]); // which may be closed
    return digests.map((digest) => found.get(digest));
  }

  async #readFrom(
    vault: Vault,
    lock: Lock,
    { likely, found }: { likely: readonly Digest[]; found: Map<Digest, Chunk> },
  ): Promise<void> {
    if (likely.length === 0) return;
    await this.#openAll(vault, await this.#inner.readChunks(lock.chunks.hide(likely)), found);
  }

  async #openAll(vault: Vault, chunks: readonly (Chunk | undefined)[], found: Map<Digest, Chunk>): Promise<void> {
    await new Breather().each(chunks, (stored) => {
      if (stored === undefined) return;
      const chunk = openChunk(vault, stored);
      found.set(chunk.digest, chunk);
      this.note(vault, vault.lockOf(stored.text, 'A chunk'), chunk.refs);
    });
  }

  #byHome(vault: Vault, digests: readonly Digest[]): [Lock, Digest[]][] {
    const groups = groupBy(digests, (digest) => vault.onlyLock ?? vault.lock(this.#homes.find(digest) ?? ''));
    return [...groups].flatMap(([lock, group]) => (lock === undefined ? [] : [[lock, group]]));
  }

  async readReachable(vault: Vault, digests: readonly Digest[]): Promise<Chunk[]> {
    const found = new Map<Digest, Chunk>();
    for (const [lock, group] of this.#byHome(vault, digests.filter(isDigest)))
      await this.#openAll(vault, await this.#inner.readReachable(lock.chunks.hide(group)), found);
    if (vault.onlyLock === undefined) {
      const below = [...found.values()].flatMap(({ refs }) => refs);
      const missing = [...digests, ...below].filter((digest) => !found.has(digest));
      for (const chunk of await readReachableByLevel((wanted) => this.read(vault, wanted), missing))
        found.set(chunk.digest, chunk);
    }
    return [...found.values()];
  }

  /** A chunk that is there is not stored again: refuses what would be made of chunks whose key was removed since. */
  async checkKept(
    vault: Vault,
    lock: Lock,
    { digests, what }: { readonly digests: readonly Digest[]; readonly what: string },
  ): Promise<void> {
    if (!vault.hasForgotten(lock.name)) return;
    if (this.#kept?.vault !== vault) this.#kept = { vault, names: new Recent(MAX_HOMES) };
    const { names } = this.#kept;
    const read = (wanted: readonly Digest[]) =>
      this.#inner.readChunks(wanted.filter((name) => names.find(name) === undefined));
    const found = await readReachableByLevel(read, lock.chunks.hide([...new Set(digests)]));
    for (const { text } of found) vault.lockOf(text, what);
    for (const { digest } of found) names.set(digest, true);
  }

  /** In the order of the names below. */
  async list(vault: Vault, { after, limit }: { after?: Digest; limit: number }): Promise<Digest[]> {
    const found: Digest[] = [];
    for (let last = after === undefined ? undefined : await this.#nameOf(vault, after); ; ) {
      const asked = limit - found.length;
      const names = await this.#inner.listChunks({ limit: asked, ...(last !== undefined && { after: last }) });
      last = names.at(-1);
      for (const digest of await this.#digestsOf(vault, names)) found.push(digest);
      const digest = found.at(-1);
      if (digest !== undefined && last !== undefined) this.#lastListed = { digest, name: last };
      if (last === undefined || names.length < asked || found.length === limit) return found;
    }
  }

  /** Which lock a name is of, only its chunk can say. Those whose keys were removed are left out. */
  async #digestsOf(vault: Vault, names: readonly Digest[]): Promise<Digest[]> {
    const { onlyLock } = vault;
    if (onlyLock !== undefined) return onlyLock.chunks.reveal(names);
    const chunks = (await this.#inner.readChunks(names)).filter((chunk) => chunk !== undefined);
    return chunks
      .filter(({ text }) => !vault.isRemoved(text))
      .flatMap(({ digest, text }) => vault.lockOf(text, 'A chunk').chunks.reveal([digest]));
  }

  async #nameOf(vault: Vault, digest: Digest): Promise<Digest | undefined> {
    if (this.#lastListed?.digest === digest) return this.#lastListed.name;
    for (const { chunks } of vault.locks) {
      const [name] = chunks.hide([digest]);
      const isStored = name !== undefined && (await this.#inner.readChunks([name]))[0] !== undefined;
      if (isStored || vault.onlyLock !== undefined) return name;
    }
    return undefined;
  }
}
