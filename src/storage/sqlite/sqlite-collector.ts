import { Buffer } from 'node:buffer';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Digest } from '../../core/chunk.ts';
import type { CollectResult } from '../contract.ts';
import { Reachable } from '../reachable.ts';
import { PREFIX_BYTES, packDigest, unpackDigest, unpackRefs } from './sqlite-codec.ts';
import type { SqliteConnection } from './sqlite-connection.ts';
import type { SqlStatement } from './sqlite-driver.ts';
import { readPragma } from './sqlite-schema.ts';

/** Rows handled without giving way to others; also the deletions of one transaction, which holds the write lock. */
const ROWS_PER_TURN = 250;
/** Pages moved by one transaction when the file shrinks. */
const PAGES_PER_TURN = 256;

type Candidate = { readonly n: number; readonly digest: Digest };
type RefColumns = { n: number; refs: Uint8Array };

/**
 * Removes chunks that nothing reaches, beside commits of any process.
 *
 * First everything reachable is marked, in small reads. Rows are only ever added with greater numbers (a replaced effect too),
 * so "what was committed since" is "numbers greater than those seen"; a removed session breaks that, counts up the epoch, and
 * makes us look at all roots again. Then the rest is deleted in small transactions, each of which first marks what was
 * committed since, under the write lock: a chunk that a new commit was deduplicated against is reachable by then and stays.
 */
export class SqliteCollector {
  readonly #connection: SqliteConnection;
  readonly #reachable = new Reachable();
  /** Chunks that were reachable but not there. If a commit brings one, what it refers to is not yet marked. */
  readonly #missing = new Set<Digest>();
  readonly #selectRefs: SqlStatement;
  #batch: readonly Digest[] = [];
  #lastCheckpoint = 0;
  #lastEffect = 0;
  #epoch = -1;

  constructor(connection: SqliteConnection) {
    this.#connection = connection;
    this.#selectRefs = connection.db.prepare('SELECT rest, refs FROM chunk WHERE prefix=?');
  }

  async run(signal?: AbortSignal): Promise<CollectResult> {
    const pagesBefore = await this.#pragma('page_count');
    await this.#mark(signal);
    const chunks = await this.#sweep(signal);
    await this.#shrink(signal);
    const pages = Math.max(0, pagesBefore - (await this.#pragma('page_count')));
    return { chunks, bytes: pages * (await this.#pragma('page_size')) };
  }

  #pragma(name: 'page_count' | 'page_size' | 'freelist_count'): Promise<number> {
    return this.#connection.read(() => readPragma(this.#connection.db, name));
  }

  async #mark(signal?: AbortSignal): Promise<void> {
    while (await this.#connection.read(() => this.#markSome())) {
      signal?.throwIfAborted();
      await nextTurn();
    }
  }

  /** Marks a little more; false when nothing is left to mark. Changes its state only after its reads have succeeded. */
  #markSome(): boolean {
    this.#checkEpoch();
    if (this.#batch.length === 0) this.#batch = this.#reachable.take();
    if (this.#batch.length > 0) {
      for (const digest of this.#batch) this.#reachable.add(this.#refsOf(digest));
      this.#batch = [];
      return true;
    }
    return this.#markRoots();
  }

  #checkEpoch(): void {
    const { value } = this.#connection.prepare('SELECT value FROM epoch').get() as { value: number };
    if (value === this.#epoch) return;
    this.#epoch = value;
    this.#lastCheckpoint = 0;
    this.#lastEffect = 0;
  }

  #markRoots(): boolean {
    const checkpoints = this.#readRoots('checkpoint', this.#lastCheckpoint);
    const effects = this.#readRoots('effect', this.#lastEffect);
    for (const { refs } of checkpoints) this.#reachable.add(unpackRefs(refs));
    for (const { refs } of effects) this.#reachable.add(unpackRefs(refs));
    this.#lastCheckpoint = checkpoints.at(-1)?.n ?? this.#lastCheckpoint;
    this.#lastEffect = effects.at(-1)?.n ?? this.#lastEffect;
    return checkpoints.length > 0 || effects.length > 0;
  }

  #readRoots(table: 'checkpoint' | 'effect', after: number): RefColumns[] {
    const column = table === 'checkpoint' ? 'root_refs' : 'refs';
    const sql = `SELECT n, ${column} AS refs FROM ${table} WHERE n>? AND ${column} IS NOT NULL ORDER BY n LIMIT ${ROWS_PER_TURN}`;
    return this.#connection.prepare(sql).all(after) as RefColumns[];
  }

  #refsOf(digest: Digest): readonly Digest[] {
    const bytes = packDigest(digest);
    const row = this.#selectRefs.get(bytes.subarray(0, PREFIX_BYTES)) as
      | { rest: Uint8Array; refs: Uint8Array | null }
      | undefined;
    if (row === undefined) this.#missing.add(digest);
    return row === undefined ? [] : unpackRefs(row.refs);
  }

