import { type Chunk, type Digest, isDigest } from '../../core/tree/chunk.ts';
import type { DuePage, Page, Ref, RefFilter } from '../contract.ts';
import { Conditions } from '../database/conditions.ts';
import { type Dialect, type RowCodec, SqlReader, type Statement } from '../database/sql-reader.ts';
import { readReachableByLevel } from '../reachable.ts';
import type { PostgresConnection } from './schema/postgres-connection.ts';
import { decodeRefs, decodeText } from './schema/sql-codec.ts';

type ChunkColumns = { digest: Digest; refs: string | null; text: string };

/** How PostgreSQL gives back what is stored: digests and references as hexadecimal text. */
export type PostgresForm = { digest: Digest; text: string; refs: string; filed: object };

export const POSTGRES_CODEC: RowCodec<PostgresForm> = {
  digest: (stored) => stored,
  text: decodeText,
  record: ({ body }) => decodeText(body),
  refs: decodeRefs,
};

export const POSTGRES_DIALECT: Dialect = {
  checkpoint: "c.id, c.session, encode(c.digest, 'hex') AS digest, c.body, c.deleted",
  root: "c.root_text AS text, encode(c.root_refs, 'hex') AS refs",
  checkpoints: '{s}.checkpoint c',
  effect:
    "e.session, e.branch, e.ordinal::double precision AS ordinal, encode(e.digest, 'hex') AS digest, e.body, e.text, encode(e.refs, 'hex') AS refs",
  effects: '{s}.effect e',
  sessions: '{s}.session',
  isInSession: 'c.session = ?',
  effectSession: 'e.session',
  user: 'c.user_id',
  timestamp: 'c.timestamp_ms',
  isPlain: 'ascii(body)<>1',
  contains: 'position(? in body)>0',
};

const REF_COLUMNS = 'session AS "sessionId", kind, name, target, mark AS "check"';

const CHUNK_COLUMNS = "encode(c.digest, 'hex') AS digest, encode(c.refs, 'hex') AS refs, c.text";

/** More in one statement might not come in time. */
const ROWS_PER_STATEMENT = 10_000;

/** Every digest below some others, each once, themselves included. OFFSET keeps the planner from reading all chunks at every level. */
const REACHABLE = `WITH RECURSIVE reached(digest) AS (
  SELECT decode(wanted, 'hex') FROM unnest($2::text[]) AS wanted
  UNION
  SELECT substring(c.refs FROM at + 1 FOR 32) FROM reached CROSS JOIN LATERAL (
      SELECT refs FROM {s}.chunk WHERE tenant = $1 AND digest = reached.digest AND refs IS NOT NULL OFFSET 0
    ) AS c CROSS JOIN LATERAL generate_series(0, length(c.refs) - 32, 32) AS at
) SELECT ${CHUNK_COLUMNS} FROM reached CROSS JOIN LATERAL (
    SELECT digest, refs, text FROM {s}.chunk WHERE tenant = $1 AND digest = reached.digest OFFSET 0
  ) AS c LIMIT ${ROWS_PER_STATEMENT + 1}`;

/** The reading half of a storage on a server; each question of the contract is one statement. */
export abstract class PostgresReader extends SqlReader<PostgresConnection, PostgresForm> {
  /** @internal */
  protected readonly dialect: Dialect = POSTGRES_DIALECT;
  /** @internal */
  protected readonly codec: RowCodec<PostgresForm> = POSTGRES_CODEC;

  /** @internal */
  protected where(): Conditions<string | number> {
    return new Conditions<string | number>('$').add('tenant = ?', this.connection.tenant);
  }

  /** @internal */
  protected async select<Row, Result>({ sql, values }: Statement, decode: (row: Row) => Result): Promise<Result[]> {
    return ((await this.connection.read(sql, values)) as Row[]).map(decode);
  }

  async readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    const { connection } = this;
    const wanted = [...new Set(digests)].filter(isDigest);
    if (wanted.length === 0) return digests.map(() => undefined);
    const sql = `SELECT ${CHUNK_COLUMNS} FROM {s}.chunk c WHERE c.tenant = $1 AND c.digest = ANY($2::bytea[])`;
    const found = new Map<Digest, ChunkColumns>();
    for (let at = 0; at < wanted.length; at += ROWS_PER_STATEMENT) {
      const page = wanted.slice(at, at + ROWS_PER_STATEMENT).map((digest) => `\\x${digest}`);
      for (const row of await connection.read<ChunkColumns>(sql, [connection.tenant, page])) found.set(row.digest, row);
    }
    return digests.map((digest) => {
      const row = found.get(digest);
      return row && toChunk(row);
    });
  }

  async readReachable(digests: readonly Digest[]): Promise<Chunk[]> {
    const { connection } = this;
    const wanted = digests.filter(isDigest);
    if (wanted.length === 0) return [];
    const rows = await connection.read<ChunkColumns>(REACHABLE, [connection.tenant, wanted]);
    if (rows.length <= ROWS_PER_STATEMENT) return rows.map(toChunk);
    return readReachableByLevel((level) => this.readChunks(level), wanted);
  }

  async readRefs(filter: RefFilter = {}): Promise<Ref[]> {
    const where = this.where().add('session = ?', filter.sessionId);
    where.add('kind = ?', filter.kind).add('name = ?', filter.name);
    const sql = `SELECT ${REF_COLUMNS} FROM {s}.ref ${where.sql} ORDER BY session, kind, name`;
    return this.connection.read<Ref>(sql, where.values);
  }

  async readDue({ before, limit }: DuePage): Promise<Ref[]> {
    const { connection } = this;
    const sql = `SELECT ${REF_COLUMNS} FROM {s}.ref WHERE tenant = $1 AND due < $2 ORDER BY due LIMIT $3`;
    return connection.read<Ref>(sql, [connection.tenant, before, limit]);
  }

  async listChunks({ after, limit }: Page<Digest>): Promise<Digest[]> {
    const where = this.where().add("digest > decode(?, 'hex')", after);
    const sql = `SELECT encode(digest, 'hex') AS digest FROM {s}.chunk ${where.sql} ORDER BY chunk.digest ${where.page(limit)}`;
    return (await this.connection.read<{ digest: Digest }>(sql, where.values)).map(({ digest }) => digest);
  }
}

function toChunk({ digest, refs, text }: ChunkColumns): Chunk {
  return { digest, text: decodeText(text), refs: decodeRefs(refs) };
}
