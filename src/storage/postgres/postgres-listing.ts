import type { CheckpointQuery, CheckpointRow } from '../contract.ts';
import { matchesQuery, parseHeader } from '../query.ts';
import { Conditions } from './database/conditions.ts';
import type { PostgresConnection } from './database/postgres-connection.ts';
import { CHECKPOINT_COLUMNS, type CheckpointColumns, decodeCheckpoint } from './postgres-reader.ts';

/** Rows of one answer: large enough to be few, small enough to be held. */
const ROWS_PER_PAGE = 1_000;
/** Greater than every character an id can go on with, so that a prefix is a range. */
const AFTER_ALL = '\u{10ffff}';

/** Answers a query in order of ids, page by page. SQL compares the columns; metadata is compared here, by the one rule for all storages. */
export async function listCheckpoints(
  connection: PostgresConnection,
  query: CheckpointQuery,
): Promise<CheckpointRow[]> {
  const { limit, metadata } = query;
  const found: CheckpointRow[] = [];
  let { after, offset = 0 } = query;
  let skip = metadata === undefined ? 0 : offset;
  if (metadata !== undefined) offset = 0;
  while (found.length < limit) {
    const size = metadata === undefined ? Math.min(ROWS_PER_PAGE, limit - found.length) : ROWS_PER_PAGE;
    const rows = await readPage(connection, query, { after, offset, limit: size });
    const fitting = metadata === undefined ? rows : rows.filter((row) => matchesQuery(parseHeader(row), query));
    found.push(...fitting.slice(skip, skip + limit - found.length));
    skip = Math.max(0, skip - fitting.length);
    if (rows.length < size) break;
    after = rows.at(-1)?.id;
    offset = 0;
  }
  return found;
}

type Page = { readonly after: string | undefined; readonly offset: number; readonly limit: number };

async function readPage(connection: PostgresConnection, query: CheckpointQuery, page: Page): Promise<CheckpointRow[]> {
  const isOldestFirst = query.order === 'oldest';
  const where = conditionsOf(query, connection.tenant);
  where.addCursor(isOldestFirst ? 'c.id > ?' : 'c.id < ?', page.after);
  const order = `ORDER BY c.id ${isOldestFirst ? 'ASC' : 'DESC'}`;
  const sql = `SELECT ${CHECKPOINT_COLUMNS} FROM {s}.checkpoint c ${where.sql} ${order} ${where.limit(page.limit)} ${where.offset(page.offset)}`;
  return (await connection.read<CheckpointColumns>(sql, where.values)).map(decodeCheckpoint);
}

function conditionsOf(query: CheckpointQuery, tenant: string): Conditions {
  const where = new Conditions(tenant);
  where.add('c.session = ?', query.sessionId);
  where.add('c.user_id = ?', query.userId);
  where.add('c.agent = ?', query.agentId);
  where.add('c.branch = ?', query.branch);
  where.add('c.type = ?', query.type);
  where.add('c.status = ?', query.status);
  where.add('c.timestamp_ms >= ?', query.fromMs);
  where.add('c.timestamp_ms <= ?', query.toMs);
  where.add('c.id >= ?', query.idPrefix);
  where.addCursor('c.id < ?', query.idPrefix === undefined ? undefined : query.idPrefix + AFTER_ALL);
  where.add('c.deleted = ?', query.include === 'all' ? undefined : false);
  return where;
}
