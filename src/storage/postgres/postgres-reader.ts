import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Chunk, Digest } from '../../core/tree/chunk.ts';
import type { CheckpointQuery, CheckpointRow, CheckpointRowWithRoot, EffectRow, Ref, RefKind } from '../contract.ts';
import { Conditions } from '../database/conditions.ts';
import { DatabaseStorage } from '../database/database-storage.ts';
import { type ListingColumns, listingClauses, listPages } from '../database/listing.ts';
import { isBindable } from '../sql-text.ts';
import type { PostgresConnection } from './schema/postgres-connection.ts';
import { decodeRefs, decodeText } from './schema/sql-codec.ts';

const DIGEST = /^[0-9a-f]{64}$/;

type ChunkColumns = { digest: Digest; refs: string | null; text: string };

/** The columns of a checkpoint as every reader wants them. */
export const CHECKPOINT_COLUMNS = "c.id, c.session, encode(c.digest, 'hex') AS digest, c.body, c.deleted";

export type CheckpointColumns = {
  id: CheckpointId;
  session: SessionId;
  digest: Digest;
  body: string;
  deleted: boolean;
};

type RootColumns = CheckpointColumns & { text: string | null; refs: string | null };

/** The columns of an effect as every reader wants them. */
export const EFFECT_COLUMNS =
  "e.session, e.branch, e.ordinal::double precision AS ordinal, encode(e.digest, 'hex') AS digest, e.body, e.text, encode(e.refs, 'hex') AS refs";

export type EffectColumns = {
  session: SessionId;
  branch: string;
  ordinal: number;
  digest: Digest;
  body: string;
  text: string | null;
  refs: string | null;
};

const REF_COLUMNS = 'session AS "sessionId", kind, name, target, mark AS "check"';

const CHUNK_COLUMNS = "encode(c.digest, 'hex') AS digest, encode(c.refs, 'hex') AS refs, c.text";

/** Every digest below some others, each once, themselves included. OFFSET keeps the planner from reading all chunks at every level. */
const REACHABLE = `WITH RECURSIVE reached(digest) AS (
  SELECT decode(wanted, 'hex') FROM unnest($2::text[]) AS wanted
  UNION
  SELECT substring(c.refs FROM at + 1 FOR 32) FROM reached CROSS JOIN LATERAL (
      SELECT refs FROM {s}.chunk WHERE tenant = $1 AND digest = reached.digest AND refs IS NOT NULL OFFSET 0
    ) AS c CROSS JOIN LATERAL generate_series(0, length(c.refs) - 32, 32) AS at
) SELECT ${CHUNK_COLUMNS} FROM reached CROSS JOIN LATERAL (
    SELECT digest, refs, text FROM {s}.chunk WHERE tenant = $1 AND digest = reached.digest OFFSET 0
  ) AS c`;

