import { Buffer } from 'node:buffer';
import { CorruptError, hasErrorCode } from '../../core/errors.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import { STUB_START } from '../../core/tree/object-stub.ts';
import type { CheckpointRow, Commit, CommitResult, NewEffect, RefChange } from '../contract.ts';
import type { SqliteConnection } from '../database/sqlite-connection.ts';
import type { SqlStatement } from '../database/sqlite-driver.ts';
import { isConstraint } from '../database/sqlite-error.ts';
import { checkExpectations, checkRequirement, moved, taken } from '../refusal.ts';
import { isBindable } from '../sql-text.ts';
import type { ChunkNumbers } from './chunk-numbers.ts';
import type { PreparedChunk, PreparedCommit, PreparedRef } from './prepared-commit.ts';
import { unpackDigest } from './sqlite-codec.ts';
import { IS_STUB } from './sqlite-schema.ts';

/** Writes commits inside a transaction that its caller opened. */
export class SqliteWriter {
  readonly #insertSession: SqlStatement;
  readonly #selectKey: SqlStatement;
  readonly #selectRow: SqlStatement;
  readonly #selectRef: SqlStatement;
  readonly #moveRef: SqlStatement;
  readonly #upsertRef: SqlStatement;
  readonly #deleteRef: SqlStatement;
  readonly #insertChunk: SqlStatement;
  readonly #selectRest: SqlStatement;
  readonly #fillStub: SqlStatement;
  readonly #insertCheckpoint: SqlStatement;
  readonly #selectEffect: SqlStatement;
  readonly #replaceEffect: SqlStatement;

  readonly #numbers: ChunkNumbers;

