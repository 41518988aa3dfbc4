import { Buffer } from 'node:buffer';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { CorruptError } from '../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Chunk, Digest } from '../../core/tree/chunk.ts';
import type { CheckpointQuery, CheckpointRow, CheckpointRowWithRoot, EffectRow, Ref, RefKind } from '../contract.ts';
import { Conditions } from '../database/conditions.ts';
import { DatabaseStorage } from '../database/database-storage.ts';
import { type ListingColumns, listingClauses, listPages } from '../database/listing.ts';
import type { SqliteConnection } from '../database/sqlite-connection.ts';
import type { SqlStatement, SqlValue } from '../database/sqlite-driver.ts';
import { selectDue } from '../ref.ts';
import { isBindable } from '../sql-text.ts';
import type { ChunkNumbers } from './chunk-numbers.ts';
import { decodeText, isDigest, PREFIX_BYTES, packDigest, unpackDigest } from './sqlite-codec.ts';
import { readBatch, readTree } from './sqlite-tree-reader.ts';

/** Chunks read without giving way to others: some milliseconds' worth. */
const CHUNKS_PER_TURN = 1000;

/** Fewer chunks are read one by one. */
const BULK_MIN = 16;

type StoredText = string | Uint8Array;
type ChunkColumns = { refs: Uint8Array | null; text: StoredText };
/** The columns of a checkpoint's row without its root, as `CHECKPOINT_COLUMNS` names them. */
type CheckpointColumns = {
  id: CheckpointId;
  session: SessionId;
  digest: Uint8Array;
  body: StoredText;
  deleted: number;
};
type RootColumns = CheckpointColumns & { root_text: StoredText | null; root_refs: Uint8Array | null };
/** The columns of an effect, with its session's name. */
export type EffectColumns = {
  session: SessionId;
  branch: string;
  ordinal: number;
  digest: Uint8Array;
  body: StoredText;
  text: StoredText | null;
  refs: Uint8Array | null;
};

/** What a listing reads of a checkpoint; needs the tables `checkpoint c` and `session s`. */
const CHECKPOINT_COLUMNS = 'c.id, s.name AS session, c.digest, c.body, c.deleted';

const LISTING: ListingColumns = {
  session: 'c.session = (SELECT n FROM session WHERE name = ?)',
  user: 'c.user',
  timestamp: 'c.timestamp',
};

/** The reading half of a storage: rows back into what was committed. */
export abstract class SqliteReader extends DatabaseStorage<SqliteConnection> {
  readonly #numbers: ChunkNumbers;
  readonly #selectChunk: SqlStatement;
  readonly #selectCheckpoint: SqlStatement;

