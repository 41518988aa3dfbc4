import { findIn, type StateCodec } from '../../core/codec/state-codec.ts';
import { CorruptError, StorageError, UnsupportedError } from '../../core/errors.ts';
import { describeValue } from '../../core/options.ts';
import { Checkpoint } from '../../core/record/checkpoint.ts';
import { type CheckpointId, parseSessionId, type SessionId } from '../../core/record/id.ts';
import { UnderWay } from '../../core/time/under-way.ts';
import type { ChunkContent } from '../../core/tree/chunk.ts';
import type { JsonValue } from '../../core/value/json.ts';
import type {
  CheckpointQuery,
  CheckpointRow,
  CheckpointRowWithRoot,
  Commit,
  CommitResult,
  Deletion,
  Ref,
  RefKind,
} from '../contract.ts';
import { InMemoryCheckpointStorage } from '../memory/memory-storage.ts';
import type { CheckpointStorage } from './checkpoint-storage.ts';

/** How many checkpoints are read of a session at once. */
const PAGE = 200;

/**
 * Lets a manager work on a storage that only knows whole checkpoints. What the inner storage cannot hold (names, effects, chunks) is
 * kept in this process; checkpoints themselves are durable as soon as the inner storage says so.
 */
export class WholeCheckpointStorage extends InMemoryCheckpointStorage {
  override readonly kind = 'whole-checkpoint';
  readonly #inner: CheckpointStorage;
  readonly #codec: StateCodec;
  readonly #underWay = new UnderWay();
  /** Sessions that were looked for in the inner storage. */
  readonly #sessions = new Map<string, Promise<void>>();

  /** The codec is the manager's: it knows the classes that may occur in states. */
  constructor(inner: CheckpointStorage, codec: StateCodec) {
    super();
    this.#inner = inner;
    this.#codec = codec;
  }

  override commit(commit: Commit): Promise<CommitResult> {
    return this.#underWay.add(this.#commit(commit));
  }

