import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CheckpointQuery, CheckpointRow } from '../contract.ts';
import { matchesQuery, parseHeader } from '../query.ts';
import type { Conditions } from './conditions.ts';

/** Rows of one statement: large enough to be few, small enough to hold up nobody. */
const ROWS_PER_PAGE = 500;
/** Greater than every character an id can go on with, so that a prefix is a range. */
const AFTER_ALL = '\u{10ffff}';

/** A part of a listing: what comes after an id. */
type Page = { readonly after: string | undefined; readonly offset: number; readonly limit: number };

/**
 * Answers a query in order of ids, page by page. SQL compares the columns; metadata, which may be compressed, is compared here, by the
 * one rule for all storages.
 */
export async function listPages(
  query: CheckpointQuery,
  readPage: (page: Page) => Promise<CheckpointRow[]>,
): Promise<CheckpointRow[]> {
  const { limit, metadata } = query;
  const found: CheckpointRow[] = [];
  let { after, offset = 0 } = query;
  let skip = metadata === undefined ? 0 : offset;
  if (metadata !== undefined) offset = 0;
  while (found.length < limit) {
    const size = metadata === undefined ? Math.min(ROWS_PER_PAGE, limit - found.length) : ROWS_PER_PAGE;
    const rows = await readPage({ after, offset, limit: size });
    const fitting = metadata === undefined ? rows : rows.filter((row) => matchesQuery(parseHeader(row), query));
    found.push(...fitting.slice(skip, skip + limit - found.length));
    skip = Math.max(0, skip - fitting.length);
    if (rows.length < size) break;
    after = rows.at(-1)?.id;
    offset = 0;
    await nextTurn();
  }
  return found;
}

/** How a storage names the columns of `checkpoint c` that others call otherwise. */
export type ListingColumns = { readonly session: string; readonly user: string; readonly timestamp: string };

/** The clauses of a statement that reads a page of `checkpoint c`. */
export function listingClauses<Value>(
  where: Conditions<Value | string | number>,
  { query, page, columns }: { query: CheckpointQuery; page: Page; columns: ListingColumns },
): string {
  const isOldestFirst = query.order === 'oldest';
  where.add(columns.session, query.sessionId);
  where.add(`${columns.user} = ?`, query.userId);
  where.add('c.agent = ?', query.agentId);
  where.add('c.branch = ?', query.branch);
  where.add('c.type = ?', query.type);
  where.add('c.status = ?', query.status);
  where.add(`${columns.timestamp} >= ?`, query.fromMs);
  where.add(`${columns.timestamp} <= ?`, query.toMs);
  where.add('c.id >= ?', query.idPrefix);
  where.addCursor('c.id < ?', query.idPrefix === undefined ? undefined : query.idPrefix + AFTER_ALL);
  if (query.include !== 'all') where.addPlain('NOT c.deleted');
  where.addCursor(isOldestFirst ? 'c.id > ?' : 'c.id < ?', page.after);
  return `${where.sql} ORDER BY c.id ${isOldestFirst ? 'ASC' : 'DESC'} ${where.page(page.limit, page.offset)}`;
}
