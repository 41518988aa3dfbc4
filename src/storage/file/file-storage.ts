import { resolve } from 'node:path';
import { ClosedError, CorruptError, InvalidInputError, SavestateError } from '../../core/errors.ts';
import { checkOptions, checkValue, filledString, type OptionChecks, record, wholeFrom } from '../../core/options.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { KeyedQueue, mapBounded } from '../../core/time/bounded.ts';
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
  Page,
  Ref,
  StorageStats,
} from '../contract.ts';
import { type HeldSession, HeldStorage } from '../held-session.ts';
import { compareText, listRows, pageOf, withoutHeader } from '../query.ts';
import { areSameRefs } from '../ref.ts';
import { collectChunks } from './collect.ts';
import { commitDurably, deleteDurably } from './commit.ts';
import { diskError, folderGone } from './file-error.ts';
import { type FileSystem, hasFileCode } from './file-system.ts';
import { IntegrityCheck } from './integrity.ts';
import { nodeFileSystem } from './node-file-system.ts';
import type { SessionLog } from './session-log.ts';
import { checkIsStore, openStore, type Store, type StoreOptions } from './store.ts';

// More sessions at once only queue up inside the disk.
const PARALLEL_COMMITS = 8;
const PARALLEL_READS = 16;
// Batches of the collector take milliseconds; who holds a marker this long hangs.
const LOCK_TIMEOUT_MS = 30_000;

/** Where a file storage keeps its files. */
type FileStorageOptions = {
  /** The folder of the store; made if it is missing. */
  readonly path: string;
  /** Another disk than this machine's, for tests. */
  readonly fileSystem?: FileSystem | undefined;
  /** How long to wait for another process that deletes or collects, or saves; then a StorageError names it. */
  readonly lockTimeoutMs?: number | undefined;
};

const OPTIONS = {
  path: filledString,
  fileSystem: record,
  lockTimeoutMs: wholeFrom(0),
} satisfies OptionChecks<FileStorageOptions>;

/**
 * Keeps checkpoints as plain files that people and `sha256sum` can read: chunks by digest, and a numbered log for each session.
 * Every commit survives a power loss, the `relaxed` ones too. Several processes of one host may share a store.
 */
export class FileCheckpointStorage extends HeldStorage implements ChunkStorage {
  readonly kind = 'file';
  readonly limits = {};
  readonly #options: StoreOptions;
  readonly #queue = new KeyedQueue(PARALLEL_COMMITS);
  readonly #active = new Set<Promise<unknown>>();
  #store: Promise<Store> | undefined;
  #isClosed = false;

  constructor(options: FileStorageOptions) {
    super();
    checkOptions(options, OPTIONS, 'FileCheckpointStorage');
    checkValue(options.path, OPTIONS.path, 'The path of a FileCheckpointStorage');
    const { path, fileSystem = nodeFileSystem(), lockTimeoutMs = LOCK_TIMEOUT_MS } = options;
    this.#options = { path: resolve(path), fileSystem, lockTimeoutMs };
  }

