import { ClosedError } from '../../core/errors.ts';
import {
  checkOptions,
  checkValue,
  filledString,
  flag,
  type OptionChecks,
  oneOf,
  wholeFrom,
} from '../../core/options.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Chunk, Digest } from '../../core/tree/chunk.ts';
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
import { selectDue } from '../ref.ts';
import { ChunkNumbers } from './chunk-numbers.ts';
import { CommitQueue } from './commit-queue.ts';
import { prepareCommit } from './prepared-commit.ts';
import { encodeCompressed, encodePlain, type TextEncoder } from './sqlite-codec.ts';
import { SqliteCollector } from './sqlite-collector.ts';
import { SqliteConnection } from './sqlite-connection.ts';
import { deleteCheckpoints, deleteSession } from './sqlite-deleter.ts';
import { findDamage } from './sqlite-integrity.ts';
import { listCheckpoints } from './sqlite-listing.ts';
import { SqliteReader } from './sqlite-reader.ts';

const DEFAULT_BUSY_TIMEOUT_MS = 10_000;

/** Larger pages hold compressed rows with less room to spare; they cost a little time, which compressing does anyway. */
const COMPRESSED_PAGE_BYTES = 8192;

/** How a SqliteCheckpointStorage is opened. */
export type SqliteStorageOptions = {
  /** The database file; it is created if it does not exist, its folder is not. */
  readonly path: string;
  readonly maxCheckpointsPerUser?: number | undefined;
  /** `power` (default): what was committed survives a power loss. `process`: it survives the end of the process. */
  readonly durability?: 'power' | 'process' | undefined;
  /** Deflates what is written from now on. What is stored already is read either way. */
  readonly compress?: boolean | undefined;
  /** How long to wait for another process that writes (10 s by default). */
  readonly busyTimeoutMs?: number | undefined;
};

const OPTIONS = {
  path: filledString,
  maxCheckpointsPerUser: wholeFrom(1),
  durability: oneOf('power', 'process'),
  compress: flag,
  busyTimeoutMs: wholeFrom(0),
} satisfies OptionChecks<SqliteStorageOptions>;

/** Keeps checkpoints in one SQLite file, which several processes may use at once. Opens it at once, or throws. */
export class SqliteCheckpointStorage implements ChunkStorage {
  readonly kind = 'sqlite';
  readonly limits: { readonly maxCheckpointsPerUser?: number };
  readonly #connection: SqliteConnection;
  readonly #numbers: ChunkNumbers;
  readonly #queue: CommitQueue;
  readonly #reader: SqliteReader;
  readonly #encodeText: TextEncoder;
  #closing: Promise<void> | undefined;

  constructor(options: SqliteStorageOptions) {
    checkOptions(options, OPTIONS, 'SqliteCheckpointStorage');
    checkValue(options.path, OPTIONS.path, 'The path of a SqliteCheckpointStorage');
    const { path, durability = 'power', busyTimeoutMs = DEFAULT_BUSY_TIMEOUT_MS, maxCheckpointsPerUser } = options;
    this.limits = maxCheckpointsPerUser === undefined ? {} : { maxCheckpointsPerUser };
    this.#encodeText = options.compress === true ? encodeCompressed : encodePlain;
    const pageBytes = options.compress === true ? COMPRESSED_PAGE_BYTES : undefined;
    this.#connection = new SqliteConnection({
      path,
      durability,
      busyTimeoutMs,
      ...(pageBytes !== undefined && { pageBytes }),
    });
    this.#numbers = new ChunkNumbers(this.#connection);
    this.#queue = new CommitQueue(this.#connection, this.#numbers);
    this.#reader = new SqliteReader(this.#connection, this.#numbers);
  }

  commit(commit: Commit): Promise<CommitResult> {
    return this.#queue.add(() => {
      this.#checkOpen();
      return prepareCommit(commit, this.#encodeText);
    });
  }

  hurry(): void {
    this.#queue.hurry();
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
    return selectDue(await this.#reader.refs({ kind: 'due' }), page);
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
    const settings = { force: options.force === true, encodeText: this.#encodeText };
    return this.#connection.write(() => deleteCheckpoints(this.#connection, deletions, settings));
  }

  async deleteSession(sessionId: SessionId, options: { ifRefs?: readonly Ref[] } = {}): Promise<boolean> {
    this.#checkOpen();
    return this.#connection.write(() => deleteSession(this.#connection, sessionId, options.ifRefs));
  }

  async collect(options: { signal?: AbortSignal } = {}): Promise<CollectResult> {
    this.#checkOpen();
    return new SqliteCollector(this.#connection, this.#numbers).run(options.signal);
  }

  async listChunks(page: { after?: Digest; limit: number }): Promise<Digest[]> {
    this.#checkOpen();
    return this.#reader.chunkDigests(page);
  }

  async checkIntegrity(): Promise<string[]> {
    this.#checkOpen();
    return findDamage(this.#connection, this.#numbers);
  }

  async stats(): Promise<StorageStats> {
    this.#checkOpen();
    const sql =
      'SELECT (SELECT count(*) FROM checkpoint WHERE deleted=0) AS checkpoints, (SELECT count(*) FROM checkpoint WHERE deleted<>0) AS tombstones, (SELECT count(*) FROM chunk) AS chunks, (SELECT count(*) FROM session) AS sessions, (SELECT page_count * page_size FROM pragma_page_count, pragma_page_size) AS bytes';
    return this.#connection.read(() => this.#connection.prepare(sql).get() as StorageStats);
  }

  close(): Promise<void> {
    this.#closing ??= this.#queue.drain().then(() => this.#connection.close());
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw new ClosedError(`The storage ${this.#connection.path} was closed.`);
  }
}
