import { withoutUndefined } from '../../core/defined.ts';
import { ClosedError } from '../../core/errors.ts';
import { checkOptions, wholeFrom } from '../../core/options.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Chunk, ChunkContent, Digest } from '../../core/tree/chunk.ts';
import { OBJECTS_FINDING, readStub } from '../../core/tree/object-stub.ts';
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
  NewCheckpoint,
  Page,
  Ref,
  StorageStats,
  TombstoneFold,
} from '../contract.ts';
import { freezeContent, HeldSession, HeldStorage } from '../held-session.ts';
import { compareText, type IndexedRow, listRows, pageOf, withoutHeader } from '../query.ts';
import { Reachable, runAll } from '../reachable.ts';
import { areSameRefs, Holders } from '../ref.ts';
import { checkRequirement, taken } from '../refusal.ts';

type MemoryRow = IndexedRow & Pick<CheckpointRowWithRoot, 'root'>;

/** Keeps checkpoints in this process. For development and tests: nothing survives the process. */
export class InMemoryCheckpointStorage extends HeldStorage implements ChunkStorage {
  readonly kind: string = 'memory';
  readonly limits: { readonly maxCheckpoints?: number };
  readonly #sessions = new Map<SessionId, HeldSession>();
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
    super();
    checkOptions(options, { maxCheckpoints: wholeFrom(1) }, 'InMemoryCheckpointStorage');
    this.limits = withoutUndefined(options);
  }

  async commit(commit: Commit): Promise<CommitResult> {
    this.#checkOpen();
    const { sessionId, checkpoint, requires = [] } = commit;
    const session = this.#sessions.get(sessionId) ?? new HeldSession(sessionId);
    const earlier = session.findEarlier(commit);
    if (earlier !== undefined) return { status: 'duplicate', id: earlier };
    if (checkpoint !== undefined && this.#rows.has(checkpoint.header.id)) throw taken(checkpoint.header.id);
    for (const id of requires) checkRequirement(commit, id, this.#rows.get(id));
    session.checkExpectations(commit);
    this.#sessions.set(sessionId, session);
    this.#write(commit, session);
    return { status: 'stored' };
  }

  #write({ checkpoint, chunks = [], effects = [], refs = [] }: Commit, session: HeldSession): void {
    this.#addChunks(chunks.filter((chunk) => !this.#holds(chunk)));
    if (checkpoint !== undefined) this.#addCheckpoint(checkpoint, session);
    for (const effect of effects) session.setEffect(effect);
    for (const change of refs) session.changeRef(change);
    this.#notice([checkpoint?.root, ...effects.map(({ result }) => result)]);
  }

  /** One that was left to an object store is not held, unless it is to be again: who brings it whole may not have that store. */
  #holds(chunk: Chunk): boolean {
    const held = this.#chunks.get(chunk.digest);
    return held !== undefined && (readStub(held) === undefined || readStub(chunk) !== undefined);
  }

  /** For the collections under way. */
  #notice(contents: readonly (ChunkContent | undefined)[]): void {
    for (const marking of this.#markings) for (const content of contents) marking.add(content?.refs ?? []);
  }

  #addChunks(chunks: readonly Chunk[]): void {
    if (chunks.length > 0) this.#sorted = undefined;
    for (const chunk of chunks)
      this.#chunks.set(chunk.digest, Object.freeze({ digest: chunk.digest, ...freezeContent(chunk) }));
  }

  /** Its place is looked for from the end, because nearly every id is greater than all before it. */
  #addCheckpoint({ header, body, digest, root: given }: NewCheckpoint, session: HeldSession): void {
    const { id, sessionId, idempotencyKey } = header;
    const root = freezeContent(given);
    const row = { id, sessionId, digest, body, isDeleted: false, header: parse(body), root };
    this.#rows.set(id, row);
    let at = this.#ascending.length;
    while (at > 0 && (this.#ascending[at - 1]?.id ?? '') > id) at--;
    this.#ascending.splice(at, 0, row);
    session.useKey(idempotencyKey, id);
  }

  /** After rows were replaced or removed. */
  #putInOrder(): void {
    this.#ascending = this.#ascending.flatMap(({ id }) => this.#rows.get(id) ?? []);
  }

  async readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    this.#checkOpen();
    return digests.map((digest) => this.#chunks.get(digest));
  }

  async readCheckpoint(id: CheckpointId): Promise<CheckpointRowWithRoot | undefined> {
    this.#checkOpen();
    const row = this.#rows.get(id);
    return row && { ...withoutHeader(row), ...(row.root && { root: row.root }) };
  }

  async listCheckpoints(query: CheckpointQuery): Promise<CheckpointRow[]> {
    this.#checkOpen();
    return listRows(this.#ascending, query);
  }

  /** @internal */
  protected override async wholeSessions(sessionId?: string): Promise<readonly HeldSession[]> {
    this.#checkOpen();
    const ids = sessionId === undefined ? this.#sessionIds() : [sessionId as SessionId];
    return ids.flatMap((id) => this.#sessions.get(id) ?? []);
  }

  #sessionIds(): SessionId[] {
    return [...this.#sessions.keys()].sort(compareText);
  }

  async listSessions(page: Page<string>): Promise<SessionId[]> {
    this.#checkOpen();
    return pageOf(this.#sessionIds(), page);
  }

  async deleteCheckpoints(
    deletions: readonly Deletion[],
    { force = false }: { force?: boolean } = {},
  ): Promise<CheckpointId[]> {
    this.#checkOpen();
    const holders = new Holders(({ refs }: HeldSession) => refs);
    const deleted = deletions.filter(({ id, body }) => {
      const row = this.#rows.get(id);
      const session = row?.isDeleted === false ? this.#sessions.get(row.sessionId) : undefined;
      const released = session && holders.release(session, id, force);
      if (row === undefined || released === undefined) return false;
      session?.release(id, released);
      session?.freeKey(row.header.idempotencyKey);
      const { sessionId, digest } = row;
      this.#rows.set(id, { id, sessionId, digest, body, isDeleted: true, header: parse(body) });
      return true;
    });
    if (deleted.length > 0) this.#putInOrder();
    this.#bound(deleted.length);
    return deleted.map(({ id }) => id);
  }

  async foldTombstones(folds: readonly TombstoneFold[]): Promise<CheckpointId[]> {
    this.#checkOpen();
    const removed: CheckpointId[] = [];
    const isTombstone = (id: CheckpointId) => this.#rows.get(id)?.isDeleted === true;
    for (const { id, expect, body, removes } of folds) {
      const row = this.#rows.get(id);
      if (row?.isDeleted !== true || row.body !== expect) continue;
      this.#rows.set(id, { ...row, body, header: parse(body) });
      removed.push(...removes.filter((one) => isTombstone(one) && this.#rows.delete(one)));
    }
    this.#putInOrder();
    return removed;
  }

  async dropEffects({ sessionId, branch, before, limit }: EffectDrop): Promise<number> {
    const rows = (await this.readEffects({ sessionId, branch })).filter(({ ordinal }) => ordinal < before);
    const doomed = rows.slice(0, limit);
    for (const row of doomed) this.#sessions.get(sessionId)?.removeEffect(row);
    return doomed.length;
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

  async deleteSession(sessionId: SessionId, { ifRefs }: { ifRefs?: readonly Ref[] } = {}): Promise<boolean> {
    this.#checkOpen();
    const session = this.#sessions.get(sessionId);
    if (ifRefs !== undefined && !areSameRefs(session?.refs ?? [], ifRefs)) return false;
    const gone = this.#ascending.filter((row) => row.sessionId === sessionId);
    for (const { id } of gone) this.#rows.delete(id);
    this.#putInOrder();
    this.#bound(gone.length);
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
      for (const content of this.#roots()) {
        reachable.add(content?.refs ?? []);
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

  *#roots(): Generator<ChunkContent | undefined> {
    for (const { root } of this.#rows.values()) yield root;
    for (const { effects } of this.#sessions.values()) for (const { result } of effects) yield result;
  }

  async listChunks(page: Page<Digest>): Promise<Digest[]> {
    this.#checkOpen();
    this.#sorted ??= [...this.#chunks.keys()].sort(compareText);
    return pageOf(this.#sorted, page);
  }

  async checkIntegrity(): Promise<string[]> {
    this.#checkOpen();
    return [...this.#chunks.values()].some((chunk) => readStub(chunk) !== undefined) ? [OBJECTS_FINDING] : [];
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

/** A header of its own, so that the caller's is the caller's to change. */
const parse = (body: string): CheckpointHeader => JSON.parse(body) as CheckpointHeader;

/** About how many bytes a content takes up. */
const sizeOf = ({ text, refs }: ChunkContent): number => text.length + refs.length * 32;
