import { CorruptError, hasErrorCode } from '../core/errors.ts';
import type { CheckpointHeader } from '../core/record/checkpoint-header.ts';
import type { SessionId } from '../core/record/id.ts';
import type { JsonValue } from '../core/value/json.ts';
import { Breather } from './breather.ts';
import type {
  CheckpointQuery,
  CheckpointRow,
  ChunkStorage,
  EffectFilter,
  EffectRow,
  Page,
  Ref,
  RefFilter,
} from './contract.ts';

/** The header fields a query compares by equality; each has a column in SQL storages. */
export const EQUALITY_FIELDS = ['sessionId', 'branch', 'agentId', 'userId', 'type', 'status'] as const;

/** Whether a header passes the filters of a query (not its paging). The reference that SQL storages must agree with. */
export function matchesQuery(header: CheckpointHeader, query: CheckpointQuery): boolean {
  for (const field of EQUALITY_FIELDS) {
    if (query[field] !== undefined && header[field] !== query[field]) return false;
  }
  if (query.idPrefix !== undefined && !header.id.startsWith(query.idPrefix)) return false;
  return (
    isWithin(header.timestampMs, query) &&
    (query.metadata === undefined || matchesMetadata(header.metadata, query.metadata))
  );
}

/** A query without times finds all, also what has none because it is damaged. */
function isWithin(timestampMs: number, { fromMs, toMs }: CheckpointQuery): boolean {
  return (fromMs === undefined || timestampMs >= fromMs) && (toMs === undefined || timestampMs <= toMs);
}

/** Reads a row's header for comparing it; a record that cannot be read is a CorruptError. */
export function parseHeader({ id, body }: CheckpointRow): CheckpointHeader {
  try {
    return JSON.parse(body) as CheckpointHeader;
  } catch (cause) {
    throw new CorruptError(
      `Checkpoint ${id} is damaged: its record cannot be read. Run verify to see what it affects.`,
      {
        cause,
        details: { id },
      },
    );
  }
}

/** A row of a storage that keeps parsed headers in memory; a tombstone's header is the tombstone. */
export type IndexedRow = CheckpointRow & { readonly header: CheckpointHeader };

/** Runs a query over all rows, given in ascending order of their ids. */
export function selectRows<Row extends IndexedRow>(ascending: readonly Row[], query: CheckpointQuery): Row[] {
  return [...stepThrough(ascending, query)].filter((row) => row !== undefined);
}

/** The same with turns of the event loop in between, as the contract returns it. */
export async function listRows(ascending: readonly IndexedRow[], query: CheckpointQuery): Promise<CheckpointRow[]> {
  const found: CheckpointRow[] = [];
  await new Breather().each(stepThrough([...ascending], query), (row) => {
    if (row !== undefined) found.push(withoutHeader(row));
  });
  return found;
}

/** Looks at a row at a time; undefined for one that is not wanted. */
function* stepThrough<Row extends IndexedRow>(ascending: readonly Row[], query: CheckpointQuery) {
  const isOldestFirst = query.order === 'oldest';
  const { after, offset = 0, limit } = query;
  const isPastCursor = (id: string) => after === undefined || (isOldestFirst ? id > after : id < after);
  const isWanted = (row: Row) =>
    isPastCursor(row.id) && (!row.isDeleted || query.include === 'all') && matchesQuery(row.header, query);
  let count = 0;
  for (let at = 0; at < ascending.length && count < offset + limit; at++) {
    const row = ascending[isOldestFirst ? at : ascending.length - 1 - at];
    const isFound = row !== undefined && isWanted(row);
    if (isFound) count++;
    yield isFound && count > offset ? row : undefined;
  }
}

/** The row as the contract returns it, without what an index of it adds. */
export function withoutHeader({ id, sessionId, digest, body, isDeleted }: IndexedRow): CheckpointRow {
  return { id, sessionId, digest, body, isDeleted };
}

/** Answers `readRefs` from all refs of each session asked for, in the order of their ids, with turns of the event loop in between. */
export async function selectRefs(sessions: Iterable<Iterable<Ref>>, { kind, name }: RefFilter): Promise<Ref[]> {
  const found: Ref[] = [];
  const breather = new Breather();
  for (const refs of sessions) {
    const own: Ref[] = [];
    await breather.each([...refs], (ref) => {
      if ((kind ?? ref.kind) === ref.kind && (name ?? ref.name) === ref.name) own.push(ref);
    });
    own.sort((a, b) => compareText(a.kind, b.kind) || compareText(a.name, b.name));
    for (const ref of own) found.push(ref);
  }
  return found;
}

/** Answers `readEffects` from all effects of a session. */
export function selectEffects(
  rows: readonly EffectRow[],
  { branch, fromOrdinal = 0 }: Omit<EffectFilter, 'sessionId'>,
): EffectRow[] {
  return rows
    .filter((row) => (branch ?? row.branch) === row.branch && row.ordinal >= fromOrdinal)
    .sort((a, b) => compareText(a.branch, b.branch) || a.ordinal - b.ordinal);
}

/** The first session, of those after a text. Undefined also where the list is damaged, which who reads on is told. */
export async function findSession(
  storage: Pick<ChunkStorage, 'listSessions'>,
  after?: string,
): Promise<SessionId | undefined> {
  try {
    return (await storage.listSessions({ limit: 1, ...(after !== undefined && { after }) }))[0];
  } catch (error) {
    if (!hasErrorCode(error, 'CORRUPT')) throw error;
    return undefined;
  }
}

/** A page of keys that are in order. */
export function pageOf<Key extends string>(sorted: readonly Key[], { after, limit }: Page<string>): Key[] {
  return sorted.filter((key) => after === undefined || key > after).slice(0, limit);
}

/** The order of ids and names: by their UTF-16 units. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Values are equal if their JSON form is, so `{tags: ["a"]}` finds that very list. */
function matchesMetadata(found: CheckpointHeader['metadata'], wanted: { readonly [key: string]: JsonValue }): boolean {
  const fields = fieldsOf(found ?? {});
  return Object.entries(wanted).every(
    ([key, value]) => fields.has(key) && JSON.stringify(fields.get(key)) === JSON.stringify(value),
  );
}

/** The fields of an encoded object by their names; objects with odd keys are tagged. */
export function fieldsOf(encoded: { readonly [key: string]: JsonValue }): ReadonlyMap<string, JsonValue> {
  const tagged = Object.keys(encoded)[0] === '$' ? encoded.$ : undefined;
  if (!Array.isArray(tagged)) return new Map(Object.entries(encoded));
  const [tag, content] = tagged as [string, JsonValue];
  if (tag === 'fields') return new Map(content as [string, JsonValue][]);
  return new Map(Object.entries(tag === 'object' ? (content as { [key: string]: JsonValue }) : encoded));
}
