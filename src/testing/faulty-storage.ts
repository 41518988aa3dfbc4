import { StorageError } from '../core/errors.ts';
import type { CheckpointId, SessionId } from '../core/record/id.ts';
import type { Chunk, Digest } from '../core/tree/chunk.ts';
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
  StorageStats,
  StorageWatch,
} from '../storage/contract.ts';

/**
 * `fails`: rejects and writes nothing. `loses_reply`: writes and then rejects, as when the answer does not arrive; the error's
 * details say `outcome: 'unknown'`. `loses_request`: the same error, but nothing was written.
 */
export type CommitFault = 'fails' | 'loses_reply' | 'loses_request';

/** `altered`: one character of the text differs. `missing`: it is not there. */
export type ChunkFault = 'altered' | 'missing';

/** The methods whose calls can be held up. */
export type StorageMethod = Exclude<keyof ChunkStorage, 'kind' | 'limits'>;

/** What goes wrong. It is read at every call, so that a test may change it between calls. */
export type FaultPlan = {
  /** Faults by number of the commit; the first is 1. */
  commits?: { readonly [nth: number]: CommitFault };
  /** Faults of chunks by digest. */
  chunks?: { readonly [digest: Digest]: ChunkFault };
  /** Roots that come back with one character changed. */
  alteredRoots?: readonly CheckpointId[];
  /** Awaited before every call reaches the storage: hold a call up by a promise. `nth` counts the calls of the method from 1. */
  delay?: (method: StorageMethod, nth: number) => Promise<void> | undefined;
};

/** A storage that fails as planned, around a storage that does not. Everything unplanned passes through. */
export function faultyStorage(storage: ChunkStorage, plan: FaultPlan): ChunkStorage {
  return new FaultyStorage(storage, plan);
}

class FaultyStorage implements ChunkStorage {
  readonly kind: string;
  readonly limits: ChunkStorage['limits'];
  readonly now?: () => Promise<number>;
  readonly watch?: (watcher: CheckpointWatcher) => Promise<StorageWatch>;
  readonly #inner: ChunkStorage;
  readonly #plan: FaultPlan;
  readonly #calls = new Map<StorageMethod, number>();

  constructor(inner: ChunkStorage, plan: FaultPlan) {
    this.kind = inner.kind;
    this.limits = inner.limits;
    this.#inner = inner;
    this.#plan = plan;
    if (inner.now !== undefined) this.now = () => inner.now?.() as Promise<number>;
    if (inner.watch !== undefined) this.watch = (watcher) => inner.watch?.(watcher) as Promise<StorageWatch>;
  }

  /** Counts the call, and waits as long as the plan wants. */
  async #enter(method: StorageMethod): Promise<number> {
    const nth = (this.#calls.get(method) ?? 0) + 1;
    this.#calls.set(method, nth);
    await this.#plan.delay?.(method, nth);
    return nth;
  }

  async commit(commit: Commit): Promise<CommitResult> {
    const nth = await this.#enter('commit');
    const fault = this.#plan.commits?.[nth];
    if (fault === 'fails') throw new StorageError(`Commit ${nth} failed as planned; nothing was written.`);
    if (fault === 'loses_request') throw lostAnswer(nth);
    const result = await this.#inner.commit(commit);
    if (fault === 'loses_reply') throw lostAnswer(nth);
    return result;
  }

  async readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    await this.#enter('readChunks');
    const chunks = await this.#inner.readChunks(digests);
    return chunks.map((chunk) => chunk && this.#damage(chunk));
  }

  async readReachable(digests: readonly Digest[]): Promise<Chunk[]> {
    await this.#enter('readReachable');
    const chunks = await this.#inner.readReachable(digests);
    return chunks.map((chunk) => this.#damage(chunk)).filter((chunk) => chunk !== undefined);
  }

  #damage(chunk: Chunk): Chunk | undefined {
    const fault = this.#plan.chunks?.[chunk.digest];
    if (fault === undefined) return chunk;
    return fault === 'missing' ? undefined : { ...chunk, text: alterText(chunk.text) };
  }

  async readCheckpoint(id: CheckpointId): Promise<CheckpointRowWithRoot | undefined> {
    await this.#enter('readCheckpoint');
    const row = await this.#inner.readCheckpoint(id);
    if (row?.root === undefined || !this.#plan.alteredRoots?.includes(id)) return row;
    return { ...row, root: { ...row.root, text: alterText(row.root.text) } };
  }

  async listCheckpoints(query: CheckpointQuery): Promise<CheckpointRow[]> {
    await this.#enter('listCheckpoints');
    return this.#inner.listCheckpoints(query);
  }

  async readRefs(filter?: Parameters<ChunkStorage['readRefs']>[0]): Promise<Ref[]> {
    await this.#enter('readRefs');
    return this.#inner.readRefs(filter);
  }

  async readDue(page: { before: string; limit: number }): Promise<Ref[]> {
    await this.#enter('readDue');
    return this.#inner.readDue(page);
  }

  async readEffects(filter: Parameters<ChunkStorage['readEffects']>[0]): Promise<EffectRow[]> {
    await this.#enter('readEffects');
    return this.#inner.readEffects(filter);
  }

  async listSessions(page: { after?: string; limit: number }): Promise<SessionId[]> {
    await this.#enter('listSessions');
    return this.#inner.listSessions(page);
  }

  async deleteCheckpoints(deletions: readonly Deletion[], options?: { force?: boolean }): Promise<CheckpointId[]> {
    await this.#enter('deleteCheckpoints');
    return this.#inner.deleteCheckpoints(deletions, options);
  }

  async deleteSession(sessionId: SessionId, options?: { ifRefs?: readonly Ref[] }): Promise<boolean> {
    await this.#enter('deleteSession');
    return this.#inner.deleteSession(sessionId, options);
  }

  async collect(options?: { signal?: AbortSignal }): Promise<CollectResult> {
    await this.#enter('collect');
    return this.#inner.collect(options);
  }

  async listChunks(page: { after?: Digest; limit: number }): Promise<Digest[]> {
    await this.#enter('listChunks');
    return this.#inner.listChunks(page);
  }

  async checkIntegrity(): Promise<string[]> {
    await this.#enter('checkIntegrity');
    return this.#inner.checkIntegrity();
  }

  async stats(): Promise<StorageStats> {
    await this.#enter('stats');
    return this.#inner.stats();
  }

  async close(): Promise<void> {
    await this.#enter('close');
    return this.#inner.close();
  }
}

/** All that a caller can know when the connection breaks. */
function lostAnswer(nth: number): StorageError {
  return new StorageError(`The answer to commit ${nth} was lost as planned; it may be stored or not.`, {
    details: { outcome: 'unknown' },
  });
}

/** Changes the character in the middle to another digit, so that the text often still parses. */
function alterText(text: string): string {
  const middle = Math.floor(text.length / 2);
  const replacement = text[middle] === '7' ? '8' : '7';
  return text.slice(0, middle) + replacement + text.slice(middle + 1);
}
