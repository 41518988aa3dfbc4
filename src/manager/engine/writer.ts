import { isDeepStrictEqual } from 'node:util';
import type { EncodedState } from '../../core/codec/state-codec.ts';
import { InvalidInputError, isOutcomeUnknown } from '../../core/errors.ts';
import { freezeState } from '../../core/freeze.ts';
import { Checkpoint } from '../../core/record/checkpoint.ts';
import { type CheckpointHeader, digestCheckpoint } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Chunk } from '../../core/tree/chunk.ts';
import type { ChunkStorage, Commit, CommitResult, RefChange } from '../../storage/contract.ts';
import { isRefused } from '../../storage/refusal.ts';
import type { Engine } from './engine.ts';
import { parseRow, readSession } from './records.ts';
import type { StoredCheckpoint } from './repository.ts';
import { type DescribedHeader, GROUP_TYPE } from './save-options.ts';

/** Where a new checkpoint goes. */
export type WritePlace = {
  readonly sessionId: SessionId;
  readonly branch: string;
  readonly parent: Checkpoint | undefined;
  /** What the branch must be at; `null` if it must be new. */
  readonly expect: CheckpointId | null;
  /** Default: a new one, later than the parent's. */
  readonly id?: CheckpointId | undefined;
  /** Whether the state can only be read whole together with the parent's. Default: no. */
  readonly needsParent?: boolean;
  readonly effects?: Pick<CheckpointHeader, 'effectCount' | 'effectsInFlight'>;
  /** What must be there besides the parent. What can be reached from these need not be stored again. */
  readonly requires?: readonly CheckpointId[];
  /** What changes in the same commit, besides the branch. */
  readonly refs?: readonly RefChange[];
  /** The lease that the commit stands under. Default: none, so that the storage is asked directly. */
  readonly lease?: Pick<ChunkStorage, 'commit'> | undefined;
  /** Whether somebody waits, so that the storage must not wait for more commits. */
  readonly isUrgent?: boolean;
};

/** What a new checkpoint says and holds. */
export type WriteContent = {
  readonly described: DescribedHeader;
  readonly encoded: Pick<EncodedState, 'root' | 'sizeBytes'>;
  readonly chunks: readonly Chunk[];
  /** Whether a checkpoint that was stored under the same idempotency key holds the same. Default: whether its state is equal. */
  readonly isSame?: (stored: StoredCheckpoint) => Promise<boolean>;
};

