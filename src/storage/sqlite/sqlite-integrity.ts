import { messageOf, SavestateError } from '../../core/errors.ts';
import type { SessionId } from '../../core/record/id.ts';
import { Breather } from '../breather.ts';
import type { SqliteConnection } from '../database/sqlite-connection.ts';
import { checkFiled, effectCheck, type FiledColumns, readOrUndefined } from '../marks.ts';
import { type ChunkNumbers, readRefs } from './chunk-numbers.ts';
import { checkFile } from './integrity-check.ts';
import { DIGEST_BYTES, decodeText, PREFIX_BYTES, unpackDigest } from './sqlite-codec.ts';
import { decodeEffect, type EffectColumns } from './sqlite-reader.ts';
import { findSchemaDamage } from './sqlite-schema.ts';

/** Few, because a row may hold a large result. */
const ROWS_PER_PAGE = 50;

type Check = (
  connection: SqliteConnection,
  numbers: ChunkNumbers,
) => Iterable<string> | AsyncIterable<string> | Promise<string[]>;
type CheckpointColumns = Omit<FiledColumns, 'isDeleted' | 'hasRoot'> &
  StoredRefs & { isDeleted: number; hasRoot: number; digest: Uint8Array; body: string | Uint8Array };
type StoredEffect = Omit<EffectColumns, 'session'> & { n: number; session: SessionId | null; mark: string };

/** What SQLite and our own rules find damaged. A check that cannot go on says so and leaves the rest to the others. */
export async function findDamage(connection: SqliteConnection, numbers: ChunkNumbers): Promise<string[]> {
  const checks: Check[] = [
    checkPlace,
    checkFile,
    checkSchema,
    checkCheckpoints,
    checkEffects,
    checkChunks,
    checkSessions,
    checkEpoch,
  ];
  const findings: string[] = [];
  for (const check of checks) {
    try {
      for await (const finding of inTurns(await check(connection, numbers))) findings.push(finding);
    } catch (error) {
      if (error instanceof SavestateError && error.code === 'CLOSED') throw error;
      findings.push(`A check could not be finished: ${messageOf(error)}`);
    }
  }
  return [...new Set(findings)];
}

/** Lets others take their turn between rows; each row that is in order gives an empty finding. */
async function* inTurns(findings: Iterable<string> | AsyncIterable<string>): AsyncGenerator<string> {
  const breather = new Breather();
  for await (const finding of findings) {
    await breather.breathe();
    if (finding !== '') yield finding;
  }
}

async function checkPlace(connection: SqliteConnection): Promise<string[]> {
  await connection.read(() => undefined);
  return [];
}

function checkSchema(connection: SqliteConnection): string[] {
  return findSchemaDamage(connection.db);
}

function* checkCheckpoints(connection: SqliteConnection): Generator<string> {
  const sql = `SELECT c.n, c.id, s.name AS session, c.deleted AS isDeleted, c.timestamp AS timestampMs, c.branch, c.type, c.status, c.agent, c.user AS userId, c.idempotency, c.mark, c.digest, c.body, c.root_refs AS refs, c.root_text IS NOT NULL AS hasRoot FROM checkpoint c LEFT JOIN session s ON s.n=c.session WHERE c.n>? ORDER BY c.n LIMIT ${ROWS_PER_PAGE}`;
  for (const row of pages<CheckpointColumns>(connection, sql)) {
    yield '';
    yield* checkCheckpoint(row);
  }
}

function* checkCheckpoint(row: CheckpointColumns): Generator<string> {
  const { id, session, digest, body } = row;
  const where = `Checkpoint ${id}`;
  if (session === null) yield `${where} belongs to a session that is not there.`;
  if (digest.length !== DIGEST_BYTES) yield `${where} has a digest of ${digest.length} bytes.`;
  if (!isRefs(row)) yield `${where} has a damaged list of references.`;
  const filed = { ...row, isDeleted: row.isDeleted !== 0, hasRoot: row.hasRoot !== 0 };
  yield* checkFiled(filed, () => ({ digest: unpackDigest(digest), body: decodeText(body) }));
}

function* checkEffects(connection: SqliteConnection, numbers: ChunkNumbers): Generator<string> {
  numbers.refresh();
  const sql = `SELECT e.n, s.name AS session, e.branch, e.ordinal, e.mark, e.digest, e.body, e.text, e.refs FROM effect e LEFT JOIN session s ON s.n=e.session WHERE e.n>? ORDER BY e.n LIMIT ${ROWS_PER_PAGE}`;
  for (const row of pages<StoredEffect>(connection, sql)) {
    yield '';
    yield* checkEffect(row, numbers);
  }
}

function* checkEffect(row: StoredEffect, numbers: ChunkNumbers): Generator<string> {
  const { session, ...columns } = row;
  const where = `Effect ${row.ordinal} of branch "${row.branch}" of session "${session}"`;
  if (!isRefs(row)) yield `${where} has a damaged list of references.`;
  else if (session === null) yield `${where} belongs to a session that is not there.`;
  else if (readOrUndefined(() => effectCheck(decodeEffect({ ...columns, session }, numbers))) !== row.mark)
    yield `${where} is damaged.`;
}

function* checkChunks(connection: SqliteConnection): Generator<string> {
  const sql = `SELECT n, hex(prefix) AS prefix, length(prefix) + length(rest) AS digest_bytes, length(prefix) AS prefix_bytes, refs, typeof(text) AS text_type FROM chunk WHERE n>? ORDER BY n LIMIT ${ROWS_PER_PAGE}`;
  type Columns = StoredRefs & {
    n: number;
    prefix: string;
    digest_bytes: number;
    prefix_bytes: number;
    text_type: string;
  };
  for (const row of pages<Columns>(connection, sql)) {
    yield '';
    const where = `The chunk whose digest starts with ${row.prefix.toLowerCase()}`;
    if (row.prefix_bytes !== PREFIX_BYTES || row.digest_bytes !== DIGEST_BYTES) yield `${where} has a damaged digest.`;
    if (!isRefs(row)) yield `${where} has a damaged list of references.`;
    if (row.text_type !== 'text' && row.text_type !== 'blob') yield `${where} has no text.`;
  }
}

function* checkSessions(connection: SqliteConnection): Generator<string> {
  const sql = 'SELECT DISTINCT r.session FROM ref r LEFT JOIN session s ON s.n=r.session WHERE s.n IS NULL';
  for (const { session } of connection.db.prepare(sql).all() as { session: number }[]) {
    yield `Branches or tags belong to session number ${session}, which is not there.`;
  }
}

function* checkEpoch(connection: SqliteConnection): Generator<string> {
  const rows = connection.db.prepare('SELECT n, typeof(value) AS type FROM epoch').all() as {
    n: number;
    type: string;
  }[];
  if (rows.length !== 3 || rows.some(({ type }) => type !== 'integer'))
    yield 'The counts of removed sessions and chunks are damaged.';
}

type StoredRefs = { n: number; refs: Uint8Array | null };

/** Whether a list of refs can be read. Whether they are there and the right ones, the digests above will tell. */
function isRefs({ refs }: StoredRefs): boolean {
  return readOrUndefined(() => readRefs(refs)) !== undefined;
}

/** Every row of a query that is paged by number. */
function* pages<Row extends { n: number }>(connection: SqliteConnection, sql: string): Generator<Row> {
  for (let last = Number.MIN_SAFE_INTEGER, isDone = false; !isDone; ) {
    const rows = connection.prepare(sql).all(last) as Row[];
    yield* rows;
    isDone = rows.length < ROWS_PER_PAGE;
    last = rows.at(-1)?.n ?? last;
  }
}