  constructor({ db }: SqliteConnection, numbers: ChunkNumbers) {
    this.#numbers = numbers;
    this.#insertSession = db.prepare('INSERT INTO session(name) VALUES(?)');
    this.#selectKey = db.prepare('SELECT id FROM checkpoint WHERE session=? AND idempotency=?');
    this.#selectRow = db.prepare('SELECT deleted, digest FROM checkpoint WHERE id=?');
    this.#selectRef = db.prepare('SELECT target FROM ref WHERE session=? AND kind=? AND name=?');
    this.#moveRef = db.prepare('UPDATE ref SET target=?, mark=? WHERE session=? AND kind=? AND name=? AND target=?');
    this.#upsertRef = db.prepare(
      'INSERT INTO ref VALUES(?,?,?,?,?) ON CONFLICT(session, kind, name) DO UPDATE SET target=excluded.target, mark=excluded.mark',
    );
    this.#deleteRef = db.prepare('DELETE FROM ref WHERE session=? AND kind=? AND name=?');
    this.#insertChunk = db.prepare(
      'INSERT INTO chunk(n, prefix, rest, refs, text) VALUES(?,?,?,?,?) ON CONFLICT(prefix) DO NOTHING',
    );
    this.#selectRest = db.prepare('SELECT n, rest FROM chunk WHERE prefix=?');
    this.#fillStub = db.prepare(`UPDATE chunk SET text=? WHERE n=? AND ${IS_STUB}`);
    this.#insertCheckpoint = db.prepare(
      'INSERT INTO checkpoint(session, root_refs, deleted, id, timestamp, branch, type, status, agent, user, idempotency, digest, body, root_text) VALUES(?,?,0,?,?,?,?,?,?,?,?,?,?,?)',
    );
    this.#selectEffect = db.prepare('SELECT digest FROM effect WHERE session=? AND branch=? AND ordinal=?');
    // REPLACE gives the row a new, greater number: that is how the collector knows that it changed.
    this.#replaceEffect = db.prepare(
      'INSERT OR REPLACE INTO effect(session, refs, branch, ordinal, mark, digest, body, text) VALUES(?,?,?,?,?,?,?,?)',
    );
  }

  /**
   * Applies one commit. An error thrown before `markDirty` was called left no trace, so that the transaction may go on without
   * this commit; after it, the transaction must be rolled back.
   */
  apply(prepared: PreparedCommit, markDirty: () => void): CommitResult {
    const { commit } = prepared;
    const found = this.#numbers.findSession(commit.sessionId);
    const duplicate = found === undefined ? undefined : this.#findDuplicate(commit, found);
    if (duplicate !== undefined) return { status: 'duplicate', id: duplicate };
    try {
      this.#write(prepared, found, markDirty);
    } catch (error) {
      throw this.#isTaken(commit, error) ? taken(commit.checkpoint?.header.id ?? '') : error;
    }
    return { status: 'stored' };
  }

  /** An id that is in use is found by the INSERT, or by asking once the commit is refused: so it costs the others nothing. */
  #isTaken({ checkpoint }: Commit, error: unknown): boolean {
    if (checkpoint === undefined || !(hasErrorCode(error, 'CONFLICT') || isConstraint(error))) return false;
    return this.#selectRow.get(checkpoint.header.id) !== undefined;
  }

  #write(prepared: PreparedCommit, found: number | undefined, markDirty: () => void): void {
    const { commit } = prepared;
    const move = findMove(prepared);
    this.#checkRequired(commit);
    if (found !== undefined && move !== undefined && this.#holdOthers(prepared, move, found)) {
      this.#move(move, commit, found);
      markDirty();
      this.#writeRows(prepared, found);
      return;
    }
    checkExpectations(
      commit,
      (change) => this.#target(change, found),
      (effect) => this.#digest(effect, found),
    );
    markDirty();
    const session = found ?? this.#addSession(commit.sessionId);
    for (const ref of prepared.refs) this.#writeRef(ref, session);
    this.#writeRows(prepared, session);
  }

  #findDuplicate({ checkpoint }: Commit, session: number): CheckpointId | undefined {
    const key = checkpoint?.header.idempotencyKey;
    if (key === undefined) return undefined;
    return (this.#selectKey.get(session, key) as { id: CheckpointId } | undefined)?.id;
  }

  #checkRequired(commit: Commit): void {
    for (const id of commit.requires ?? [])
      checkRequirement(commit, id, isBindable(id) ? this.#findRow(id) : undefined);
  }

  #findRow(id: CheckpointId): Pick<CheckpointRow, 'isDeleted' | 'digest'> | undefined {
    const row = this.#selectRow.get(id) as { deleted: number; digest: Uint8Array } | undefined;
    return row && { isDeleted: row.deleted !== 0, digest: unpackDigest(row.digest) };
  }

  /** The steady state: one head moves from where it is known to be. Compares and sets in one statement. */
  #move({ change, check }: PreparedRef, { sessionId }: Commit, session: number): void {
    const { kind, name, target, expect } = change;
    const { changes } = this.#moveRef.run(target, check, session, kind, name, expect as string);
    if (Number(changes) === 0) throw moved(sessionId, change, this.#target(change, session));
  }

  /** Whether what is only checked is as expected; if not, all is looked at in the order of the contract. */
  #holdOthers({ commit, refs }: PreparedCommit, move: PreparedRef, session: number): boolean {
    if (commit.effects?.some(({ expect }) => expect !== undefined) === true) return false;
    return refs.every(
      ({ change }) => change === move.change || change.expect === (this.#target(change, session) ?? null),
    );
  }

  #target({ kind, name }: RefChange, session: number | undefined): string | undefined {
    if (session === undefined) return undefined;
    return (this.#selectRef.get(session, kind, name) as { target: string } | undefined)?.target;
  }

  #digest({ branch, ordinal }: NewEffect, session: number | undefined): Digest | undefined {
    if (session === undefined) return undefined;
    const row = this.#selectEffect.get(session, branch, ordinal) as { digest: Uint8Array } | undefined;
    return row && unpackDigest(row.digest);
  }

  #writeRef({ change: { kind, name, target }, check }: PreparedRef, session: number): void {
    if (target === null) this.#deleteRef.run(session, kind, name);
    else this.#upsertRef.run(session, kind, name, target, check);
  }

  #addSession(sessionId: string): number {
    this.#insertSession.run(sessionId);
    return this.#numbers.findSession(sessionId) as number;
  }

  #writeRows({ commit, chunks, checkpoint, effects }: PreparedCommit, session: number): void {
    if (chunks.length > 0) this.#writeChunks(chunks);
    if (checkpoint !== undefined) {
      const refs = this.#numbers.pack(commit.checkpoint?.root.refs ?? []);
      this.#insertCheckpoint.run(session, refs, ...checkpoint);
    }
    for (const { columns, refs } of effects) this.#replaceEffect.run(session, this.#numbers.pack(refs), ...columns);
  }

  #writeChunks(chunks: readonly PreparedChunk[]): void {
    for (const { digest, prefix, rest, refs, text } of chunks) {
      const number = this.#numbers.has(digest) ? this.#numbers.find(digest) : undefined;
      if (number === undefined) this.#addChunk({ digest, prefix, rest, refs, text });
      else this.#fill(number, text);
    }
  }

  #addChunk({ digest, prefix, rest, refs, text }: PreparedChunk): void {
    const { next } = this.#numbers;
    const { changes } = this.#insertChunk.run(next, prefix, rest, this.#numbers.pack(refs), text);
    const number = Number(changes) === 1 ? next : this.#findStored(prefix, rest);
    if (number !== next) this.#fill(number, text);
    this.#numbers.remember(digest, number);
  }

  /** What lies in an object store is stored here, too, if it is brought whole: who brings it may not have that store. */
  #fill(number: number, text: PreparedChunk['text']): void {
    if (typeof text !== 'string' || !text.startsWith(STUB_START)) this.#fillStub.run(text, number);
  }

  /** The number of a chunk that is stored already. */
  #findStored(prefix: Uint8Array, rest: Uint8Array): number {
    const stored = this.#selectRest.get(prefix) as { n: number; rest: Uint8Array };
    if (Buffer.compare(stored.rest, rest) === 0) return stored.n;
    const digest = Buffer.concat([prefix, rest]).toString('hex');
    throw new CorruptError(
      `Chunk ${digest} cannot be stored: another chunk has the same first half of its digest, so that one must be damaged. Run verify.`,
      { details: { digest } },
    );
  }
}

/** The only ref change of a commit that is no check, if it moves a ref from a known target to another. */
function findMove({ refs }: PreparedCommit): PreparedRef | undefined {
  const [only, ...more] = refs.filter(({ change }) => change.expect === undefined || change.expect !== change.target);
  const isMove = more.length === 0 && typeof only?.change.expect === 'string' && only.change.target !== null;
  return isMove ? only : undefined;
}