  async #commit(commit: Commit): Promise<CommitResult> {
    if (commit.effects !== undefined && commit.effects.length > 0) throw unsupported('record effects (steps)');
    await this.#findSession(commit.sessionId);
    for (const id of commit.requires ?? []) await this.#fetch(id);
    const result = await super.commit(commit);
    if (commit.checkpoint !== undefined && result.status === 'stored') await this.#saveWhole(commit, commit.checkpoint);
    return result;
  }

  /** A checkpoint that the inner storage refused is taken back, so that nothing points at it. */
  async #saveWhole(commit: Commit, { header, digest, root }: NonNullable<Commit['checkpoint']>): Promise<void> {
    try {
      const id: unknown = await this.#inner.save(new Checkpoint(header, digest, await this.#toJson(root)));
      if (id !== header.id)
        throw new StorageError(
          `save of the storage must return the id of the checkpoint, ${header.id}; found ${describeValue(id)}.`,
          { details: { method: 'save', id: header.id } },
        );
    } catch (error) {
      const undo = (commit.refs ?? []).map(({ kind, name, expect }) => ({ kind, name, target: expect ?? null }));
      await super.commit({ sessionId: commit.sessionId, refs: undo });
      await super.deleteCheckpoints([{ id: header.id, body: JSON.stringify(header) }], { force: true });
      throw error;
    }
  }

  async #toJson(root: ChunkContent): Promise<JsonValue> {
    const chunks = new Map((await super.readReachable(root.refs)).map((chunk) => [chunk.digest, chunk]));
    return this.#codec.encodeJson(this.#codec.decode(root, findIn(chunks)));
  }

  /** Whether sessions of other processes are found. */
  get findsSessions(): boolean {
    return this.#inner.listBySession !== undefined;
  }

  /** Throws if nobody can tell whether a session exists: it would begin anew beside its own checkpoints. */
  async checkSession(sessionId: SessionId): Promise<void> {
    if (this.findsSessions) return;
    if ((await super.readRefs({ sessionId })).length > 0) return;
    throw unsupported(`find session "${sessionId}"; give it a listBySession method, or save and restore objects`);
  }

  /** Brings what the inner storage has of a session into this process, once. */
  async #findSession(sessionId: string | undefined): Promise<void> {
    if (sessionId === undefined || this.#inner.listBySession === undefined) return;
    const finding = this.#sessions.get(sessionId) ?? this.#readSession(sessionId);
    this.#sessions.set(sessionId, finding);
    finding.catch(() => this.#sessions.delete(sessionId));
    await finding;
  }

  async #readSession(sessionId: string): Promise<void> {
    const heads = new Map<string, CheckpointId>();
    for (let offset = 0; ; offset += PAGE) {
      const page = (await this.#inner.listBySession?.(sessionId, PAGE, offset)) ?? [];
      for (const checkpoint of page) {
        const { id } = await this.#take(checkpoint);
        const head = heads.get(checkpoint.branch);
        if (head === undefined || id > head) heads.set(checkpoint.branch, id);
      }
      if (page.length < PAGE) break;
    }
    const refs = [...heads].map(([name, target]) => ({ kind: 'branch' as const, name, expect: null, target }));
    if (refs.length > 0) await super.commit({ sessionId: parseSessionId(sessionId), refs });
  }

  /** Brings a checkpoint of the inner storage into this process, checked. */
  async #fetch(id: CheckpointId): Promise<void> {
    if ((await super.readCheckpoint(id)) !== undefined) return;
    const checkpoint = await this.#inner.load(id);
    if (checkpoint !== null && checkpoint !== undefined) await this.#take(checkpoint);
  }

  async #take(given: Checkpoint): Promise<CheckpointRow> {
    const { header, digest, encodedState = null } = Checkpoint.fromJSON(JSON.parse(JSON.stringify(given) ?? 'null'));
    const row = { id: header.id, sessionId: header.sessionId, digest, body: JSON.stringify(header), isDeleted: false };
    if ((await super.readCheckpoint(header.id)) !== undefined) return row;
    const { root, chunks } = this.#codec.encode(this.#codec.decodeJson(encodedState));
    if (root.digest !== header.stateDigest) {
      throw new CorruptError(
        `The storage returned checkpoint ${header.id} with another state than was saved. Store the text of JSON.stringify(checkpoint) as it is: the order of keys counts.`,
        { details: { id: header.id } },
      );
    }
    await super.commit({
      sessionId: header.sessionId,
      checkpoint: { header, body: row.body, digest, root },
      chunks,
    });
    return row;
  }

  override async readCheckpoint(id: CheckpointId): Promise<CheckpointRowWithRoot | undefined> {
    await this.#fetch(id);
    return super.readCheckpoint(id);
  }

  override async listCheckpoints(query: CheckpointQuery): Promise<CheckpointRow[]> {
    await this.#findSession(query.sessionId);
    const { userId, limit, offset = 0, order = 'newest', after: _, include: __, ...rest } = query;
    if (userId === undefined || Object.keys(rest).length > 0 || order !== 'newest' || query.after !== undefined) {
      return super.listCheckpoints(query);
    }
    const checkpoints: unknown = await this.#inner.listByUser(userId, limit, offset);
    if (!Array.isArray(checkpoints))
      throw new StorageError(
        `listByUser of the storage must return an array of checkpoints; found ${typeof checkpoints}.`,
        {
          details: { method: 'listByUser', userId },
        },
      );
    return Promise.all(checkpoints.map((checkpoint: Checkpoint) => this.#take(checkpoint)));
  }

  override async readRefs(filter?: { sessionId?: string; kind?: RefKind; name?: string }): Promise<Ref[]> {
    await this.#findSession(filter?.sessionId);
    return super.readRefs(filter);
  }

  override async deleteCheckpoints(
    deletions: readonly Deletion[],
    options?: { force?: boolean },
  ): Promise<CheckpointId[]> {
    if (this.#inner.delete === undefined) throw unsupported('delete checkpoints; give it a delete method');
    const deleted = await super.deleteCheckpoints(deletions, options);
    for (const id of deleted) await this.#inner.delete(id);
    return deleted;
  }

  override async deleteSession(sessionId: SessionId, options: { ifRefs?: readonly Ref[] } = {}): Promise<boolean> {
    if (this.#inner.delete === undefined) throw unsupported('delete sessions; give it a delete method');
    await this.#findSession(sessionId);
    const rows = await super.listCheckpoints({ sessionId, limit: Number.MAX_SAFE_INTEGER });
    const isDeleted = await super.deleteSession(sessionId, options);
    if (isDeleted) for (const { id } of rows) await this.#inner.delete(id);
    return isDeleted;
  }

  override async close(): Promise<void> {
    await this.#underWay.settled();
    await super.close();
    await this.#inner.close?.();
  }
}

function unsupported(what: string): UnsupportedError {
  return new UnsupportedError(
    `A storage of whole checkpoints (save, load, listByUser) cannot ${what}. Use one of the built-in storages.`,
  );
}
