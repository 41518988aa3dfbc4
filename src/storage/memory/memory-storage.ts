import { withoutUndefined } from '../../core/defined.ts';
import { ClosedError } from '../../core/errors.ts';
import { checkOptions, wholeFrom } from '../../core/options.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Chunk, Digest } from '../../core/tree/chunk.ts';
import { Breather } from '../breather.ts';
import type {
  CheckpointQuery,
  CheckpointRow,
  CheckpointRowWithRoot,
  ChunkStorage,
  CollectResult,
  Commit,
  CommitResult,
  Deletion,
  EffectDrop,
  EffectRow,
  NewCheckpoint,
  NewEffect,
  Ref,
  RefKind,
  StorageStats,
  TombstoneFold,
} from '../contract.ts';
import { compareText, listRows, selectEffects, selectRefs, withoutHeader } from '../query.ts';
import { Reachable, readReachableByLevel, runAll } from '../reachable.ts';
import { areSameRefs, createRef, Holders, selectDue } from '../ref.ts';
import { checkExpectations, checkRequirement, taken } from '../refusal.ts';
import { effectKey, freezeChunk, freezeContent, freezeEffect, parseHeader, refKey, sizeOf } from './memory-rows.ts';

type MemoryRow = CheckpointRowWithRoot & { readonly header: CheckpointHeader };

type MemorySession = {
  readonly refs: Map<string, Ref>;
  readonly effects: Map<string, EffectRow>;
  readonly idempotencyKeys: Map<string, CheckpointId>;
};

/** Keeps checkpoints in this process. For development and tests: nothing survives the process. */
export class InMemoryCheckpointStorage implements ChunkStorage {
  readonly kind: string = 'memory';
  readonly limits: { readonly maxCheckpoints?: number };
  readonly #sessions = new Map<SessionId, MemorySession>();
  readonly #rows = new Map<CheckpointId, MemoryRow>();
  /** The same rows in the order of their ids. */
  #ascending: MemoryRow[] = [];
  readonly #chunks = new Map<Digest, Chunk>();
  /** Their digests in order, once somebody asked for them. */
  #sorted: readonly Digest[] | undefined;
  /** What the collections under way have found reachable. */
  readonly #markings = new Set<Reachable<Digest>>();
  #deletedSinceSweep = 0;
  #isClosed = false;

  /** With `maxCheckpoints` no more are kept, over all sessions, and the memory of what goes is freed. */
  constructor(options: { readonly maxCheckpoints?: number | undefined } = {}) {
    checkOptions(options, { maxCheckpoints: wholeFrom(1) }, 'InMemoryCheckpointStorage');
    this.limits = withoutUndefined(options);
  }

  async commit(commit: Commit): Promise<CommitResult> {
    this.#checkOpen();
    const session = this.#sessions.get(commit.sessionId) ?? createSession();
    const key = commit.checkpoint?.header.idempotencyKey;
    const stored = key === undefined ? undefined : session.idempotencyKeys.get(key);
    if (stored !== undefined) return { status: 'duplicate', id: stored };
    this.#check(commit, session);
    this.#sessions.set(commit.sessionId, session);
    this.#write(commit, session);
    this.#notice(commit);
    return { status: 'stored' };
  }

  #check(commit: Commit, session: MemorySession): void {
    const { id } = commit.checkpoint?.header ?? {};
    if (id !== undefined && this.#rows.has(id)) throw taken(id);
    for (const one of commit.requires ?? []) checkRequirement(commit, one, this.#rows.get(one));
    const digestOf = (effect: NewEffect) => session.effects.get(effectKey(effect))?.digest;
    checkExpectations(commit, (change) => session.refs.get(refKey(change))?.target, digestOf);
  }

  #write({ sessionId, checkpoint, chunks = [], effects = [], refs = [] }: Commit, session: MemorySession): void {
    const unknown = chunks.filter(({ digest }) => !this.#chunks.has(digest));
    if (unknown.length > 0) this.#sorted = undefined;
    for (const chunk of unknown) this.#chunks.set(chunk.digest, freezeChunk(chunk));
    if (checkpoint !== undefined) this.#writeCheckpoint(checkpoint, session);
    for (const effect of effects) session.effects.set(effectKey(effect), freezeEffect(effect));
    for (const { kind, name, target } of refs) {
      if (target === null) session.refs.delete(refKey({ kind, name }));
      else session.refs.set(refKey({ kind, name }), Object.freeze(createRef({ sessionId, kind, name, target })));
    }
  }

  /** For the collections under way. */
  #notice({ checkpoint, effects = [] }: Commit): void {
    const contents = [checkpoint?.root, ...effects.map(({ result }) => result)];
    for (const marking of this.#markings) for (const content of contents) marking.add(content?.refs ?? []);
  }

  #writeCheckpoint({ header, body, digest, root }: NewCheckpoint, session: MemorySession): void {
    const { id, sessionId, idempotencyKey } = header;
    const row: MemoryRow = {
      id,
      sessionId,
      digest,
      body,
      isDeleted: false,
      root: freezeContent(root),
      // Parsed again, so that the caller's header is the caller's to change.
      header: parseHeader(body),
    };
    this.#rows.set(id, row);
    this.#insert(row);
    if (idempotencyKey !== undefined) session.idempotencyKeys.set(idempotencyKey, id);
  }

