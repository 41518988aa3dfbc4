import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CheckpointQuery, CheckpointRow } from '../contract.ts';
import { matchesQuery, parseHeader } from '../query.ts';
import type { SqliteConnection } from './sqlite-connection.ts';
import { CHECKPOINT_COLUMNS, type CheckpointColumns, Conditions, decodeCheckpoint } from './sqlite-reader.ts';

/** Rows read without giving way to others. */
const ROWS_PER_TURN = 500;
/** Greater than every character an id can go on with, so that a prefix is a range. */
const AFTER_ALL = '\u{10ffff}';

/** Answers a query in order of ids, page by page. SQL compares the columns. */
export async function listCheckpoints(connection: SqliteConnection, query: CheckpointQuery): Promise<CheckpointRow[]> {
  if (query.metadata !== undefined) return listByMetadata(connection, query);
  const found: CheckpointRow[] = [];
  let { after, offset = 0 } = query;
  while (found.length < query.limit) {
    const limit = Math.min(ROWS_PER_TURN, query.limit - found.length);
    const rows = await readPage(connection, query, { after, offset, limit });
    found.push(...rows);
    if (rows.length < limit) break;
    after = rows.at(-1)?.id;
    offset = 0;
    await nextTurn();
  }
  return found;
}

/** Metadata may be compressed, so it is compared here, row by row, until enough were found. */
async function listByMetadata(connection: SqliteConnection, query: CheckpointQuery): Promise<CheckpointRow[]> {
  const { limit, offset = 0 } = query;
  const found: CheckpointRow[] = [];
  for (let after = query.after; found.length < offset + limit; ) {
    const rows = await readPage(connection, query, { after, offset: 0, limit: ROWS_PER_TURN });
    found.push(...rows.filter((row) => matchesQuery(parseHeader(row), query)));
    if (rows.length < ROWS_PER_TURN) break;
    after = rows.at(-1)?.id;
    await nextTurn();
  }
  return found.slice(offset, offset + limit);
}

type Page = { readonly after: string | undefined; readonly offset: number; readonly limit: number };

function readPage(connection: SqliteConnection, query: CheckpointQuery, page: Page): Promise<CheckpointRow[]> {
  const isOldestFirst = query.order === 'oldest';
  const where = conditionsOf(query);
  where.addCursor(isOldestFirst ? 'c.id>?' : 'c.id<?', page.after);
  const sql = `SELECT ${CHECKPOINT_COLUMNS} FROM checkpoint c JOIN session s ON s.n=c.session ${where.sql} ORDER BY c.id ${isOldestFirst ? 'ASC' : 'DESC'} LIMIT ? OFFSET ?`;
  return connection.read(() => {
    const rows = connection.prepare(sql).all(...where.values, page.limit, page.offset);
    return (rows as CheckpointColumns[]).map(decodeCheckpoint);
  });
}

function conditionsOf(query: CheckpointQuery): Conditions {
  const where = new Conditions();
  where.add('c.session=(SELECT n FROM session WHERE name=?)', query.sessionId);
  where.add('c.user=?', query.userId);
  where.add('c.agent=?', query.agentId);
  where.add('c.branch=?', query.branch);
  where.add('c.type=?', query.type);
  where.add('c.status=?', query.status);
  where.add('c.timestamp>=?', query.fromMs);
  where.add('c.timestamp<=?', query.toMs);
  where.add('c.id>=?', query.idPrefix);
  where.addCursor('c.id<?', query.idPrefix === undefined ? undefined : query.idPrefix + AFTER_ALL);
  where.add('c.deleted=?', query.include === 'all' ? undefined : 0);
  return where;
}
