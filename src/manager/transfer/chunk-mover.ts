import { CorruptError } from '../../core/errors.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { type Chunk, type ChunkContent, type Digest, formatChunk } from '../../core/tree/chunk.ts';
import { objectsError, readStub } from '../../core/tree/object-stub.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { isNamed } from '../../storage/named-bytes.ts';
import { isRefused } from '../../storage/refusal.ts';
import { sortByNeed } from './export.ts';

/** Of so many chunks it is remembered where they are; more are moved twice, which the storage notices. */
const MAX_HELD = 500_000;

/** What a commit brings, and the checkpoints there that keep what it does not bring. */
export type Moved = { readonly chunks: readonly Chunk[]; readonly requires: readonly CheckpointId[] };

/** A checkpoint that is there. */
export type Beside = { readonly id: CheckpointId; readonly root: ChunkContent };

/** Reads the chunks of a state that the other storage does not have yet. Cost follows what is new. */
export class ChunkMover {
  readonly from: ChunkStorage;
  readonly to: ChunkStorage;
  /** A checkpoint there that reaches the chunk. */
  readonly #held = new Map<Digest, CheckpointId>();
  readonly #noted = new Set<CheckpointId>();

  constructor(from: ChunkStorage, to: ChunkStorage) {
    this.from = from;
    this.to = to;
  }

  /** Stores something and all below its root; again, if a checkpoint there that kept part of it was deleted by others meanwhile. */
  async bring<Result>(
    root: ChunkContent | undefined,
    store: (moved: Moved) => Promise<Result>,
    beside?: Beside,
  ): Promise<{ moved: Moved; result: Result }> {
    for (let known = beside; ; known = undefined) {
      const moved = await this.#gather(root?.refs ?? [], known);
      try {
        return { moved, result: await store(moved) };
      } catch (error) {
        if (!isRefused(error, 'gone')) throw error;
        this.#forget();
      }
    }
  }

  /** Everything below these; what `beside`, a checkpoint that is there, has in the same places is not read. */
  async #gather(refs: readonly Digest[], beside: Beside | undefined): Promise<Moved> {
    const found = new Map<Digest, Chunk>();
    const requires = new Set<CheckpointId>();
    let theirs: readonly Digest[] = beside?.root.refs ?? [];
    for (let ours = new Set(refs); ours.size > 0; ) {
      if (beside !== undefined) this.#hold(theirs, beside.id);
      const wanted: Digest[] = [];
      for (const digest of ours) {
        const holder = this.#held.get(digest);
        if (holder !== undefined) requires.add(holder);
        else if (!found.has(digest)) wanted.push(digest);
      }
      const chunks = await readNamed(this.from, wanted, 'missing');
      for (const chunk of chunks) found.set(chunk.digest, chunk);
      const differing = chunks.length === 0 ? [] : theirs.filter((digest) => !ours.has(digest));
      theirs = (await this.to.readChunks(differing)).flatMap((chunk) => chunk?.refs ?? []);
      ours = new Set(chunks.flatMap((chunk) => chunk.refs));
    }
    return { chunks: [...sortByNeed([...found.values()])], requires: [...requires] };
  }

  /** Notes that a checkpoint with these chunks is there now. */
  note({ chunks }: Moved, id: CheckpointId): void {
    if (this.#held.size > MAX_HELD) this.#forget();
    this.#noted.add(id);
    this.#hold(
      chunks.map(({ digest }) => digest),
      id,
    );
  }

  #hold(digests: readonly Digest[], id: CheckpointId): void {
    for (const digest of digests) if (!this.#held.has(digest)) this.#held.set(digest, id);
  }

  /** Whether what a checkpoint is made of is known, because it was moved just now. */
  knows(id: CheckpointId): boolean {
    return this.#noted.has(id);
  }

  #forget(): void {
    this.#held.clear();
    this.#noted.clear();
  }

  /** Reads back what was brought. Throws a CorruptError that names what is not as it was. */
  async check({ chunks }: Moved): Promise<void> {
    const digests = chunks.map(({ digest }) => digest);
    await readNamed(this.to, digests, 'missing from the other storage');
  }
}

/** Reads chunks without keys; each must be what its name says, and not only the name of an object. */
async function readNamed(storage: ChunkStorage, digests: readonly Digest[], absent: string): Promise<Chunk[]> {
  const chunks = digests.length === 0 ? [] : await storage.readChunks(digests);
  return chunks.map((chunk, at) => {
    if (chunk !== undefined && readStub(chunk) !== undefined) throw objectsError();
    if (chunk !== undefined && isNamed(Buffer.from(formatChunk(chunk)), chunk.digest)) return chunk;
    const digest = digests[at];
    throw new CorruptError(`Chunk ${digest} is ${chunk === undefined ? absent : 'damaged'}.`, { details: { digest } });
  });
}
