import { resolve } from 'node:path';
import {
  ClosedError,
  CorruptError,
  InvalidInputError,
  messageOf,
  SavestateError,
  StorageError,
} from '../../core/errors.ts';
import { checkOptions, checkValue, filledString, type OptionChecks, record, wholeFrom } from '../../core/options.ts';
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
import { compareText, listRows, selectEffects, selectRefs, withoutHeader } from '../query.ts';
import { readReachableByLevel } from '../reachable.ts';
import { areSameRefs, selectDue } from '../ref.ts';
import { KeyedQueue } from './bounded.ts';
import { collectChunks } from './collect.ts';
import { commitDurably, deleteDurably } from './commit.ts';
import { type FileSystem, hasFileCode } from './file-system.ts';
import { IntegrityCheck } from './integrity.ts';
import { nodeFileSystem } from './node-file-system.ts';
import type { SessionLog } from './session-log.ts';
import { measureStore } from './stats.ts';
import { openStore, type Store } from './store.ts';

// More sessions at once only queue up inside the disk.
const PARALLEL_COMMITS = 8;
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
export class FileCheckpointStorage implements ChunkStorage {
  readonly kind = 'file';
  readonly limits = {};
  readonly #path: string;
  readonly #fileSystem: FileSystem;
  readonly #lockTimeoutMs: number;
  readonly #queue = new KeyedQueue(PARALLEL_COMMITS);
  readonly #active = new Set<Promise<unknown>>();
  #store: Promise<Store> | undefined;
  #isClosed = false;

  constructor(options: FileStorageOptions) {
    checkOptions(options, OPTIONS, 'FileCheckpointStorage');
    checkValue(options.path, OPTIONS.path, 'The path of a FileCheckpointStorage');
    const { path, fileSystem = nodeFileSystem(), lockTimeoutMs = LOCK_TIMEOUT_MS } = options;
    this.#path = resolve(path);
    this.#fileSystem = fileSystem;
    this.#lockTimeoutMs = lockTimeoutMs;
  }

  commit(commit: Commit): Promise<CommitResult> {
    return this.#run('save', (store) =>
      this.#queue.run(commit.sessionId, () => store.markers.shared(() => commitDurably(store, commit))),
    );
  }

  readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    return this.#run('read chunks', ({ chunks }) => chunks.read(digests));
  }

  async readReachable(digests: readonly Digest[]): Promise<Chunk[]> {
    return readReachableByLevel((wanted) => this.readChunks(wanted), digests);
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

  /** Without a session: leaves out damaged ones, whose lost entry may have moved any of their refs. With one: it must be whole. */
  readRefs(filter: { sessionId?: string; kind?: RefKind; name?: string } = {}): Promise<Ref[]> {
    return this.#run('read refs', async (store) => {
      const logs = (await readLogs(store, filter.sessionId)).filter((log) => log.damage === undefined);
      const sessions = logs.map((log) => [...log.refs.values()]);
      return (await selectRefs(sessions, filter)).map((ref) => ({ ...ref }));
    });
  }

  async readDue(page: { before: string; limit: number }): Promise<Ref[]> {
    return selectDue(await this.readRefs({ kind: 'due' }), page);
  }

  readEffects(filter: { sessionId: string; branch?: string; fromOrdinal?: number }): Promise<EffectRow[]> {
    return this.#run('read effects', async (store) => {
      const rows = (await readLogs(store, filter.sessionId)).flatMap((log) => [...log.effects.values()]);
      return selectEffects(rows, filter).map((row) => structuredClone(row));
    });
  }

  listSessions({ after, limit }: { after?: string; limit: number }): Promise<SessionId[]> {
    return this.#run('list sessions', async ({ sessions }) =>
      (await sessions.ids()).filter((id) => after === undefined || id > after).slice(0, limit),
    );
  }

  deleteCheckpoints(deletions: readonly Deletion[], options: { force?: boolean } = {}): Promise<CheckpointId[]> {
    return this.#run('delete checkpoints', (store) => deleteDurably(store, deletions, options.force === true));
  }

  deleteSession(sessionId: SessionId, { ifRefs }: { ifRefs?: readonly Ref[] } = {}): Promise<boolean> {
    return this.#run('delete a session', ({ markers, sessions }) =>
      markers.exclusive(async () => {
        const found = ifRefs === undefined ? undefined : (await sessions.get(sessionId))?.refs.values();
        const isAsExpected = ifRefs === undefined || areSameRefs([...(found ?? [])], ifRefs);
        return isAsExpected && sessions.remove(sessionId);
      }),
    );
  }

  /** Refuses with a CorruptError while an entry or chunk is damaged: what that needs is unknown. Run verify, restore or delete it. */
  collect(options: { signal?: AbortSignal } = {}): Promise<CollectResult> {
    return this.#run('collect chunks', (store) => collectChunks(store, options.signal));
  }

  listChunks(page: { after?: Digest; limit: number }): Promise<Digest[]> {
    return this.#run('list chunks', ({ chunks }) => chunks.list(page));
  }

  /** Also checks a store that is too damaged to open. */
  checkIntegrity(): Promise<string[]> {
    return this.#track('check the store', async () => {
      const store = await this.#open().catch((error: unknown) => {
        if (error instanceof SavestateError) return undefined;
        throw error;
      });
      const check = new IntegrityCheck(this.#fileSystem, (work) => store?.markers.shared(work) ?? work());
      return check.run(store?.root ?? this.#path);
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
    return this.#track(what, async () => work(await this.#open()));
  }

  async #track<T>(what: string, work: () => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new ClosedError(`The file storage in ${this.#path} was closed, so it cannot ${what}.`);
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
    this.#store ??= openStore({
      path: this.#path,
      fileSystem: this.#fileSystem,
      lockTimeoutMs: this.#lockTimeoutMs,
    }).catch((error: unknown) => {
      this.#store = undefined;
      throw error;
    });
    return this.#store;
  }

  #wrap(what: string, error: unknown): unknown {
    if (error instanceof SavestateError || isAbort(error)) return error;
    if (hasFileCode(error, 'ENOTDIR')) return new InvalidInputError(`${this.#path} is not a folder.`, { cause: error });
    const reason = messageOf(error);
    return new StorageError(`The file storage in ${this.#path} could not ${what}: ${reason}.`, {
      details: { path: this.#path },
      cause: error,
    });
  }
}

/** One session's log, which must be whole; or, asked for all, those that can be read: damage stays in its own session. */
async function readLogs({ sessions }: Store, sessionId: string | undefined): Promise<readonly SessionLog[]> {
  if (sessionId === undefined) return (await sessions.survey()).logs;
  const log = await sessions.get(sessionId);
  log?.checkWhole();
  return log === undefined ? [] : [log];
}

const isAbort = (error: unknown): boolean => error instanceof Error && error.name === 'AbortError';
