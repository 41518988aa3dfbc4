import { ClosedError, hasErrorCode, isLost } from '../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { UnderWay } from '../../core/time/under-way.ts';
import type { Chunk, Digest } from '../../core/tree/chunk.ts';
import { Breather } from '../breather.ts';
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
  EffectDrop,
  EffectRow,
  ForgottenCount,
  Ref,
  RefKind,
  StorageStats,
  StorageWatch,
  TombstoneFold,
} from '../contract.ts';
import { compareText, pageOf, selectEffects } from '../query.ts';
import { checkCommit } from '../sql-text.ts';
import { ChunkReader } from './chunk-reader.ts';
import { countForgotten } from './forgotten.ts';
import type { Keys } from './keys.ts';
import { LockFinder } from './lock-finder.ts';
import {
  openEffect,
  openRef,
  openRow,
  openRowWithRoot,
  openSession,
  sealCheckpoint,
  sealChunk,
  sealEffect,
  sealQuery,
  sealRef,
  sealRefChange,
  sealSession,
  sealTombstone,
} from './sealed-rows.ts';
import type { Lock, Vault } from './vault.ts';
import { VaultDoor } from './vault-door.ts';

const PAGE = 1_000;

/** A storage that hands another one nothing it could read. */
export class EncryptedStorage implements ChunkStorage {
  readonly kind: string;
  readonly hasKeys = true;
  readonly limits: ChunkStorage['limits'];
  readonly foldTombstones?: (folds: readonly TombstoneFold[]) => Promise<CheckpointId[]>;
  readonly dropEffects?: (drop: EffectDrop) => Promise<number>;
  readonly now?: () => Promise<number>;
  readonly watch?: (watcher: CheckpointWatcher) => Promise<StorageWatch>;
  readonly #inner: ChunkStorage;
  readonly #door: VaultDoor;
  readonly #locks: LockFinder;
  readonly #chunks: ChunkReader;
  readonly #underWay = new UnderWay();
  #isClosed = false;

  constructor(inner: ChunkStorage, keys: Keys, keyFor: ((sessionId: string) => string) | undefined) {
    this.#inner = inner;
    this.kind = inner.kind;
    this.limits = inner.limits;
    this.#door = new VaultDoor(keys, inner);
    this.#chunks = new ChunkReader(inner);
    this.#locks = new LockFinder(inner, this.#door, keyFor);
    if (inner.foldTombstones !== undefined) this.foldTombstones = (folds) => this.#fold(folds);
    if (inner.dropEffects !== undefined) this.dropEffects = (drop) => this.#dropEffects(drop);
    if (inner.now !== undefined) this.now = () => inner.now?.() as Promise<number>;
    if (inner.watch !== undefined) this.watch = (watcher) => this.#watch(watcher);
  }

  /** Calls go on in the order they were made in: each waits for the same promises. */
  async commit(commit: Commit): Promise<CommitResult> {
    if (this.#isClosed) throw new ClosedError('The storage is closed.');
    checkCommit(commit);
    return this.#underWay.add(this.#door.through((vault) => this.#commit(vault, commit)));
  }

  async #commit(vault: Vault, commit: Commit): Promise<CommitResult> {
    const { sessionId, checkpoint, chunks = [], effects = [], refs = [], keyOf, ...rest } = commit;
    const sealed = {
      ...rest,
      sessionId: sealSession(vault, sessionId),
      refs: refs.map((change) => sealRefChange(vault, change)),
    };
    if (checkpoint === undefined && chunks.length === 0 && effects.length === 0) return this.#inner.commit(sealed);
    const lock = this.#locks.single(vault) ?? (await this.#locks.find(vault, sessionId, keyOf));
    const foreign = vault.onlyLock === lock ? [] : await this.#readForeign(vault, lock, commit);
    const what = `What was saved to session "${sessionId}"`;
    await this.#chunks.checkKept(vault, lock, { digests: contentOf(commit, foreign), what });
    (await this.#door.current()).checkKept(lock, what);
    const result = await this.#inner.commit({
      ...sealed,
      chunks: [...chunks, ...foreign].map((chunk) => sealChunk(lock, chunk)),
      effects: effects.map((effect) => sealEffect(vault, lock, effect)),
      ...(checkpoint !== undefined && { checkpoint: sealCheckpoint(vault, lock, checkpoint) }),
    });
    (await this.#door.current()).checkKept(lock, what); // nothing is acknowledged that nobody can read
    return result;
  }