  commit(commit: Commit): Promise<CommitResult> {
    return this.#run('save', (store) =>
      this.#queue.run(commit.sessionId, () => store.markers.shared(() => commitDurably(store, commit))),
    );
  }

  readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    return this.#run('read chunks', ({ chunks }) => chunks.read(digests));
  }

  readCheckpoint(id: CheckpointId): Promise<CheckpointRowWithRoot | undefined> {
    return this.#run('read a checkpoint', async ({ sessions }) => {
      // A live row without a root was deleted between the two reads; looking again finds the tombstone.
      for (let round = 0; round < 2; round++) {
        const found = await sessions.find(id);
        if (found === undefined || found.row.isDeleted) return found && withoutHeader(found.row);
        const root = (await sessions.readEntry(found.log, found.row.number))?.checkpoint?.root;
        if (root !== undefined) return { ...withoutHeader(found.row), root };
      }
      throw new CorruptError(`The log entry of checkpoint ${id} is missing or has another content.`, {
        details: { id },
      });
    });
  }

  /** Without a session: every row whose own entry is sound. With one: it must be whole. */
  listCheckpoints(query: CheckpointQuery): Promise<CheckpointRow[]> {
    return this.#run('list checkpoints', async (store) => {
      const [first, ...others] = (await readLogs(store, query.sessionId)).map((log) => log.sortedRows());
      const rows =
        others.length === 0 ? (first ?? []) : [first ?? [], ...others].flat().sort((a, b) => compareText(a.id, b.id));
      return listRows(rows, query);
    });
  }

  /** Without a session: leaves out damaged ones, whose lost entry may have moved any of their refs. @internal */
  protected override wholeSessions(sessionId?: string): Promise<readonly HeldSession[]> {
    return this.#run('read sessions', async (store) =>
      (await readLogs(store, sessionId)).filter(({ damages }) => damages.length === 0),
    );
  }

  listSessions(page: Page<string>): Promise<SessionId[]> {
    return this.#run('list sessions', async ({ sessions }) => pageOf(await sessions.ids(), page));
  }

  deleteCheckpoints(deletions: readonly Deletion[], options: { force?: boolean } = {}): Promise<CheckpointId[]> {
    return this.#run('delete checkpoints', (store) => deleteDurably(store, deletions, options.force === true));
  }

  deleteSession(sessionId: SessionId, { ifRefs }: { ifRefs?: readonly Ref[] } = {}): Promise<boolean> {
    return this.#run('delete a session', ({ markers, sessions }) =>
      markers.exclusive(async () => {
        const isAsExpected = ifRefs === undefined || areSameRefs((await sessions.get(sessionId))?.refs ?? [], ifRefs);
        return isAsExpected && sessions.remove(sessionId);
      }),
    );
  }

  /** Refuses with a CorruptError while an entry or chunk is damaged: what that needs is unknown. Run verify, restore or delete it. */
  collect(options: { signal?: AbortSignal } = {}): Promise<CollectResult> {
    return this.#run('collect chunks', (store) => collectChunks(store, options.signal));
  }

  listChunks(page: Page<Digest>): Promise<Digest[]> {
    return this.#run('list chunks', ({ chunks }) => chunks.list(page));
  }

  /** Also checks a store that is too damaged to open. */
  checkIntegrity(): Promise<string[]> {
    return this.#track('check the store', async () => {
      const store = await this.#open().catch((error: unknown) => {
        if (error instanceof SavestateError) return undefined;
        throw error;
      });
      const root = store?.root ?? this.#options.path;
      return new IntegrityCheck(this.#options.fileSystem, root, (work) => store?.markers.looking(work) ?? work()).run();
    });
  }

  stats(): Promise<StorageStats> {
    return this.#run('measure the store', measureStore);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled(this.#active);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #run<T>(what: string, work: (store: Store) => Promise<T>): Promise<T> {
    return this.#track(what, async () => {
      const store = await this.#open();
      const result = await work(store);
      // A folder that is gone holds nothing, either.
      if (result === undefined || (Array.isArray(result) && result.length === 0)) await checkIsStore(store);
      return result;
    });
  }

  async #track<T>(what: string, work: () => Promise<T>): Promise<T> {
    if (this.#isClosed)
      throw new ClosedError(`The file storage in ${this.#options.path} was closed, so it cannot ${what}.`);
    const result = work().catch((error: unknown) => {
      throw this.#wrap(what, error);
    });
    this.#active.add(result);
    try {
      return await result;
    } finally {
      this.#active.delete(result);
    }
  }

  /** Opens the store once; a failed attempt is not remembered, so that a full disk may be emptied and tried again. */
  #open(): Promise<Store> {
    this.#store ??= openStore(this.#options).catch((error: unknown) => {
      this.#store = undefined;
      throw error;
    });
    return this.#store;
  }

  #wrap(what: string, error: unknown): unknown {
    if (error instanceof SavestateError || isAbort(error)) return error;
    if (hasFileCode(error, 'ENOTDIR'))
      return new InvalidInputError(`${this.#options.path} is not a folder.`, { cause: error });
    if (this.#store !== undefined && hasFileCode(error, 'ENOENT')) return folderGone(this.#options.path, error);
    return diskError(error, { path: this.#options.path, what });
  }
}

/** One session's log, which must be whole; or, asked for all, those that can be read: damage stays in its own session. */
async function readLogs({ sessions }: Store, sessionId: string | undefined): Promise<readonly SessionLog[]> {
  if (sessionId === undefined) return (await sessions.survey()).logs;
  const log = await sessions.get(sessionId);
  log?.checkWhole();
  return log === undefined ? [] : [log];
}

/** Counts what can be read of a store and sums up the sizes of its files. */
async function measureStore({ sessions, chunks, fileSystem }: Store): Promise<StorageStats> {
  const { logs } = await sessions.survey();
  const rows = logs.flatMap((log) => [...log.rows.values()]);
  const tombstones = rows.filter((row) => row.isDeleted).length;
  const total = { chunks: 0, bytes: 0 };
  for await (const digests of chunks.listAll()) {
    const found = await chunks.measure(digests);
    total.chunks += found.chunks;
    total.bytes += found.bytes;
  }
  for (const { folder } of logs) {
    const names = ((await fileSystem.readFolder(folder)) ?? []).map(({ name }) => `${folder}/${name}`);
    const sizes = await mapBounded(names, PARALLEL_READS, (path) => fileSystem.statSize(path));
    total.bytes += sizes.reduce((sum: number, size) => sum + (size ?? 0), 0);
  }
  return { checkpoints: rows.length - tombstones, tombstones, sessions: logs.length, ...total };
}

const isAbort = (error: unknown): boolean => error instanceof Error && error.name === 'AbortError';
