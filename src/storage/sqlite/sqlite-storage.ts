import { type Defined, withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import { checkOptions, checkValue, flag, type OptionChecks, wholeFrom } from '../../core/options.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type {
  ChunkStorage,
  CollectResult,
  Commit,
  CommitResult,
  Deletion,
  EffectDrop,
  Ref,
  StorageStats,
  TombstoneFold,
} from '../contract.ts';
import { SQLITE_CHECKS, SqliteConnection, type SqliteOptions } from '../database/sqlite-connection.ts';
import { ChunkNumbers } from './chunk-numbers.ts';
import { CommitQueue } from './commit-queue.ts';
import { prepareCommit } from './prepared-commit.ts';
import { encodeCompressed, encodePlain, type TextEncoder } from './sqlite-codec.ts';
import { deleteCheckpoints, deleteSession, dropEffects, foldTombstones } from './sqlite-deleter.ts';
import { SqliteReader } from './sqlite-reader.ts';
import { checkpointTables } from './sqlite-schema.ts';

const PAGE_BYTES = 4096;
/** Larger pages hold compressed rows with less room to spare; they cost a little time, which compressing does anyway. */
const COMPRESSED_PAGE_BYTES = 8192;

type Limits = { readonly maxCheckpointsPerUser?: number | undefined };

/** How a SqliteCheckpointStorage is opened. */
type SqliteStorageOptions = SqliteOptions &
  Limits & {
    /** The database file; it is created if it does not exist, its folder is not. */
    readonly path: string;
    /** Deflates what is written from now on. What is stored already is read either way. */
    readonly compress?: boolean | undefined;
  };

const OPTIONS = {
  ...SQLITE_CHECKS,
  maxCheckpointsPerUser: wholeFrom(1),
  compress: flag,
} satisfies OptionChecks<SqliteStorageOptions>;

/** Keeps checkpoints in one SQLite file, which several processes may use at once. Opens it at once, or throws. */
export class SqliteCheckpointStorage extends SqliteReader implements ChunkStorage {
  readonly kind = 'sqlite';
  readonly limits: Defined<Limits>;
  readonly #numbers: ChunkNumbers;
  readonly #queue: CommitQueue;
  readonly #encodeText: TextEncoder;

  constructor(options: SqliteStorageOptions) {
    checkOptions(options, OPTIONS, 'SqliteCheckpointStorage');
    const { path, maxCheckpointsPerUser, compress = false, ...settings } = options;
    checkValue(path, OPTIONS.path, 'The path of a SqliteCheckpointStorage');
    if (path === ':memory:')
      throw new InvalidInputError(
        'SqliteCheckpointStorage keeps checkpoints in a file; for a storage in memory use InMemoryCheckpointStorage.',
      );
    const tables = checkpointTables(compress ? COMPRESSED_PAGE_BYTES : PAGE_BYTES);
    const connection = new SqliteConnection(path, tables, settings);
    const numbers = new ChunkNumbers(connection);
    super(connection, numbers);
    this.limits = withoutUndefined({ maxCheckpointsPerUser });
    this.#encodeText = compress ? encodeCompressed : encodePlain;
    this.#numbers = numbers;
    this.#queue = new CommitQueue(connection, numbers);
  }

  commit(commit: Commit): Promise<CommitResult> {
    return this.#queue.add(() => {
      this.checkOpen();
      return prepareCommit(commit, this.#encodeText);
    });
  }

  async deleteCheckpoints(deletions: readonly Deletion[], options: { force?: boolean } = {}): Promise<CheckpointId[]> {
    const { connection } = this;
    const settings = { force: options.force === true, encodeText: this.#encodeText };
    return connection.write(() => deleteCheckpoints(connection, deletions, settings));
  }

  async foldTombstones(folds: readonly TombstoneFold[]): Promise<CheckpointId[]> {
    const { connection } = this;
    return connection.write(() => foldTombstones(connection, folds, this.#encodeText));
  }

  async dropEffects(drop: EffectDrop): Promise<number> {
    const { connection } = this;
    return connection.write(() => dropEffects(connection, drop));
  }

  async deleteSession(sessionId: SessionId, options: { ifRefs?: readonly Ref[] } = {}): Promise<boolean> {
    const { connection } = this;
    return connection.write(() => deleteSession(connection, sessionId, options.ifRefs));
  }

  async collect(options: { signal?: AbortSignal } = {}): Promise<CollectResult> {
    const { SqliteCollector } = await import('./sqlite-collector.ts');
    return new SqliteCollector(this.connection, this.#numbers).run(options.signal);
  }

  async checkIntegrity(): Promise<string[]> {
    const { findDamage } = await import('./sqlite-integrity.ts'); // loads what nothing else needs
    return findDamage(this.connection, this.#numbers);
  }

  async stats(): Promise<StorageStats> {
    const sql =
      'SELECT (SELECT count(*) FROM checkpoint WHERE deleted=0) AS checkpoints, (SELECT count(*) FROM checkpoint WHERE deleted<>0) AS tombstones, (SELECT count(*) FROM chunk) AS chunks, (SELECT count(*) FROM session) AS sessions, (SELECT page_count * page_size FROM pragma_page_count, pragma_page_size) AS bytes';
    const { connection } = this;
    // A row has no prototype; what is returned is a plain object.
    return connection.read(() => ({ ...(connection.prepare(sql).get() as StorageStats) }));
  }

  /** @internal */
  protected override finish(): Promise<void> {
    return this.#queue.drain();
  }
}