  /** What a commit refers to below a checkpoint that is locked otherwise: it has no name under this lock, so it is brought along. */
  async #readForeign(vault: Vault, lock: Lock, commit: Commit): Promise<Chunk[]> {
    const { checkpoint, chunks = [], requires = [] } = commit;
    const isForeign = await this.#locks.hasForeign(vault, lock, { requires, own: checkpoint?.header.id });
    if (!isForeign) return [];
    const brought = new Set(chunks.map(({ digest }) => digest));
    const missing = contentOf(commit).filter((digest) => !brought.has(digest));
    return missing.length === 0 ? [] : this.#chunks.readReachable(vault, missing);
  }

  async readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    return this.#door.reading((vault) => this.#chunks.read(vault, digests));
  }

  async readReachable(digests: readonly Digest[]): Promise<Chunk[]> {
    return this.#door.reading((vault) => this.#chunks.readReachable(vault, digests));
  }

  async readCheckpoint(id: CheckpointId): Promise<CheckpointRowWithRoot | undefined> {
    return this.#door.reading(async (vault) => {
      const row = await this.#inner.readCheckpoint(id);
      if (row === undefined) return undefined;
      const opened = openRowWithRoot(vault, row);
      if (row.root !== undefined)
        this.#chunks.note(vault, vault.lockOf(row.root.text, `Checkpoint ${id}`), opened.root?.refs ?? []);
      return opened;
    });
  }

  /** Goes on until there are as many as asked for: rows whose key was removed do not count. */
  async listCheckpoints(query: CheckpointQuery): Promise<CheckpointRow[]> {
    const { offset = 0, ...rest } = query;
    const wanted = offset + query.limit;
    return this.#door.reading(async (vault) => {
      const found: CheckpointRow[] = [];
      for (let sealed = sealQuery(vault, { ...rest, limit: wanted }); ; ) {
        const rows = await this.#inner.listCheckpoints(sealed);
        await new Breather().each(rows, (row) => {
          const opened = openListed(vault, row, query.sessionId !== undefined);
          if (opened !== undefined) found.push(opened);
        });
        const last = rows.at(-1);
        if (last === undefined || rows.length < sealed.limit || found.length >= wanted) return found.slice(offset);
        sealed = { ...sealed, after: last.id, limit: wanted - found.length };
      }
    });
  }

  async countForgotten(query: Omit<CheckpointQuery, 'limit' | 'after' | 'offset'>): Promise<ForgottenCount[]> {
    return this.#door.reading((vault) => countForgotten(this.#inner, vault, query));
  }

  async readRefs(filter: { sessionId?: string; kind?: RefKind; name?: string } = {}): Promise<Ref[]> {
    const { sessionId, kind, name } = filter;
    return this.#door.through(async (vault) => {
      const refs = await this.#inner.readRefs({
        ...(sessionId !== undefined && { sessionId: sealSession(vault, sessionId) }),
        ...(kind !== undefined && { kind }),
        ...(name !== undefined && { name: vault.sealName(name) }),
      });
      const opened = sessionId === undefined ? openTrusted(vault, refs) : refs.map((ref) => openRef(vault, ref));
      return opened.sort(
        (a, b) => compareText(a.sessionId, b.sessionId) || compareText(a.kind, b.kind) || compareText(a.name, b.name),
      );
    });
  }

  async readDue(page: { before: string; limit: number }): Promise<Ref[]> {
    return this.#door.through(async (vault) => (await this.#inner.readDue(page)).map((ref) => openRef(vault, ref)));
  }

  async readEffects(filter: { sessionId: string; branch?: string; fromOrdinal?: number }): Promise<EffectRow[]> {
    const { sessionId, branch, fromOrdinal } = filter;
    return this.#door.reading(async (vault) => {
      const rows = await this.#inner.readEffects({
        sessionId: sealSession(vault, sessionId),
        ...(branch !== undefined && { branch: vault.sealName(branch) }),
        ...(fromOrdinal !== undefined && { fromOrdinal }),
      });
      const opened: EffectRow[] = [];
      await new Breather().each(rows, (row) => {
        const effect = openEffect(vault, row);
        opened.push(effect);
        if (row.result !== undefined)
          this.#chunks.note(vault, vault.lockOf(row.result.text, 'An effect'), effect.result?.refs ?? []);
      });
      return selectEffects(opened, {});
    });
  }

  /** Reads the names of all sessions: below they are in another order. */
  async listSessions({ onDamaged, ...asked }: Parameters<ChunkStorage['listSessions']>[0]): Promise<SessionId[]> {
    return this.#door.through(async (vault) => {
      const found: SessionId[] = [];
      for (let last: SessionId | undefined; ; ) {
        const page = await this.#inner.listSessions({ limit: PAGE, ...(last !== undefined && { after: last }) });
        for (const sealed of page) {
          const sessionId = openListedName(vault, sealed, asked.after === undefined ? onDamaged : onDamaged && ignore);
          if (sessionId !== undefined) found.push(sessionId);
        }
        last = page.at(-1);
        if (page.length < PAGE) return pageOf(found.sort(compareText), asked);
      }
    });
  }

  async deleteCheckpoints(deletions: readonly Deletion[], options?: { force?: boolean }): Promise<CheckpointId[]> {
    return this.#door.through((vault) =>
      this.#inner.deleteCheckpoints(
        deletions.map(({ id, body }) => ({ id, body: sealTombstone(vault, body) })),
        options,
      ),
    );
  }

  /** What is expected below is the text that is there, if it says what the caller expects. */
  #fold(folds: readonly TombstoneFold[]): Promise<CheckpointId[]> {
    return this.#door.through(async (vault) => {
      const sealed: TombstoneFold[] = [];
      for (const { id, expect, body, removes } of folds) {
        const row = await this.#inner.readCheckpoint(id);
        if (row?.isDeleted === true && openRow(vault, row).body === expect)
          sealed.push({ id, expect: row.body, body: sealTombstone(vault, body), removes });
      }
      return (await this.#inner.foldTombstones?.(sealed)) ?? [];
    });
  }

  #dropEffects({ sessionId, branch, ...rest }: EffectDrop): Promise<number> {
    return this.#door.through(async (vault) => {
      const place = { sessionId: sealSession(vault, sessionId), branch: vault.sealName(branch) };
      return (await this.#inner.dropEffects?.({ ...place, ...rest })) ?? 0;
    });
  }

  async deleteSession(sessionId: SessionId, { ifRefs }: { ifRefs?: readonly Ref[] } = {}): Promise<boolean> {
    return this.#door.through((vault) => {
      this.#locks.drop(sessionId);
      const refs = ifRefs?.map((ref) => sealRef(vault, ref));
      return this.#inner.deleteSession(sealSession(vault, sessionId), refs === undefined ? {} : { ifRefs: refs });
    });
  }

  async collect(options?: { signal?: AbortSignal }): Promise<CollectResult> {
    return this.#inner.collect(options);
  }

  async listChunks(page: { after?: Digest; limit: number }): Promise<Digest[]> {
    return this.#door.through((vault) => this.#chunks.list(vault, page));
  }

  async checkIntegrity(): Promise<string[]> {
    return this.#door.through(async (vault) =>
      (await this.#inner.checkIntegrity()).map((text) => vault.openText(text)),
    );
  }

  async stats(): Promise<StorageStats> {
    return this.#inner.stats();
  }

  async #watch({ onCheckpoints, onError }: CheckpointWatcher): Promise<StorageWatch> {
    let line = Promise.resolve();
    const tell = (rows: readonly CheckpointRow[]) =>
      this.#door.through(async (vault) => onCheckpoints(rows.map((row) => openRow(vault, row)))).catch(onError);
    const watcher: CheckpointWatcher = {
      onCheckpoints: (rows) => {
        line = line.then(() => tell(rows)); // one after the other, also while keys are read
      },
      onError,
    };
    return this.#inner.watch?.(watcher) as Promise<StorageWatch>;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#underWay.settled();
    await this.#inner.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Every chunk that a commit brings or refers to. */