/** Stores checkpoints. `Engine.write` makes one for each piece of work, and tells of what it stored when that is over. */
export class Writer {
  /** What was stored, in order. */
  readonly stored: Checkpoint[] = [];
  /** Where the last one was to go, whether it was stored or not. */
  branch: string | undefined;
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /**
   * Stores a checkpoint; resolves when it is durable, or with the one that was stored before under its idempotency key. `isRefused` says
   * of an error why it was refused. If the storage does not know whether it was stored, this looks: an error with `outcome: 'unknown'`
   * is left only where nothing is found, and it may arrive yet.
   */
  async write(place: WritePlace, content: WriteContent): Promise<Checkpoint> {
    const { sessionId, branch, parent, expect, requires = [], refs = [] } = place;
    this.branch = branch;
    const header = this.#describe(place, content);
    const body = JSON.stringify(header);
    const checkpoint = new Checkpoint(freezeState(header), digestCheckpoint(body));
    if (parent === undefined && !this.#engine.repository.isKnown) await this.#engine.repository.checkKeys();
    const result = await this.#commit(place, checkpoint, {
      sessionId,
      checkpoint: { header, body, digest: checkpoint.digest, root: content.encoded.root },
      chunks: content.chunks,
      refs: [{ kind: 'branch', name: branch, expect, target: header.id }, ...refs],
      requires: [...(parent === undefined ? [] : [parent.id]), ...requires],
      ...(place.isUrgent === true && { isUrgent: true }),
    });
    const stored = result.status === 'duplicate' ? await this.#openSame(result.id, content, place) : checkpoint;
    this.stored.push(stored);
    return stored;
  }

  /** What was stored before under the same key. It is told of again: nobody knows whether whoever stored it came to that. */
  async #openSame(
    id: CheckpointId,
    { described, encoded, isSame }: WriteContent,
    { branch, parent }: WritePlace,
  ): Promise<Checkpoint> {
    const stored = await this.#engine.repository.open(id);
    const { checkpoint } = stored;
    const isEqual = isSame === undefined ? checkpoint.stateDigest === encoded.root.digest : await isSame(stored);
    if (!isEqual) throw keyTaken(checkpoint, described.idempotencyKey, 'state');
    const other = findOther(described, checkpoint);
    if (other !== undefined) throw keyTaken(checkpoint, described.idempotencyKey, other);
    if (checkpoint.branch !== branch && !(await this.#isAncestor(checkpoint, parent)))
      throw keyTaken(checkpoint, described.idempotencyKey, `branch, "${checkpoint.branch}" and not "${branch}"`);
    return checkpoint;
  }

  /** Whether a checkpoint is in the history of another one, or is it. */
  async #isAncestor({ id, sessionId }: Checkpoint, from: Checkpoint | undefined): Promise<boolean> {
    let wanted = from?.id;
    for await (const entry of readSession(this.#engine.storage, sessionId)) {
      if (wanted === undefined || wanted === id) break;
      if (entry.id === wanted) wanted = entry.parentId;
    }
    return wanted === id;
  }

  /** What a commit stored that got no answer; undefined if it is not there. */
  async find(id: CheckpointId): Promise<Checkpoint | undefined> {
    const row = await this.#engine.storage.readCheckpoint(id);
    if (row === undefined || row.isDeleted) return undefined;
    const checkpoint = parseRow(row);
    this.stored.push(checkpoint);
    return checkpoint;
  }

  /** Gives the checkpoint its id and its place in the lineage. */
  #describe(place: WritePlace, { described, encoded }: WriteContent): CheckpointHeader {
    const { ports, migrations } = this.#engine;
    const { id, sessionId, branch, parent, needsParent, effects } = place;
    return {
      id: id ?? ports.nextId(parent?.id),
      sessionId,
      branch,
      ...(parent !== undefined && { parentId: parent.id, parentDigest: parent.digest }),
      ...(parent !== undefined && needsParent === true && { needsParent }),
      sequence: (parent?.sequence ?? 0) + 1,
      ...described,
      ...inheritUser(described, parent),
      timestampMs: ports.now(),
      ...inheritVersion(migrations, parent),
      ...effects,
      stateDigest: encoded.root.digest,
      stateBytes: encoded.sizeBytes,
    };
  }

  async #commit(place: WritePlace, checkpoint: Checkpoint, commit: Commit): Promise<CommitResult> {
    const { storage } = this.#engine;
    try {
      return await (place.lease ?? storage).commit(commit);
    } catch (error) {
      const isDoubtful = isOutcomeUnknown(error) || isRefused(error, 'taken');
      if (isDoubtful && (await this.#isStored(checkpoint))) return { status: 'stored' };
      throw error;
    }
  }

  /** Whether exactly this is there. A storage that cannot say leaves the question open. */
  async #isStored({ id, digest }: Checkpoint): Promise<boolean> {
    const row = await this.#engine.storage.readCheckpoint(id).catch(() => undefined);
    return row?.digest === digest;
  }
}

/** What a user said stays in the states that follow, so these are of that user until a save names another one. A group is of its members' user. */
export function inheritUser(
  { userId, type }: DescribedHeader,
  parent: Checkpoint | undefined,
): Pick<DescribedHeader, 'userId'> {
  const isInherited = userId === undefined && type !== GROUP_TYPE && parent?.userId !== undefined;
  return isInherited ? { userId: parent.userId } : {};
}

/** Who knows no versions builds on the state as it is, so the new one has the version of its parent. */
function inheritVersion(
  { version }: Engine['migrations'],
  parent: Checkpoint | undefined,
): Pick<CheckpointHeader, 'schemaVersion'> {
  const schemaVersion = version ?? parent?.schemaVersion;
  return schemaVersion === undefined ? {} : { schemaVersion };
}

/** What is said of a checkpoint otherwise than it was said of the stored one. */
function findOther(described: DescribedHeader, { header }: Checkpoint): string | undefined {
  const said = JSON.parse(JSON.stringify(described)) as DescribedHeader; // as it is stored
  const fields = Object.keys(said) as (keyof DescribedHeader)[];
  return fields.find((field) => !isDeepStrictEqual(said[field], header[field]));
}

/** A key stands for one save: to return the checkpoint of another one would lose this one. */
function keyTaken({ id, sessionId }: Checkpoint, idempotencyKey: string | undefined, what: string): InvalidInputError {
  return new InvalidInputError(
    `The idempotency key ${JSON.stringify(idempotencyKey)} was used in session "${sessionId}" for another ${what}, checkpoint ${id}; nothing was saved. Repeat a save as it was, or give this one a key of its own.`,
    { details: { field: 'idempotencyKey', sessionId, id } },
  );
}
