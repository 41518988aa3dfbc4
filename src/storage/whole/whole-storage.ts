import { findIn, type StateCodec } from '../../core/codec/state-codec.ts';
import { CorruptError, StorageError, UnsupportedError } from '../../core/errors.ts';
import { describeValue } from '../../core/options.ts';
import { Checkpoint } from '../../core/record/checkpoint.ts';
import { type CheckpointId, parseSessionId, type SessionId } from '../../core/record/id.ts';
import type { Chunk, ChunkContent, Digest } from '../../core/tree/chunk.ts';
import type { JsonValue } from '../../core/value/json.ts';
import type {
  CheckpointQuery,
  CheckpointRow,
  CheckpointRowWithRoot,
  ChunkStorage,
  CollectResult,
  Commit,
  CommitResult,
  Deletion,
  EffectRow,
  Ref,
  RefKind,
  StorageStats,
} from '../contract.ts';
import { InMemoryCheckpointStorage } from '../memory/memory-storage.ts';
import type { CheckpointStorage } from './checkpoint-storage.ts';

/** How many checkpoints are read of a session at once. */
const PAGE = 200;

/**
 * Lets a manager work on a storage that only knows whole checkpoints. What the inner storage cannot hold (names, effects, chunks) is
 * kept in this process; checkpoints themselves are durable as soon as the inner storage says so.
 */
export class WholeCheckpointStorage implements ChunkStorage {
  readonly kind = 'whole-checkpoint';
  readonly limits = {};
  readonly #inner: CheckpointStorage;
  readonly #memory = new InMemoryCheckpointStorage();
  readonly #codec: StateCodec;
  readonly #underWay = new Set<Promise<CommitResult>>();
  /** Sessions that were looked for in the inner storage. */
  readonly #sessions = new Map<string, Promise<void>>();

  /** The codec is the manager's: it knows the classes that may occur in states. */
  constructor(inner: CheckpointStorage, codec: StateCodec) {
    this.#inner = inner;
    this.#codec = codec;
  }

  commit(commit: Commit): Promise<CommitResult> {
    const storing = this.#commit(commit).finally(() => this.#underWay.delete(storing));
    this.#underWay.add(storing);
    return storing;
  }