  /** Looks for the place from the end, because nearly every id is greater than all before it. */
  #insert(row: MemoryRow): void {
    let at = this.#ascending.length;
    while (at > 0 && (this.#ascending[at - 1]?.id ?? '') > row.id) at--;
    this.#ascending.splice(at, 0, row);
  }

  async readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    this.#checkOpen();
    return digests.map((digest) => this.#chunks.get(digest));
  }

  async readReachable(digests: readonly Digest[]): Promise<Chunk[]> {
    return readReachableByLevel((wanted) => this.readChunks(wanted), digests);
  }

  async readCheckpoint(id: CheckpointId): Promise<CheckpointRowWithRoot | undefined> {
    this.#checkOpen();
    const row = this.#rows.get(id);
    if (row?.root === undefined) return row && withoutHeader(row);
    return { ...withoutHeader(row), root: row.root };
  }

  async listCheckpoints(query: CheckpointQuery): Promise<CheckpointRow[]> {
    this.#checkOpen();
    return listRows(this.#ascending, query);
  }

  async readRefs(filter: { sessionId?: string; kind?: RefKind; name?: string } = {}): Promise<Ref[]> {
    this.#checkOpen();
    const { sessionId } = filter;
    const ids = sessionId === undefined ? [...this.#sessions.keys()].sort(compareText) : [sessionId as SessionId];
    // Copied, so that all of it shows the same moment.
    return selectRefs(
      ids.map((id) => [...(this.#sessions.get(id)?.refs.values() ?? [])]),
      filter,
    );
  }

  async readDue(page: { before: string; limit: number }): Promise<Ref[]> {
    return selectDue(await this.readRefs({ kind: 'due' }), page);
  }

  async readEffects(filter: { sessionId: string; branch?: string; fromOrdinal?: number }): Promise<EffectRow[]> {
    this.#checkOpen();
    const session = this.#sessions.get(filter.sessionId as SessionId);
    return selectEffects([...(session?.effects.values() ?? [])], filter);
  }

  async listSessions({ after, limit }: { after?: string; limit: number }): Promise<SessionId[]> {
    this.#checkOpen();
    const ids = [...this.#sessions.keys()].sort(compareText);
    return ids.filter((id) => after === undefined || id > after).slice(0, limit);
  }

  async deleteCheckpoints(
    deletions: readonly Deletion[],
    { force = false }: { force?: boolean } = {},
  ): Promise<CheckpointId[]> {
    this.#checkOpen();
    const holders = new Holders((session: MemorySession) => session.refs.values());
    const deleted: CheckpointId[] = [];
    for (const { id, body } of deletions) {
      const row = this.#rows.get(id);
      if (row?.isDeleted !== false) continue;
      const session = this.#sessions.get(row.sessionId) ?? createSession();
      const released = holders.release(session, id, force);
      if (released === undefined) continue;
      for (const ref of released) session.refs.delete(refKey(ref));
      this.#bury(row, session, body);
      deleted.push(id);
    }
    this.#noteDeleted(deleted);
    return deleted;
  }

  #bury({ id, sessionId, digest, header }: MemoryRow, session: MemorySession, body: string): void {
    const { idempotencyKey } = header;
    this.#rows.set(id, { id, sessionId, digest, body, isDeleted: true, header: parseHeader(body) });
    if (idempotencyKey !== undefined) session.idempotencyKeys.delete(idempotencyKey);
  }

  async foldTombstones(folds: readonly TombstoneFold[]): Promise<CheckpointId[]> {
    this.#checkOpen();
    const removed: CheckpointId[] = [];
    for (const { id, expect, body, removes } of folds) {
      const row = this.#rows.get(id);
      if (row?.isDeleted !== true || row.body !== expect) continue;
      this.#rows.set(id, { ...row, body, header: parseHeader(body) });
      for (const one of removes)
        if (this.#rows.get(one)?.isDeleted === true && this.#rows.delete(one)) removed.push(one);
    }
    this.#ascending = this.#ascending.flatMap(({ id }) => this.#rows.get(id) ?? []);
    return removed;
  }

  async dropEffects({ sessionId, branch, before, limit }: EffectDrop): Promise<number> {
    const rows = (await this.readEffects({ sessionId, branch })).filter(({ ordinal }) => ordinal < before);
    const doomed = rows.slice(0, limit);
    for (const row of doomed) this.#sessions.get(sessionId)?.effects.delete(effectKey(row));
    return doomed.length;
  }

  #noteDeleted(deleted: readonly CheckpointId[]): void {
    if (deleted.length > 0) this.#ascending = this.#ascending.map((row) => this.#rows.get(row.id) ?? row);
    for (const id of deleted) this.#removeLog(id);
    this.#bound(deleted.length);
  }

  /** A limit is there to bound memory: what it drops is freed soon, not at the next gc. Now and then, so that it costs little. */
  #bound(count: number): void {
    const { maxCheckpoints } = this.limits;
    if (maxCheckpoints === undefined) return;
    this.#deletedSinceSweep += count;
    if (this.#deletedSinceSweep <= maxCheckpoints / 2) return;
    this.#deletedSinceSweep = 0;
    runAll(this.#sweep());
  }

  /** What was filed under a checkpoint goes with it. */
  #removeLog(id: CheckpointId): void {
    const session = this.#sessions.get(this.#rows.get(id)?.sessionId as SessionId);
    const log = refKey({ kind: 'log', name: id });
    const count = Number(session?.refs.get(log)?.target ?? 0);
    for (let ordinal = 0; ordinal < count; ordinal++) session?.effects.delete(effectKey({ branch: id, ordinal }));
    session?.refs.delete(log);
  }

  async deleteSession(sessionId: SessionId, { ifRefs }: { ifRefs?: readonly Ref[] } = {}): Promise<boolean> {
    this.#checkOpen();
    const session = this.#sessions.get(sessionId);
    if (ifRefs !== undefined && !areSameRefs([...(session?.refs.values() ?? [])], ifRefs)) return false;
    const rest = this.#ascending.filter((row) => row.sessionId !== sessionId);
    for (const row of this.#ascending) if (row.sessionId === sessionId) this.#rows.delete(row.id);
    this.#bound(this.#ascending.length - rest.length);
    this.#ascending = rest;
    return this.#sessions.delete(sessionId);
  }

  async collect(): Promise<CollectResult> {
    this.#checkOpen();
    const removed = { chunks: 0, bytes: 0 };
    await new Breather().each(this.#sweep(), (chunk) => {
      if (chunk === undefined) return;
      removed.chunks++;
      removed.bytes += sizeOf(chunk);
    });
    return removed;
  }

  /** Marks what is reachable, then removes the rest: a step at a time, each with the chunk it removed. Commits in between mark, too. */
  *#sweep(): Generator<Chunk | undefined> {
    const reachable = new Reachable<Digest>();
    this.#markings.add(reachable);
    try {
      for (const refs of this.#rootRefs()) {
        reachable.add(refs);
        yield;
      }
      const refsOf = (digest: Digest) => this.#chunks.get(digest)?.refs ?? [];
      yield* reachable.grow(refsOf);
      for (const chunk of this.#chunks.values()) {
        runAll(reachable.grow(refsOf)); // what was committed since the last step
        const isGone = !reachable.has(chunk.digest) && this.#chunks.delete(chunk.digest);
        if (isGone) this.#sorted = undefined;
        yield isGone ? chunk : undefined;
      }
    } finally {
      this.#markings.delete(reachable);
    }
  }

  *#rootRefs(): Generator<readonly Digest[]> {
    for (const { root } of this.#rows.values()) if (root !== undefined) yield root.refs;
    for (const { effects } of this.#sessions.values()) {
      for (const { result } of effects.values()) if (result !== undefined) yield result.refs;
    }
  }

  async listChunks({ after, limit }: { after?: Digest; limit: number }): Promise<Digest[]> {
    this.#checkOpen();
    this.#sorted ??= [...this.#chunks.keys()].sort(compareText);
    return this.#sorted.filter((digest) => after === undefined || digest > after).slice(0, limit);
  }

  async checkIntegrity(): Promise<string[]> {
    this.#checkOpen();
    return [];
  }

  async stats(): Promise<StorageStats> {
    this.#checkOpen();
    const rows = this.#ascending;
    const tombstones = rows.filter((row) => row.isDeleted).length;
    const chunkBytes = [...this.#chunks.values()].reduce((sum, chunk) => sum + sizeOf(chunk), 0);
    const rowBytes = rows.reduce((sum, { body, root }) => sum + body.length + (root ? sizeOf(root) : 0), 0);
    return {
      checkpoints: rows.length - tombstones,
      tombstones,
      chunks: this.#chunks.size,
      sessions: this.#sessions.size,
      bytes: chunkBytes + rowBytes,
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new ClosedError('This InMemoryCheckpointStorage was closed.');
  }
}

function createSession(): MemorySession {
  return { refs: new Map(), effects: new Map(), idempotencyKeys: new Map() };
}