function contentOf({ checkpoint, chunks = [], effects = [] }: Commit, more: readonly Chunk[] = []): Digest[] {
  const contents = [checkpoint?.root, ...effects.map(({ result }) => result), ...chunks];
  return [...[...chunks, ...more].map(({ digest }) => digest), ...contents.flatMap((content) => content?.refs ?? [])];
}

/**
 * A row of a list. Undefined if its key was removed. One that is damaged has no text, which its digest does not fit: what reads lists
 * of many sessions leaves it out, and verify names it. Of a session that was asked for, both are errors.
 */
function openListed(vault: Vault, row: CheckpointRow, isStrict: boolean): CheckpointRow | undefined {
  try {
    return openRow(vault, row);
  } catch (error) {
    if (isStrict || !isLost(error)) throw error;
    return hasErrorCode(error, 'CORRUPT') ? { ...row, body: '' } : undefined;
  }
}

const ignore = (): void => undefined;

/** A session's name; undefined if it is damaged and somebody is told. */
function openListedName(
  vault: Vault,
  sealed: SessionId,
  onDamaged: ((problem: string) => void) | undefined,
): SessionId | undefined {
  try {
    return openSession(vault, sealed);
  } catch (error) {
    if (onDamaged === undefined || !hasErrorCode(error, 'CORRUPT')) throw error;
    onDamaged(`a session's name is damaged: ${sealed}`);
    return undefined;
  }
}

/** The refs of sessions none of whose refs is damaged. */
function openTrusted(vault: Vault, refs: readonly Ref[]): Ref[] {
  const damaged = new Set<SessionId>();
  const opened = refs.flatMap((ref) => {
    try {
      return [{ ref, clear: openRef(vault, ref) }];
    } catch (error) {
      if (!hasErrorCode(error, 'CORRUPT')) throw error;
      damaged.add(ref.sessionId);
      return [];
    }
  });
  return opened.filter(({ ref }) => !damaged.has(ref.sessionId)).map(({ clear }) => clear);
}
