import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type {
  CheckpointWatcher,
  ChunkStorage,
  CollectResult,
  Commit,
  CommitResult,
  Deletion,
  EffectDrop,
  Ref,
  StorageStats,
  StorageWatch,
  TombstoneFold,
} from '../contract.ts';
import { checkServerOptions } from '../database/server-options.ts';
import { CommitLanes } from './commit/commit-lanes.ts';
import { collectChunks } from './postgres-collector.ts';
import { deleteCheckpoints, deleteSession, dropEffects, foldTombstones } from './postgres-deleter.ts';
import { findDamage } from './postgres-integrity.ts';
import { PostgresReader } from './postgres-reader.ts';
import { countRows } from './postgres-stats.ts';
import { PostgresWatch } from './postgres-watch.ts';
import { POSTGRES_CHECKS, PostgresConnection, type PostgresStorageOptions } from './schema/postgres-connection.ts';

/**
 * Keeps checkpoints in PostgreSQL, for any number of processes and tenants. Connects, and makes its tables, at the first use;
 * while the server cannot be reached, calls wait and are tried again.
 */
export class PostgresCheckpointStorage extends PostgresReader implements ChunkStorage {
  readonly kind = 'postgres';
  readonly limits: { readonly maxCheckpointsPerUser?: number };
  readonly #lanes: CommitLanes;
  readonly #watches = new Set<PostgresWatch>();

  constructor(options: PostgresStorageOptions) {
    checkServerOptions(options, POSTGRES_CHECKS, 'PostgresCheckpointStorage');
    const connection = new PostgresConnection(options);
    super(connection);
    const { maxCheckpointsPerUser } = options;
    this.limits = maxCheckpointsPerUser === undefined ? {} : { maxCheckpointsPerUser };
    this.#lanes = new CommitLanes(connection, options.maxQueuedBytes);
  }

  /** Connects now and makes or checks the tables, so that what is wrong shows early. */
  async open(): Promise<this> {
    await this.listSessions({ limit: 1 });
    return this;
  }

  async commit(commit: Commit): Promise<CommitResult> {
    this.checkOpen();
    return this.#lanes.add(commit);
  }

  async deleteCheckpoints(deletions: readonly Deletion[], options: { force?: boolean } = {}): Promise<CheckpointId[]> {
    return deleteCheckpoints(this.connection, deletions, options.force === true);
  }

  async foldTombstones(folds: readonly TombstoneFold[]): Promise<CheckpointId[]> {
    return foldTombstones(this.connection, folds);
  }

  async dropEffects(drop: EffectDrop): Promise<number> {
    return dropEffects(this.connection, drop);
  }

  async deleteSession(sessionId: SessionId, options: { ifRefs?: readonly Ref[] } = {}): Promise<boolean> {
    return deleteSession(this.connection, sessionId, options.ifRefs);
  }

  async collect(options: { signal?: AbortSignal } = {}): Promise<CollectResult> {
    return collectChunks(this.connection, options.signal);
  }

  async checkIntegrity(): Promise<string[]> {
    return findDamage(this.connection);
  }

  /** Sizes are those of the tenant's rows, without indexes and without space that the server keeps for reuse. */
  async stats(): Promise<StorageStats> {
    return countRows(this.connection);
  }

  /** The server's clock. */
  async now(): Promise<number> {
    const sql = 'SELECT extract(epoch FROM clock_timestamp())::double precision * 1000 AS now';
    const [row] = await this.connection.read<{ now: number }>(sql);
    return Math.round(row?.now ?? Number.NaN);
  }

  async watch(watcher: CheckpointWatcher): Promise<StorageWatch> {
    const watch = new PostgresWatch(this.connection, watcher);
    await watch.start();
    this.#watches.add(watch);
    return watch;
  }

  /** @internal */
  protected override async finish(): Promise<void> {
    await Promise.all([...this.#watches].map((watch) => watch.close()));
    await this.#lanes.drain();
  }
}