  constructor(connection: SqliteConnection, numbers: ChunkNumbers) {
    super(connection);
    this.#numbers = numbers;
    this.#selectChunk = connection.db.prepare('SELECT refs, text FROM chunk WHERE prefix=? AND rest=?');
    this.#selectCheckpoint = connection.db.prepare(
      `SELECT ${CHECKPOINT_COLUMNS}, c.root_text, c.root_refs FROM checkpoint c JOIN session s ON s.n=c.session WHERE c.id=?`,
    );
  }

  async readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    const { connection } = this;
    const found: (Chunk | undefined)[] = [];
    while (found.length < digests.length) {
      if (found.length > 0) await nextTurn();
      const slice = digests.slice(found.length, found.length + CHUNKS_PER_TURN);
      for (const chunk of await connection.read(() => this.#chunkSlice(slice))) found.push(chunk);
    }
    return found;
  }

  /** All chunks reachable from these, each once, in no particular order. */
  async readReachable(digests: readonly Digest[]): Promise<Chunk[]> {
    return readTree(this.connection, this.#numbers, digests);
  }

  /** One read transaction for all, which is cheaper than one for each. */
  #chunkSlice(digests: readonly Digest[]): (Chunk | undefined)[] {
    this.connection.prepare('BEGIN').run();
    try {
      this.#numbers.refresh();
      const rows = digests.length < BULK_MIN ? digests.map((digest) => this.#row(digest)) : this.#rows(digests);
      this.#numbers.prefetch(rows.map((row) => row?.refs ?? null));
      return rows.map((row, at) => row && this.#toChunk(digests[at] as Digest, row));
    } finally {
      this.connection.prepare('COMMIT').run();
    }
  }

  #row(digest: Digest): ChunkColumns | undefined {
    if (!isDigest(digest)) return undefined;
    const bytes = packDigest(digest);
    const row = this.#selectChunk.get(bytes.subarray(0, PREFIX_BYTES), bytes.subarray(PREFIX_BYTES));
    return row as ChunkColumns | undefined;
  }

  /** Many rows in few steps: by number, which for most is remembered. */
  #rows(digests: readonly Digest[]): (ChunkColumns | undefined)[] {
    const numbers = digests.map((digest) => (isDigest(digest) ? this.#numbers.find(digest) : undefined));
    const known = numbers.filter((number) => number !== undefined);
    const rows = new Map(readBatch(this.connection, [...new Set(known)]));
    return numbers.map((number, at) => {
      const row = number === undefined ? undefined : rows.get(number);
      return row?.digest === digests[at] ? row : undefined;
    });
  }

  #toChunk(digest: Digest, { refs, text }: ChunkColumns): Chunk {
    return { digest, text: decodeText(text), refs: this.#numbers.unpack(refs) };
  }

  async readCheckpoint(id: CheckpointId): Promise<CheckpointRowWithRoot | undefined> {
    if (!isBindable(id)) return undefined;
    return this.connection.read(() => {
      this.#numbers.refresh();
      const row = this.#selectCheckpoint.get(id) as RootColumns | undefined;
      if (row === undefined) return undefined;
      const { root_text: text, root_refs: refs } = row;
      if (text === null) return decodeCheckpoint(row);
      return { ...decodeCheckpoint(row), root: { text: decodeText(text), refs: this.#numbers.unpack(refs) } };
    });
  }

  async readRefs(filter: { sessionId?: string; kind?: RefKind; name?: string } = {}): Promise<Ref[]> {
    const { connection } = this;
    const where = new Conditions<SqlValue>('?').add('s.name = ?', filter.sessionId);
    where.add('r.kind = ?', filter.kind).add('r.name = ?', filter.name);
    const sql = `SELECT s.name AS sessionId, r.kind, r.name, r.target, r.mark AS "check" FROM ref r LEFT JOIN session s ON s.n=r.session ${where.sql} ORDER BY s.name, r.kind, r.name`;
    return connection.read(() => (connection.prepare(sql).all(...where.values) as Ref[]).map(copyRef));
  }

  async readDue(page: { before: string; limit: number }): Promise<Ref[]> {
    return selectDue(await this.readRefs({ kind: 'due' }), page);
  }

  async listCheckpoints(query: CheckpointQuery): Promise<CheckpointRow[]> {
    const { connection } = this;
    return listPages(query, (page) => {
      const where = new Conditions<SqlValue>('?');
      const clauses = listingClauses(where, { query, page, columns: LISTING });
      const sql = `SELECT ${CHECKPOINT_COLUMNS} FROM checkpoint c JOIN session s ON s.n=c.session ${clauses}`;
      return connection.read(() =>
        (connection.prepare(sql).all(...where.values) as CheckpointColumns[]).map(decodeCheckpoint),
      );
    });
  }

  async readEffects(filter: { sessionId: string; branch?: string; fromOrdinal?: number }): Promise<EffectRow[]> {
    const where = new Conditions<SqlValue>('?').add('s.name = ?', filter.sessionId);
    where.add('e.branch = ?', filter.branch).add('e.ordinal >= ?', filter.fromOrdinal);
    const sql = `SELECT s.name AS session, e.branch, e.ordinal, e.digest, e.body, e.text, e.refs FROM session s JOIN effect e ON e.session=s.n ${where.sql} ORDER BY e.branch, e.ordinal`;
    return this.connection.read(() => {
      this.#numbers.refresh();
      const rows = this.connection.prepare(sql).all(...where.values) as EffectColumns[];
      return rows.map((row) => decodeEffect(row, this.#numbers));
    });
  }

  async listSessions({ after, limit }: { after?: string; limit: number }): Promise<SessionId[]> {
    const where = new Conditions<SqlValue>('?').addCursor('name > ?', after);
    const sql = `SELECT name FROM session ${where.sql} ORDER BY name ${where.page(limit)}`;
    const { connection } = this;
    return connection.read(() =>
      (connection.prepare(sql).all(...where.values) as { name: SessionId }[]).map(({ name }) => name),
    );
  }

  async listChunks({ after, limit }: { after?: Digest; limit: number }): Promise<Digest[]> {
    // A prefix belongs to one chunk only, so that the order of the prefixes is that of the digests.
    const cursor = after === undefined ? undefined : packDigest(after).subarray(0, PREFIX_BYTES);
    const where = new Conditions<SqlValue>('?').add('prefix > ?', cursor);
    const sql = `SELECT prefix, rest FROM chunk ${where.sql} ORDER BY prefix ${where.page(limit)}`;
    const { connection } = this;
    return connection.read(() =>
      (connection.prepare(sql).all(...where.values) as { prefix: Uint8Array; rest: Uint8Array }[]).map(
        ({ prefix, rest }) => unpackDigest(Buffer.concat([prefix, rest])),
      ),
    );
  }
}

function decodeCheckpoint({ id, session, digest, body, deleted }: CheckpointColumns): CheckpointRow {
  return { id, sessionId: session, digest: unpackDigest(digest), body: decodeText(body), isDeleted: deleted !== 0 };
}

export function decodeEffect(row: EffectColumns, numbers: ChunkNumbers): EffectRow {
  const { session, branch, ordinal, digest, body, text, refs } = row;
  const result = text === null ? undefined : { text: decodeText(text), refs: numbers.unpack(refs) };
  return {
    sessionId: session,
    branch,
    ordinal,
    body: decodeText(body),
    ...(result === undefined ? {} : { result }),
    digest: unpackDigest(digest),
  };
}

/** A damaged row belongs to no session, and must not go missing without a word: what it protects would be taken for unprotected. */
function copyRef(row: Ref): Ref {
  if (typeof row.sessionId === 'string') return { ...row };
  throw new CorruptError('A branch, tag or other ref belongs to a session that is not there. Run verify.');
}
