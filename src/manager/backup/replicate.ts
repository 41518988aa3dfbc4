import { hasErrorCode } from '../../core/errors.ts';
import { groupBy } from '../../core/group-by.ts';
import { callback, checkOptions, delayFrom, flag, type OptionChecks, signal } from '../../core/options.ts';
import type { SessionId } from '../../core/record/id.ts';
import { backoff } from '../../core/time/backoff.ts';
import { type Digest, digestText } from '../../core/tree/chunk.ts';
import type { ChunkStorage, Ref, StorageWatch } from '../../storage/contract.ts';
import { type CopiedSession, StorageCopy } from '../transfer/copy-storage.ts';
import { isExportedKind } from '../transfer/export.ts';
import { type BackupReport, type StoragePlace, toReport, withStorages } from './backup.ts';

/** How a second storage is kept up to date. */
export type ReplicateOptions = {
  /** Ends it. */
  readonly signal: AbortSignal;
  /** Also deletes there what is deleted here. */
  readonly mirror?: boolean | undefined;
  /** How often to look for changes; default 1,000. A storage that can watch tells of saves at once. */
  readonly intervalMs?: number | undefined;
  /** Called after each pass that changed something, or met a problem that was not there before. */
  readonly onPass?: ((report: BackupReport) => void) | undefined;
  /** Called when a storage cannot be reached; it is tried again, in longer and longer pauses. */
  readonly onError?: ((error: unknown) => void) | undefined;
};

const OPTIONS: OptionChecks<ReplicateOptions> = {
  signal: { required: signal },
  mirror: flag,
  intervalMs: delayFrom(1),
  onPass: callback,
  onError: callback,
};

/** All sessions, or these only. */
type Replicated = ReplicateOptions & { readonly sessions?: readonly SessionId[] | undefined };

/** Deletions, and what else moves no name, are looked for so often. */
const WHOLE_EVERY_MS = 300_000;
/** Looking takes at most this part of the time. */
const SHARE = 10;
const PAUSES = { firstMs: 200, maxMs: 30_000 };

/**
 * Keeps a second storage up to date until the signal aborts: what is saved here is there soon after, whatever storages they are. Goes on
 * when either is away for a while, and when it is begun again. A session that changed there by itself is left alone and reported.
 */
export async function replicate(
  from: StoragePlace,
  to: StoragePlace,
  options: ReplicateOptions,
): Promise<BackupReport> {
  checkOptions(options, OPTIONS, 'replicate()');
  return withStorages('replicate()', { from, to }, (source, target) => replicateStorage(source, target, options));
}

/** The same between open storages. */
export function replicateStorage(from: ChunkStorage, to: ChunkStorage, options: Replicated): Promise<BackupReport> {
  return new Replication(from, to, options).run();
}

class Replication {
  readonly #from: ChunkStorage;
  readonly #copy: StorageCopy;
  readonly #options: Replicated;
  /** What is known of each session: a digest of its names. */
  readonly #known = new Map<SessionId, Digest>();
  /** What was done to each session so far, and what is wrong with it now. */
  readonly #totals = new Map<SessionId, CopiedSession>();
  readonly #deleted = new Set<SessionId>();
  /** Told by the storage. */
  readonly #told = new Set<SessionId>();
  #wake: () => void = () => undefined;
  #wholeAtMs = Number.NEGATIVE_INFINITY;
  /** How long it took to look for changes. */
  #lookedMs = 0;

  constructor(from: ChunkStorage, to: ChunkStorage, options: Replicated) {
    this.#from = from;
    this.#options = options;
    this.#copy = new StorageCopy(from, to, options);
  }

  async run(): Promise<BackupReport> {
    const { signal: stop, onError } = this.#options;
    let watch: StorageWatch | undefined;
    for (let failures = 0; !stop.aborted; ) {
      try {
        watch ??= await this.#watch();
        await this.#pass();
        failures = 0;
        await this.#pause(Math.max(this.#options.intervalMs ?? 1_000, this.#lookedMs * SHARE));
      } catch (error) {
        if (stop.aborted) break;
        if (!hasErrorCode(error, 'STORAGE')) throw error;
        onError?.(error);
        this.#wholeAtMs = Number.NEGATIVE_INFINITY;
        await this.#pause(backoff(++failures, PAUSES));
      }
    }
    await watch?.close();
    return toReport({ sessions: [...this.#totals.values()], deletedSessions: [...this.#deleted] });
  }

  async #watch(): Promise<StorageWatch | undefined> {
    return this.#from.watch?.({
      onCheckpoints: (rows) => {
        const { sessions } = this.#options;
        for (const { sessionId } of rows) if (sessions?.includes(sessionId) ?? true) this.#told.add(sessionId);
        this.#wake();
      },
      onError: (error) => this.#options.onError?.(error),
    });
  }