/** The reading half of a storage; each question of the contract is one statement. */
export abstract class PostgresReader extends DatabaseStorage<PostgresConnection> {
  async readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
    const { connection } = this;
    const wanted = [...new Set(digests)].filter((digest) => DIGEST.test(digest));
    if (wanted.length === 0) return digests.map(() => undefined);
    const sql = `SELECT ${CHUNK_COLUMNS} FROM {s}.chunk c WHERE c.tenant = $1 AND c.digest = ANY(SELECT decode(wanted, 'hex') FROM unnest($2::text[]) AS wanted)`;
    const rows = await connection.read<ChunkColumns>(sql, [connection.tenant, wanted]);
    const found = new Map(rows.map((row) => [row.digest, row]));
    return digests.map((digest) => {
      const row = found.get(digest);
      return row && toChunk(row);
    });
  }

  async readReachable(digests: readonly Digest[]): Promise<Chunk[]> {
    const { connection } = this;
    const wanted = digests.filter((digest) => DIGEST.test(digest));
    if (wanted.length === 0) return [];
    return (await connection.read<ChunkColumns>(REACHABLE, [connection.tenant, wanted])).map(toChunk);
  }

  async readCheckpoint(id: CheckpointId): Promise<CheckpointRowWithRoot | undefined> {
    const { connection } = this;
    if (!isBindable(id)) return undefined;
    const sql = `SELECT ${CHECKPOINT_COLUMNS}, c.root_text AS text, encode(c.root_refs, 'hex') AS refs FROM {s}.checkpoint c WHERE c.tenant = $1 AND c.id = $2`;
    const [row] = await connection.read<RootColumns>(sql, [connection.tenant, id]);
    if (row === undefined) return undefined;
    if (row.text === null) return decodeCheckpoint(row);
    return { ...decodeCheckpoint(row), root: { text: decodeText(row.text), refs: decodeRefs(row.refs) } };
  }

  async listCheckpoints(query: CheckpointQuery): Promise<CheckpointRow[]> {
    const { connection } = this;
    return listPages(query, async (page) => {
      const where = this.#conditions();
      const clauses = listingClauses(where, { query, page, columns: LISTING });
      const sql = `SELECT ${CHECKPOINT_COLUMNS} FROM {s}.checkpoint c ${clauses}`;
      return (await connection.read<CheckpointColumns>(sql, where.values)).map(decodeCheckpoint);
    });
  }

  async readRefs(filter: { sessionId?: string; kind?: RefKind; name?: string } = {}): Promise<Ref[]> {
    const where = this.#conditions().add('session = ?', filter.sessionId);
    where.add('kind = ?', filter.kind).add('name = ?', filter.name);
    const sql = `SELECT ${REF_COLUMNS} FROM {s}.ref ${where.sql} ORDER BY session, kind, name`;
    return this.connection.read<Ref>(sql, where.values);
  }

  async readDue({ before, limit }: { before: string; limit: number }): Promise<Ref[]> {
    const { connection } = this;
    const sql = `SELECT ${REF_COLUMNS} FROM {s}.ref WHERE tenant = $1 AND due < $2 ORDER BY due LIMIT $3`;
    return connection.read<Ref>(sql, [connection.tenant, before, limit]);
  }

  async readEffects(filter: { sessionId: string; branch?: string; fromOrdinal?: number }): Promise<EffectRow[]> {
    const where = this.#conditions().add('e.session = ?', filter.sessionId);
    where.add('e.branch = ?', filter.branch).add('e.ordinal >= ?', filter.fromOrdinal);
    const sql = `SELECT ${EFFECT_COLUMNS} FROM {s}.effect e ${where.sql} ORDER BY e.branch, e.ordinal`;
    return (await this.connection.read<EffectColumns>(sql, where.values)).map(decodeEffect);
  }

  async listSessions({ after, limit }: { after?: string; limit: number }): Promise<SessionId[]> {
    const where = this.#conditions().addCursor('name > ?', after);
    const sql = `SELECT name FROM {s}.session ${where.sql} ORDER BY name ${where.page(limit)}`;
    return (await this.connection.read<{ name: SessionId }>(sql, where.values)).map(({ name }) => name);
  }

  async listChunks({ after, limit }: { after?: Digest; limit: number }): Promise<Digest[]> {
    const where = this.#conditions().add("digest > decode(?, 'hex')", after);
    const sql = `SELECT encode(digest, 'hex') AS digest FROM {s}.chunk ${where.sql} ORDER BY chunk.digest ${where.page(limit)}`;
    return (await this.connection.read<{ digest: Digest }>(sql, where.values)).map(({ digest }) => digest);
  }

  #conditions(): Conditions<string | number> {
    return new Conditions<string | number>('$').add('tenant = ?', this.connection.tenant);
  }
}

const LISTING: ListingColumns = { session: 'c.session = ?', user: 'c.user_id', timestamp: 'c.timestamp_ms' };

function toChunk({ digest, refs, text }: ChunkColumns): Chunk {
  return { digest, text: decodeText(text), refs: decodeRefs(refs) };
}

export function decodeCheckpoint({ id, session, digest, body, deleted }: CheckpointColumns): CheckpointRow {
  return { id, sessionId: session, digest, body: decodeText(body), isDeleted: deleted };
}

export function decodeEffect({ session, branch, ordinal, digest, body, text, refs }: EffectColumns): EffectRow {
  const result = text === null ? undefined : { text: decodeText(text), refs: decodeRefs(refs) };
  return {
    sessionId: session,
    branch,
    ordinal,
    body: decodeText(body),
    ...(result === undefined ? {} : { result }),
    digest,
  };
}
