import { ClosedError } from '../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Chunk, Digest } from '../../core/tree/chunk.ts';
import type {
  CheckpointQuery,
  CheckpointRow,
  CheckpointRowWithRoot,
  CheckpointWatcher,
  ChunkStorage,
  CollectResult,
  Commit,
  CommitResult,
  Deletion,
  EffectRow,
  Ref,
  RefKind,
  StorageStats,
  StorageWatch,
} from '../contract.ts';
import { CommitLanes } from './commit/commit-lanes.ts';
import { PostgresConnection } from './database/postgres-connection.ts';
import { checkPostgresOptions, type PostgresStorageOptions } from './database/postgres-options.ts';
import { PostgresCollector } from './postgres-collector.ts';
import { deleteCheckpoints, deleteSession } from './postgres-deleter.ts';
import { findDamage } from './postgres-integrity.ts';
import { listCheckpoints } from './postgres-listing.ts';
import { PostgresReader } from './postgres-reader.ts';
import { PostgresWatch } from './postgres-watch.ts';

const COUNTS = `SELECT
  (SELECT count(*) FROM {s}.checkpoint WHERE tenant = $1 AND NOT deleted)::double precision AS checkpoints,
  (SELECT count(*) FROM {s}.checkpoint WHERE tenant = $1 AND deleted)::double precision AS tombstones,
  (SELECT count(*) FROM {s}.chunk WHERE tenant = $1)::double precision AS chunks,
  (SELECT count(*) FROM {s}.session WHERE tenant = $1)::double precision AS sessions,
  (SELECT coalesce(sum(pg_column_size(c.*)), 0) FROM {s}.chunk c WHERE tenant = $1)::double precision
    + (SELECT coalesce(sum(pg_column_size(c.*)), 0) FROM {s}.checkpoint c WHERE tenant = $1)::double precision
    + (SELECT coalesce(sum(pg_column_size(e.*)), 0) FROM {s}.effect e WHERE tenant = $1)::double precision
    + (SELECT coalesce(sum(pg_column_size(r.*)), 0) FROM {s}.ref r WHERE tenant = $1)::double precision AS bytes`;

/**
 * Keeps checkpoints in PostgreSQL, for any number of processes and tenants. Connects, and makes its tables, at the first use;
 * while the server cannot be reached, calls wait and are tried again.
 */
export class PostgresCheckpointStorage implements ChunkStorage {
  readonly kind = 'postgres';
  readonly limits: { readonly maxCheckpointsPerUser?: number };
  readonly #connection: PostgresConnection;
  readonly #lanes: CommitLanes;
  readonly #reader: PostgresReader;
  readonly #watches = new Set<PostgresWatch>();
  #closing: Promise<void> | undefined;

  constructor(options: PostgresStorageOptions) {
    checkPostgresOptions(options);
    const { maxCheckpointsPerUser } = options;
    this.limits = maxCheckpointsPerUser === undefined ? {} : { maxCheckpointsPerUser };
    this.#connection = new PostgresConnection(options);
    this.#lanes = new CommitLanes(this.#connection, options.maxQueuedBytes);
    this.#reader = new PostgresReader(this.#connection);
  }

  /** Connects now and makes or checks the tables, so that what is wrong shows early. */
  async open(): Promise<this> {
    this.#checkOpen();
    await this.#reader.sessions({ limit: 1 });
    return this;
  }

  async commit(commit: Commit): Promise<CommitResult> {
    this.#checkOpen();
    return this.#lanes.add(commit);
  }

  async readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    this.#checkOpen();
    return this.#reader.chunks(digests);
  }

  async readReachable(digests: readonly Digest[]): Promise<Chunk[]> {
    this.#checkOpen();
    return this.#reader.reachable(digests);
  }

  async readCheckpoint(id: CheckpointId): Promise<CheckpointRowWithRoot | undefined> {
    this.#checkOpen();
    return this.#reader.checkpoint(id);
  }

  async listCheckpoints(query: CheckpointQuery): Promise<CheckpointRow[]> {
    this.#checkOpen();
    return listCheckpoints(this.#connection, query);
  }

  async readRefs(filter: { sessionId?: string; kind?: RefKind; name?: string } = {}): Promise<Ref[]> {
    this.#checkOpen();
    return this.#reader.refs(filter);
  }

  async readDue(page: { before: string; limit: number }): Promise<Ref[]> {
    this.#checkOpen();
    return this.#reader.due(page);
  }

  async readEffects(filter: { sessionId: string; branch?: string; fromOrdinal?: number }): Promise<EffectRow[]> {
    this.#checkOpen();
    return this.#reader.effects(filter);
  }

  async listSessions(page: { after?: string; limit: number }): Promise<SessionId[]> {
    this.#checkOpen();
    return this.#reader.sessions(page);
  }

  async deleteCheckpoints(deletions: readonly Deletion[], options: { force?: boolean } = {}): Promise<CheckpointId[]> {
    this.#checkOpen();
    return deleteCheckpoints(this.#connection, deletions, { force: options.force === true });
  }

  async deleteSession(sessionId: SessionId, options: { ifRefs?: readonly Ref[] } = {}): Promise<boolean> {
    this.#checkOpen();
    return deleteSession(this.#connection, sessionId, options.ifRefs);
  }

  async collect(options: { signal?: AbortSignal } = {}): Promise<CollectResult> {
    this.#checkOpen();
    return new PostgresCollector(this.#connection, options.signal).run();
  }

  async listChunks(page: { after?: Digest; limit: number }): Promise<Digest[]> {
    this.#checkOpen();
    return this.#reader.chunkDigests(page);
  }

  async checkIntegrity(): Promise<string[]> {
    this.#checkOpen();
    return findDamage(this.#connection);
  }

  /** Sizes are those of the tenant's rows, without indexes and without space that the server keeps for reuse. */
  async stats(): Promise<StorageStats> {
    this.#checkOpen();
    const [row] = await this.#connection.read<StorageStats>(COUNTS, [this.#connection.tenant]);
    return row as StorageStats;
  }

  /** The server's clock. */
  async now(): Promise<number> {
    this.#checkOpen();
    const sql = 'SELECT extract(epoch FROM clock_timestamp())::double precision * 1000 AS now';
    const [row] = await this.#connection.read<{ now: number }>(sql);
    return Math.round(row?.now ?? Number.NaN);
  }

  async watch(watcher: CheckpointWatcher): Promise<StorageWatch> {
    this.#checkOpen();
    const watch = new PostgresWatch(this.#connection, watcher);
    await watch.start();
    this.#watches.add(watch);
    return watch;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#watches].map((watch) => watch.close()));
    await this.#lanes.drain();
    await this.#connection.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw new ClosedError(`The storage on ${this.#connection.place} was closed.`);
  }
}