  async #pass(): Promise<void> {
    if (performance.now() - this.#wholeAtMs > WHOLE_EVERY_MS) return this.#passWhole();
    const told = new Map([...this.#told].map((sessionId) => [sessionId, undefined]));
    this.#told.clear();
    this.#add(await this.#copy.update(told));
    const { changed, isGone } = this.#findChanged(await this.#readNames());
    this.#add(await this.#copy.update(changed));
    if (isGone && this.#options.mirror) await this.#passWhole();
  }

  async #passWhole(): Promise<void> {
    this.#known.clear();
    this.#findChanged(await this.#readNames()); // before it begins: what comes meanwhile is looked at again
    const { sessions, deletedSessions } = await this.#copy.run();
    this.#add(sessions, deletedSessions);
    this.#wholeAtMs = performance.now();
  }

  async #readNames(): Promise<Map<SessionId, Ref[]>> {
    const { sessions } = this.#options;
    const beganMs = performance.now();
    const refs =
      sessions === undefined
        ? await this.#from.readRefs()
        : (await Promise.all(sessions.map((sessionId) => this.#from.readRefs({ sessionId })))).flat();
    this.#lookedMs = performance.now() - beganMs;
    return groupBy(refs, ({ sessionId }) => sessionId);
  }

  /** The sessions whose names are not as they were, or that have open steps; and whether one is gone. */
  #findChanged(names: ReadonlyMap<SessionId, Ref[]>) {
    const changed = new Map<SessionId, readonly Ref[]>();
    for (const [sessionId, refs] of names) {
      const own = refs.filter(({ kind }) => isExportedKind(kind));
      const digest = digestText(JSON.stringify(own.map(({ kind, name, target }) => [kind, name, target])));
      if (this.#known.get(sessionId) !== digest || this.#copy.hasOpenSteps(sessionId, refs))
        changed.set(sessionId, refs);
      this.#known.set(sessionId, digest);
    }
    const gone = [...this.#known.keys()].filter((sessionId) => !names.has(sessionId));
    for (const sessionId of gone) this.#known.delete(sessionId);
    return { changed, isGone: gone.length > 0 };
  }

  #add(sessions: readonly CopiedSession[], deletedSessions: readonly SessionId[] = []): void {
    const news = sessions.filter((done) => isNews(done, this.#totals.get(done.sessionId)));
    for (const done of sessions) this.#totals.set(done.sessionId, sum(done, this.#totals.get(done.sessionId)));
    for (const sessionId of deletedSessions) this.#deleted.add(sessionId);
    if (news.length + deletedSessions.length > 0) this.#options.onPass?.(toReport({ sessions: news, deletedSessions }));
  }

  /** Until the time is over, the storage tells of something, or the signal aborts. */
  #pause(delayMs: number): Promise<void> {
    const { signal: stop } = this.#options;
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        stop.removeEventListener('abort', end);
        resolve();
      };
      const timer = setTimeout(end, delayMs);
      stop.addEventListener('abort', end, { once: true });
      this.#wake = end;
      if (this.#told.size > 0 || stop.aborted) end();
    });
  }
}

function isNews({ checkpoints, chunks, deleted, problems }: CopiedSession, before: CopiedSession | undefined): boolean {
  return checkpoints + chunks + deleted > 0 || problems.join() !== (before?.problems ?? []).join();
}

function sum(done: CopiedSession, { checkpoints, chunks, deleted } = { checkpoints: 0, chunks: 0, deleted: 0 }) {
  return {
    ...done,
    checkpoints: done.checkpoints + checkpoints,
    chunks: done.chunks + chunks,
    deleted: done.deleted + deleted,
  };
}
