import { setImmediate as nextTurn } from 'node:timers/promises';
import { CorruptError } from '../../core/errors.ts';
import type { Chunk, Digest } from '../../core/tree/chunk.ts';
import type { Ref, RefKind } from '../contract.ts';
import { Conditions } from '../database/conditions.ts';
import { type Dialect, type RowCodec, SqlReader, type Statement } from '../database/sql-reader.ts';
import type { SqliteConnection } from '../database/sqlite-connection.ts';
import type { SqlStatement, SqlValue } from '../database/sqlite-driver.ts';
import { compareText } from '../query.ts';
import { selectDue } from '../ref.ts';
import type { ChunkNumbers } from './chunk-numbers.ts';
import {
  decodeRecord,
  decodeText,
  isDigest,
  joinDigest,
  PREFIX_BYTES,
  packDigest,
  type RecordColumns,
} from './sqlite-codec.ts';
import { readBatch, readTree } from './sqlite-tree-reader.ts';

/** Chunks read without giving way to others: some milliseconds' worth. */
const CHUNKS_PER_TURN = 1000;

/** Fewer chunks are read one by one. */
const BULK_MIN = 16;

const REFS_PER_TURN = 500;

type StoredText = string | Uint8Array;
type ChunkColumns = { refs: Uint8Array | null; text: StoredText };
/** How SQLite gives back what is stored. */
export type SqliteForm = { digest: string; text: StoredText; refs: Uint8Array; filed: RecordColumns };

const DIALECT: Dialect = {
  checkpoint:
    'c.id, s.name AS session, c.branch, c.timestamp AS timestampMs, hex(c.digest) AS digest, c.body, c.deleted',
  root: 'c.root_text AS text, c.root_refs AS refs',
  checkpoints: 'checkpoint c JOIN session s ON s.n=c.session',
  effect: 's.name AS session, e.branch, e.ordinal, hex(e.digest) AS digest, e.body, e.text, e.refs',
  effects: 'session s JOIN effect e ON e.session=s.n',
  sessions: 'session',
  isInSession: 'c.session = (SELECT n FROM session WHERE name = ?)',
  effectSession: 's.name',
  user: 'c.user',
  timestamp: 'c.timestamp',
  isPlain: "(typeof(body)='text' OR substr(body, 1, 1)=x'02')",
  contains: 'instr(body, CAST(? AS BLOB))>0',
};

/** Reads what is stored in a file whose chunks have these numbers. */
export function sqliteCodec(numbers: ChunkNumbers): RowCodec<SqliteForm> {
  return {
    digest: (stored) => stored.toLowerCase() as Digest,
    text: decodeText,
    record: decodeRecord,
    refs: (stored) => numbers.unpack(stored),
  };
}

/** A ref as it is stored, with the number of its session. */
type RefColumns = Ref & { readonly session: number };

/** The reading half of a storage in a SQLite file. */
export abstract class SqliteReader extends SqlReader<SqliteConnection, SqliteForm> {
  /** @internal */
  protected readonly dialect: Dialect = DIALECT;
  /** @internal */
  protected readonly codec: RowCodec<SqliteForm>;
  readonly #numbers: ChunkNumbers;
  readonly #selectChunk: SqlStatement;

  constructor(connection: SqliteConnection, numbers: ChunkNumbers) {
    super(connection);
    this.#numbers = numbers;
    this.codec = sqliteCodec(numbers);
    this.#selectChunk = connection.db.prepare('SELECT refs, text FROM chunk WHERE prefix=? AND rest=?');
  }

  /** @internal */
  protected where(): Conditions<string | number> {
    return new Conditions<string | number>('?');
  }

  /** @internal */
  protected async select<Row, Result>({ sql, values }: Statement, decode: (row: Row) => Result): Promise<Result[]> {
    const { connection } = this;
    return connection.read(() => {
      this.#numbers.refresh();
      return (connection.prepare(sql).all(...values) as Row[]).map(decode);
    });
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

  /** In the order of the table, page by page; sessions are put into the order of their names at the end. */
  async readRefs(filter: { sessionId?: string; kind?: RefKind; name?: string } = {}): Promise<Ref[]> {
    const { connection } = this;
    const rows = await connection.readPages(REFS_PER_TURN, (last: RefColumns | undefined, limit) => {
      const where = new Conditions<SqlValue>('?').add(
        'r.session = (SELECT n FROM session WHERE name = ?)',
        filter.sessionId,
      );
      where.add('r.kind = ?', filter.kind).add('r.name = ?', filter.name);
      if (last !== undefined)
        where.addAll('(r.session, r.kind, r.name) > (?, ?, ?)', [last.session, last.kind, last.name]);
      const sql = `SELECT r.session, s.name AS sessionId, r.kind, r.name, r.target, r.mark AS "check" FROM ref r LEFT JOIN session s ON s.n=r.session ${where.sql} ORDER BY r.session, r.kind, r.name ${where.page(limit)}`;
      return connection.prepare(sql).all(...where.values) as RefColumns[];
    });
    const refs = rows.map(toRef);
    return filter.sessionId === undefined ? refs.sort((a, b) => compareText(a.sessionId, b.sessionId)) : refs;
  }

  async readDue(page: { before: string; limit: number }): Promise<Ref[]> {
    return selectDue(await this.readRefs({ kind: 'due' }), page);
  }

  async listChunks({ after, limit }: { after?: Digest; limit: number }): Promise<Digest[]> {
    // A prefix belongs to one chunk only, so that the order of the prefixes is that of the digests.
    const cursor = after === undefined ? undefined : packDigest(after).subarray(0, PREFIX_BYTES);
    const where = new Conditions<SqlValue>('?').add('prefix > ?', cursor);
    const sql = `SELECT prefix, rest FROM chunk ${where.sql} ORDER BY prefix ${where.page(limit)}`;
    const { connection } = this;
    return connection.read(() =>
      (connection.prepare(sql).all(...where.values) as { prefix: unknown; rest: unknown }[]).map(joinDigest),
    );
  }
}

/** A damaged row belongs to no session, and must not go missing without a word: what it protects would be taken for unprotected. */
function toRef({ sessionId, kind, name, target, check }: RefColumns): Ref {
  const isWhole = [kind, name, target, check].every((column) => typeof column === 'string');
  if (typeof sessionId === 'string' && isWhole) return { sessionId, kind, name, target, check };
  throw new CorruptError(
    'A branch, tag or other ref is damaged, or belongs to a session that is not there. Run verify.',
  );
}
