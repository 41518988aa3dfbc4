import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Digest } from '../../core/tree/chunk.ts';
import type { CollectResult } from '../contract.ts';
import type { SqliteConnection } from '../database/sqlite-connection.ts';
import type { SqlStatement } from '../database/sqlite-driver.ts';
import { Reachable } from '../reachable.ts';
import { type ChunkNumbers, readRefs } from './chunk-numbers.ts';
import { checkGoesOn } from './sqlite-codec.ts';
import { readPragma } from './sqlite-schema.ts';

/** Rows handled without giving way to others; also the deletions of one transaction, which holds the write lock. */
const ROWS_PER_TURN = 250;
/** Pages moved by one transaction when the file shrinks. */
const PAGES_PER_TURN = 256;

type Candidate = { readonly n: number; readonly prefix: Uint8Array };
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
  readonly #numbers: ChunkNumbers;
  readonly #reachable = new Reachable<number>();
  /** Refs to chunks that are not there. If a commit brings one, it is not yet marked. */
  readonly #missing = new Set<Digest>();
  readonly #selectRefs: SqlStatement;
  #batch: readonly number[] = [];
  #lastCheckpoint = 0;
  #lastEffect = 0;
  #epoch = -1;

  constructor(connection: SqliteConnection, numbers: ChunkNumbers) {
    this.#connection = connection;
    this.#numbers = numbers;
    this.#selectRefs = connection.db.prepare('SELECT refs FROM chunk WHERE n=?');
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
    this.#numbers.refresh();
    if (this.#batch.length === 0) this.#batch = this.#reachable.take();
    if (this.#batch.length > 0) {
      for (const number of this.#batch) this.#reachable.add(this.#refsOf(number));
      this.#batch = [];
      return true;
    }
    return this.#markRoots();
  }

  #checkEpoch(): void {
    const { value } = this.#connection.prepare('SELECT value FROM epoch WHERE n=1').get() as { value: number };
    if (value === this.#epoch) return;
    this.#epoch = value;
    this.#lastCheckpoint = 0;
    this.#lastEffect = 0;
  }

  #markRoots(): boolean {
    const checkpoints = this.#readRoots('checkpoint', this.#lastCheckpoint);
    const effects = this.#readRoots('effect', this.#lastEffect);
    for (const { refs } of checkpoints) this.#reachable.add(this.#toNumbers(refs));
    for (const { refs } of effects) this.#reachable.add(this.#toNumbers(refs));
    this.#lastCheckpoint = checkpoints.at(-1)?.n ?? this.#lastCheckpoint;
    this.#lastEffect = effects.at(-1)?.n ?? this.#lastEffect;
    return checkpoints.length > 0 || effects.length > 0;
  }

  #readRoots(table: 'checkpoint' | 'effect', after: number): readonly RefColumns[] {
    const column = table === 'checkpoint' ? 'root_refs' : 'refs';
    const sql = `SELECT n, ${column} AS refs FROM ${table} WHERE n>? AND ${column} IS NOT NULL ORDER BY n LIMIT ${ROWS_PER_TURN}`;
    return checkGoesOn(this.#connection.prepare(sql).all(after) as RefColumns[], (n) => n > after);
  }

  #refsOf(number: number): readonly number[] {
    const row = this.#selectRefs.get(number) as { refs: Uint8Array | null } | undefined;
    return row === undefined ? [] : this.#toNumbers(row.refs);
  }

  #toNumbers(stored: Uint8Array | null): readonly number[] {
    const { digests, numbers } = readRefs(stored);
    for (const digest of digests ?? []) {
      const number = this.#numbers.find(digest);
      if (number === undefined) this.#missing.add(digest);
      else numbers.push(number);
    }
    return numbers;
  }

  async #sweep(signal?: AbortSignal): Promise<number> {
    let removed = 0;
    let candidates: Candidate[] = [];
    for (let last = Number.MAX_SAFE_INTEGER, isDone = false; !isDone; ) {
      const page = await this.#connection.read(() => this.#readCandidates(last));
      isDone = page.length < ROWS_PER_TURN;
      last = page.at(-1)?.n ?? last;
      candidates.push(...page.filter(({ n }) => !this.#reachable.has(n)));
      if (candidates.length >= ROWS_PER_TURN || isDone) {
        removed += await this.#removeAll(candidates, signal);
        candidates = [];
      }
      signal?.throwIfAborted();
      await nextTurn();
    }
    return removed;
  }

  /** Greatest number first, so that a chunk goes before those it refers to: what is still there is always whole. */
  #readCandidates(before: number): readonly Candidate[] {
    const sql = `SELECT n, prefix FROM chunk WHERE n<? ORDER BY n DESC LIMIT ${ROWS_PER_TURN}`;
    return checkGoesOn(this.#connection.prepare(sql).all(before) as Candidate[], (n) => n < before);
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
    const { value } = this.#connection.prepare('SELECT value FROM epoch WHERE n=1').get() as { value: number };
    if (value !== this.#epoch) return undefined;
    this.#markArrived();
    while (this.#markSome());
    const remove = this.#connection.prepare('DELETE FROM chunk WHERE n=? AND prefix=?');
    const doomed = candidates.filter(({ n }) => !this.#reachable.has(n));
    const [greatest] = doomed;
    if (greatest === undefined) return 0;
    this.#connection.prepare('UPDATE epoch SET value=max(value, ?) WHERE n=2').run(greatest.n);
    this.#connection.prepare('UPDATE epoch SET value=value+1 WHERE n=3').run();
    return doomed.reduce((removed, { n, prefix }) => removed + Number(remove.run(n, prefix).changes), 0);
  }

  #markArrived(): void {
    const missing = [...this.#missing];
    this.#missing.clear();
    for (const digest of missing) {
      const number = this.#numbers.find(digest);
      if (number === undefined) this.#missing.add(digest);
      else this.#reachable.add([number]);
    }
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