  async #sweep(signal?: AbortSignal): Promise<number> {
    let removed = 0;
    let candidates: Candidate[] = [];
    for (let last = 0, isDone = false; !isDone; ) {
      const page = await this.#connection.read(() => this.#readCandidates(last));
      isDone = page.length < ROWS_PER_TURN;
      last = page.at(-1)?.n ?? last;
      candidates.push(...page.filter(({ digest }) => !this.#reachable.has(digest)));
      if (candidates.length >= ROWS_PER_TURN || isDone) {
        removed += await this.#removeAll(candidates, signal);
        candidates = [];
      }
      signal?.throwIfAborted();
      await nextTurn();
    }
    return removed;
  }

  #readCandidates(after: number): Candidate[] {
    const sql = `SELECT n, prefix, rest FROM chunk WHERE n>? ORDER BY n LIMIT ${ROWS_PER_TURN}`;
    const rows = this.#connection.prepare(sql).all(after) as { n: number; prefix: Uint8Array; rest: Uint8Array }[];
    return rows.map(({ n, prefix, rest }) => ({ n, digest: unpackDigest(Buffer.concat([prefix, rest])) }));
  }

  async #removeAll(candidates: readonly Candidate[], signal?: AbortSignal): Promise<number> {
    if (candidates.length === 0) return 0;
    for (;;) {
      // Most of what was committed meanwhile is marked before the lock is taken, so that little is left to do under it.
      await this.#mark(signal);
      const removed = await this.#connection.write(() => this.#removeUnreachable(candidates));
      if (removed !== undefined) return removed;
    }
  }

  /** Under the write lock. Undefined if a session was removed since, which means marking more than a lock should wait for. */
  #removeUnreachable(candidates: readonly Candidate[]): number | undefined {
    const { value } = this.#connection.prepare('SELECT value FROM epoch').get() as { value: number };
    if (value !== this.#epoch) return undefined;
    this.#markArrived();
    while (this.#markSome());
    const remove = this.#connection.prepare('DELETE FROM chunk WHERE n=? AND prefix=?');
    let removed = 0;
    for (const { n, digest } of candidates) {
      if (this.#reachable.has(digest)) continue;
      removed += Number(remove.run(n, packDigest(digest).subarray(0, PREFIX_BYTES)).changes);
    }
    return removed;
  }

  #markArrived(): void {
    const missing = [...this.#missing];
    this.#missing.clear();
    for (const digest of missing) this.#reachable.add(this.#refsOf(digest));
  }

  /** Gives free pages back to the disk, a few at a time. */
  async #shrink(signal?: AbortSignal): Promise<void> {
    const { db } = this.#connection;
    for (let free = await this.#pragma('freelist_count'); free > 0; ) {
      signal?.throwIfAborted();
      await this.#connection.write(() => db.exec(`PRAGMA incremental_vacuum(${PAGES_PER_TURN})`));
      await nextTurn();
      const left = await this.#pragma('freelist_count');
      if (left >= free) break;
      free = left;
    }
    await this.#connection.truncateLog();
  }
}