  async #commit(commit: Commit): Promise<CommitResult> {
    if (commit.effects !== undefined && commit.effects.length > 0) throw unsupported('record effects (steps)');
    await this.#findSession(commit.sessionId);
    for (const id of commit.requires ?? []) await this.#fetch(id);
    const result = await this.#memory.commit(commit);
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
      await this.#memory.commit({ sessionId: commit.sessionId, refs: undo });
      await this.#memory.deleteCheckpoints([{ id: header.id, body: JSON.stringify(header) }], { force: true });
      throw error;
    }
  }

  async #toJson(root: ChunkContent): Promise<JsonValue> {
    const chunks = new Map((await this.#memory.readReachable(root.refs)).map((chunk) => [chunk.digest, chunk]));
    return this.#codec.encodeJson(this.#codec.decode(root, findIn(chunks)));
  }

  /** Throws if nobody can tell whether a session exists: it would begin anew beside its own checkpoints. */
  async checkSession(sessionId: SessionId): Promise<void> {
    if (this.#inner.listBySession !== undefined) return;
    if ((await this.#memory.readRefs({ sessionId })).length > 0) return;
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
    if (refs.length > 0) await this.#memory.commit({ sessionId: parseSessionId(sessionId), refs });
  }

  /** Brings a checkpoint of the inner storage into this process, checked. */
  async #fetch(id: CheckpointId): Promise<void> {
    if ((await this.#memory.readCheckpoint(id)) !== undefined) return;
    const checkpoint = await this.#inner.load(id);
    if (checkpoint !== null && checkpoint !== undefined) await this.#take(checkpoint);
  }

  async #take(given: Checkpoint): Promise<CheckpointRow> {
    const { header, digest, encodedState = null } = Checkpoint.fromJSON(JSON.parse(JSON.stringify(given) ?? 'null'));
    const row = { id: header.id, sessionId: header.sessionId, digest, body: JSON.stringify(header), isDeleted: false };
    if ((await this.#memory.readCheckpoint(header.id)) !== undefined) return row;
    const { root, chunks } = this.#codec.encode(this.#codec.decodeJson(encodedState));
    if (root.digest !== header.stateDigest) {
      throw new CorruptError(
        `The storage returned checkpoint ${header.id} with another state than was saved. Store the text of JSON.stringify(checkpoint) as it is: the order of keys counts.`,
        { details: { id: header.id } },
      );
    }
    await this.#memory.commit({
      sessionId: header.sessionId,
      checkpoint: { header, body: row.body, digest, root },
      chunks,
    });
    return row;
  }

  async readChunks(digests: readonly Digest[]) {
    return this.#memory.readChunks(digests);
  }

  async readReachable(digests: readonly Digest[]): Promise<Chunk[]> {
    return this.#memory.readReachable(digests);
  }

  async readCheckpoint(id: CheckpointId): Promise<CheckpointRowWithRoot | undefined> {
    await this.#fetch(id);
    return this.#memory.readCheckpoint(id);
  }

  async listCheckpoints(query: CheckpointQuery): Promise<CheckpointRow[]> {
    await this.#findSession(query.sessionId);
    const { userId, limit, offset = 0, order = 'newest', after: _, include: __, ...rest } = query;
    if (userId === undefined || Object.keys(rest).length > 0 || order !== 'newest' || query.after !== undefined) {
      return this.#memory.listCheckpoints(query);
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

  async readRefs(filter?: { sessionId?: string; kind?: RefKind; name?: string }): Promise<Ref[]> {
    await this.#findSession(filter?.sessionId);
    return this.#memory.readRefs(filter);
  }

  async readDue(page: { before: string; limit: number }): Promise<Ref[]> {
    return this.#memory.readDue(page);
  }

  async readEffects(filter: { sessionId: string; branch?: string; fromOrdinal?: number }): Promise<EffectRow[]> {
    return this.#memory.readEffects(filter);
  }

  async listSessions(page: { after?: string; limit: number }): Promise<SessionId[]> {
    return this.#memory.listSessions(page);
  }

  async deleteCheckpoints(deletions: readonly Deletion[], options?: { force?: boolean }): Promise<CheckpointId[]> {
    if (this.#inner.delete === undefined) throw unsupported('delete checkpoints; give it a delete method');
    const deleted = await this.#memory.deleteCheckpoints(deletions, options);
    for (const id of deleted) await this.#inner.delete(id);
    return deleted;
  }

  async deleteSession(sessionId: SessionId, options: { ifRefs?: readonly Ref[] } = {}): Promise<boolean> {
    if (this.#inner.delete === undefined) throw unsupported('delete sessions; give it a delete method');
    await this.#findSession(sessionId);
    const rows = await this.#memory.listCheckpoints({ sessionId, limit: Number.MAX_SAFE_INTEGER });
    const isDeleted = await this.#memory.deleteSession(sessionId, options);
    if (isDeleted) for (const { id } of rows) await this.#inner.delete(id);
    return isDeleted;
  }

  async collect(): Promise<CollectResult> {
    return this.#memory.collect();
  }

  async listChunks(page: { after?: Digest; limit: number }): Promise<Digest[]> {
    return this.#memory.listChunks(page);
  }

  async checkIntegrity(): Promise<string[]> {
    return this.#memory.checkIntegrity();
  }

  async stats(): Promise<StorageStats> {
    return this.#memory.stats();
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#underWay);
    await this.#memory.close();
    await this.#inner.close?.();
  }
}

function unsupported(what: string): UnsupportedError {
  return new UnsupportedError(
    `A storage of whole checkpoints (save, load, listByUser) cannot ${what}. Use one of the built-in storages.`,
  );
}
