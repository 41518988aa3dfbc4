import type { FindChunk } from '../../core/codec/decode.ts';
import { findIn } from '../../core/codec/state-codec.ts';
import { CorruptError, NotFoundError } from '../../core/errors.ts';
import { keepRecent } from '../../core/keep-recent.ts';
import { checkValue, string } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type CheckpointId, isCheckpointId, isCheckpointIdPart } from '../../core/record/id.ts';
import { encryptedError, isSealedName, NAME_START } from '../../core/record/sealed-name.ts';
import { type Chunk, type ChunkContent, checkChunk, type Digest } from '../../core/tree/chunk.ts';
import { Breather } from '../../storage/breather.ts';
import type { CheckpointRow, ChunkStorage, Ref, RefKind } from '../../storage/contract.ts';
import { findSession } from '../../storage/query.ts';
import { checkRef } from '../../storage/ref.ts';
import { parseRoot, parseRow, parseTombstone } from './records.ts';

/** A checkpoint and the root chunk of its state, both checked. */
export type StoredCheckpoint = { readonly checkpoint: Checkpoint; readonly root: Chunk };

/** At most this many candidates are named when a short id fits more than one checkpoint. */
const CANDIDATES = 8;
/** More names of what was ended are not remembered: a process that prunes every day must not grow by it. */
const MAX_ENDED = 1000;

/** Reads a storage and checks everything it returns: damaged data is an error here, and never a value. */
export class Repository {
  readonly storage: ChunkStorage;
  /** What was found here when it was looked for. */
  #holds: 'plain' | 'nothing' | undefined;
  /** Sessions, and what was their newest checkpoint, that retention ended here, each with when and why. */
  readonly #ended = new Map<string, string>();
  /** Many sessions that are begun at once ask once. */
  #asking: Promise<void> | undefined;

  constructor(storage: ChunkStorage) {
    this.storage = storage;
  }

  /** The checkpoint with this id or unique prefix; throws a NotFoundError that lists candidates. */
  async open(idOrPrefix: string): Promise<StoredCheckpoint> {
    checkValue(idOrPrefix, string, 'A checkpoint id');
    const id = isCheckpointId(idOrPrefix) ? idOrPrefix : await this.#resolve(idOrPrefix);
    const row = await this.storage.readCheckpoint(id);
    if (row === undefined)
      throw new NotFoundError(`There is no checkpoint ${id} in this storage.${this.describeEnd(id)}`, {
        details: { id },
      });
    if (row.isDeleted || row.root === undefined) throw deletedError(row);
    const checkpoint = parseRow(row);
    return { checkpoint, root: parseRoot(checkpoint, row.root) };
  }

  /** Remembers that retention ended what has these names: nothing of it is left in the storage. */
  noteEnded(names: readonly string[], { atMs, reason }: { readonly atMs: number; readonly reason: string }): void {
    for (const name of names)
      keepRecent(this.#ended, [name, ` Retention ended it on ${new Date(atMs).toISOString()}: ${reason}.`], MAX_ENDED);
  }

  /** A sentence for errors about what is not there, if retention ended it here; else nothing. */
  describeEnd(name: string): string {
    return this.#ended.get(name) ?? '';
  }

  async #resolve(prefix: string): Promise<CheckpointId> {
    if (prefix === '' || 'chk_'.startsWith(prefix))
      throw new NotFoundError(
        `${JSON.stringify(prefix)} names no checkpoint. Pass an id, or the beginning of one that is long enough to be unique.`,
        { details: { prefix, candidates: [] } },
      );
    const wanted = prefix.startsWith('chk_') ? prefix : `chk_${prefix}`;
    const rows = await this.storage.listCheckpoints({ idPrefix: wanted, limit: CANDIDATES + 1, include: 'all' });
    const [first, second] = rows;
    if (first !== undefined && second === undefined) return first.id;
    const candidates = rows.slice(0, CANDIDATES).map((row) => row.id);
    throw new NotFoundError(
      first === undefined
        ? `No checkpoint has an id that starts with ${JSON.stringify(prefix)}.${isCheckpointIdPart(wanted) ? '' : ` Give a checkpoint id, or { sessionId, at: '${prefix}' } for a branch, a tag or another revision.`}`
        : `"${prefix}" fits more than one checkpoint: ${candidates.join(', ')}${rows.length > CANDIDATES ? ', ...' : ''}. Give more characters.`,
      { details: { prefix, candidates } },
    );
  }

  /** Loads every chunk below a root, checked, in one bulk read. */
  async loadChunks(root: ChunkContent): Promise<FindChunk> {
    const chunks = root.refs.length === 0 ? [] : await this.storage.readReachable(root.refs);
    const found = new Map<Digest, ChunkContent>();
    await new Breather().each(chunks, (chunk) => {
      checkChunk(chunk);
      found.set(chunk.digest, chunk);
    });
    return findIn(found);
  }

  /** Chunks in the order asked for; an absent or damaged one is a CorruptError. */
  async readChunks(digests: readonly Digest[]): Promise<Chunk[]> {
    const chunks = await this.storage.readChunks(digests);
    const found: Chunk[] = [];
    await new Breather().each(chunks, (chunk) => {
      const digest = digests[found.length];
      if (chunk === undefined)
        throw new CorruptError(`Chunk ${digest} is missing from the storage. Run verify to see what it affects.`, {
          details: { digest },
        });
      checkChunk(chunk);
      found.push(chunk);
    });
    return found;
  }

  /** Whether it is certain that what is stored can be read. */
  get isKnown(): boolean {
    return this.#holds === 'plain' || this.storage.hasKeys === true;
  }

  /**
   * Throws a KeyError if what is stored is encrypted and this reads it without keys: every session would seem to be absent, and be begun
   * anew in the clear. Who begins a session asks first. Nothing is looked up any more once something is there.
   */
  async checkKeys(): Promise<void> {
    if (this.isKnown) return;
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined;
    });
    await this.#asking;
  }

  async #ask(): Promise<void> {
    const sealed = await findSession(this.storage, NAME_START);
    if (sealed !== undefined && isSealedName(sealed)) throw encryptedError();
    this.#holds = (sealed ?? (await findSession(this.storage))) === undefined ? 'nothing' : 'plain';
  }

  /** Refs that fit, each checked. */
  async readRefs(filter: { sessionId?: string; kind?: RefKind; name?: string }): Promise<Ref[]> {
    const refs = await this.storage.readRefs(filter);
    if (refs.length === 0 && filter.sessionId !== undefined && this.#holds === undefined) await this.checkKeys();
    await new Breather().each(refs, checkRef);
    return refs;
  }

  /** What a name points at; undefined if there is no such name. */
  async readRef(sessionId: string, kind: RefKind, name: string): Promise<string | undefined> {
    const [ref] = await this.readRefs({ sessionId, kind, name });
    if (ref !== undefined) return ref.target;
    // A name or kind that was damaged is not found under itself; but then it fails its check under the other of the two.
    await this.readRefs({ sessionId, kind });
    await this.readRefs({ sessionId, name });
    return undefined;
  }
}

function deletedError(row: CheckpointRow): NotFoundError {
  const { deletedAtMs, reason } = parseTombstone(row);
  return new NotFoundError(`Checkpoint ${row.id} was deleted on ${new Date(deletedAtMs).toISOString()}: ${reason}.`, {
    details: { id: row.id, deletedAtMs, reason },
  });
}
