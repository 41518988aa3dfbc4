import { statSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { messageOf, SavestateError } from '../../core/errors.ts';
import type { SessionId } from '../../core/record/id.ts';
import { OBJECTS_FINDING } from '../../core/tree/object-stub.ts';
import { decodeEffect, type EffectColumns } from '../database/sql-reader.ts';
import type { SqliteConnection } from '../database/sqlite-connection.ts';
import { sqliteModuleName } from '../database/sqlite-driver.ts';
import { checkEffect, checkFiled, describeEffect, eachRow, type FiledColumns, readOrUndefined } from '../marks.ts';
import { type ChunkNumbers, readRefs } from './chunk-numbers.ts';
import { checkGoesOn, DIGEST_BYTES, decodeRecord, PREFIX_BYTES, unpackDigest } from './sqlite-codec.ts';
import { type SqliteForm, sqliteCodec } from './sqlite-reader.ts';
import { findSchemaDamage, IS_STUB } from './sqlite-schema.ts';

/** Few, because a row may hold a large result. */
const ROWS_PER_PAGE = 50;

type Findings = Iterable<string> | AsyncIterable<string> | Promise<string[]>;
type Check = (connection: SqliteConnection, numbers: ChunkNumbers) => Findings;
type Numbered = { readonly n: number; readonly refs: Uint8Array | null };
type CheckpointColumns = Omit<FiledColumns, 'isDeleted' | 'hasRoot'> &
  Numbered & { isDeleted: number; hasRoot: number; digest: Uint8Array; body: string | Uint8Array };
type StoredEffect = Omit<EffectColumns<SqliteForm>, 'session'> &
  Numbered & { readonly session: SessionId | null; readonly mark: string };

/** What SQLite and our own rules find damaged. A check that cannot go on says so and leaves the rest to the others. */
export async function findDamage(connection: SqliteConnection, numbers: ChunkNumbers): Promise<string[]> {
  const findings: string[] = [];
  for (const check of CHECKS) {
    try {
      for await (const finding of await check(connection, numbers)) findings.push(finding);
    } catch (error) {
      if (error instanceof SavestateError && error.code === 'CLOSED') throw error;
      findings.push(`A check could not be finished: ${messageOf(error)}`);
    }
  }
  return [...new Set(findings)];
}

const CHECKS: readonly Check[] = [
  async (connection) => connection.read(() => []),
  checkFile,
  ({ db }) => findSchemaDamage(db),
  checkCheckpoints,
  checkEffects,
  checkChunks,
  checkObjects,
  checkSessions,
  checkEpoch,
];

async function* checkCheckpoints(connection: SqliteConnection): AsyncGenerator<string> {
  const sql = `SELECT c.n, c.id, s.name AS session, c.deleted AS isDeleted, c.timestamp AS timestampMs, c.branch, c.type, c.status, c.agent, c.user AS userId, c.idempotency, c.mark, c.digest, c.body, c.root_refs AS refs, c.root_text IS NOT NULL AS hasRoot FROM checkpoint c LEFT JOIN session s ON s.n=c.session WHERE c.n>? ORDER BY c.n`;
  for await (const row of rowsOf<CheckpointColumns>(connection, sql)) {
    const { id, session, digest } = row;
    const where = `Checkpoint ${id}`;
    if (session === null) yield `${where} belongs to a session that is not there.`;
    if (digest.length !== DIGEST_BYTES) yield `${where} has a digest of ${digest.length} bytes.`;
    if (!isRefs(row)) yield `${where} has a damaged list of references.`;
    const filed = { ...row, isDeleted: row.isDeleted !== 0, hasRoot: row.hasRoot !== 0 };
    yield* checkFiled(filed, () => ({ digest: unpackDigest(digest), body: decodeRecord(row) }));
  }
}

async function* checkEffects(connection: SqliteConnection, numbers: ChunkNumbers): AsyncGenerator<string> {
  numbers.refresh();
  const codec = sqliteCodec(numbers);
  const sql =
    'SELECT e.n, s.name AS session, e.branch, e.ordinal, e.mark, hex(e.digest) AS digest, e.body, e.text, e.refs FROM effect e LEFT JOIN session s ON s.n=e.session WHERE e.n>? ORDER BY e.n';
  for await (const row of rowsOf<StoredEffect>(connection, sql)) {
    const { session } = row;
    if (!isRefs(row)) yield `${describeEffect(row)} has a damaged list of references.`;
    else if (session === null) yield `${describeEffect(row)} belongs to a session that is not there.`;
    else yield* checkEffect(row, () => decodeEffect({ ...row, session }, codec));
  }
}

async function* checkChunks(connection: SqliteConnection): AsyncGenerator<string> {
  type Columns = Numbered & { prefix: string; digestBytes: number; prefixBytes: number; textType: string };
  const sql =
    'SELECT n, hex(prefix) AS prefix, length(prefix) + length(rest) AS digestBytes, length(prefix) AS prefixBytes, refs, typeof(text) AS textType FROM chunk WHERE n>? ORDER BY n';
  for await (const row of rowsOf<Columns>(connection, sql)) {
    const where = `The chunk whose digest starts with ${row.prefix.toLowerCase()}`;
    if (row.prefixBytes !== PREFIX_BYTES || row.digestBytes !== DIGEST_BYTES) yield `${where} has a damaged digest.`;
    if (!isRefs(row)) yield `${where} has a damaged list of references.`;
    if (row.textType !== 'text' && row.textType !== 'blob') yield `${where} has no text.`;
  }
}

function checkObjects({ db }: SqliteConnection): string[] {
  return db.prepare(`SELECT 1 FROM chunk WHERE ${IS_STUB} LIMIT 1`).get() === undefined ? [] : [OBJECTS_FINDING];
}

function checkSessions({ db }: SqliteConnection): string[] {
  const sql = 'SELECT DISTINCT r.session FROM ref r LEFT JOIN session s ON s.n=r.session WHERE s.n IS NULL';
  const rows = db.prepare(sql).all() as { session: number }[];
  return rows.map(({ session }) => `Branches or tags belong to session number ${session}, which is not there.`);
}

function checkEpoch({ db }: SqliteConnection): string[] {
  const rows = db.prepare('SELECT typeof(value) AS type FROM epoch').all() as { type: string }[];
  const isWhole = rows.length === 3 && rows.every(({ type }) => type === 'integer');
  return isWhole ? [] : ['The counts of removed sessions and chunks are damaged.'];
}

/** Whether a list of refs can be read. Whether they are there and the right ones, the digests above will tell. */
function isRefs({ refs }: Numbered): boolean {
  return readOrUndefined(() => readRefs(refs)) !== undefined;
}

/** Every row of a query that goes on after a number. */
function rowsOf<Row extends Numbered>(connection: SqliteConnection, sql: string): AsyncGenerator<Row> {
  const statement = `${sql} LIMIT ${ROWS_PER_PAGE}`;
  return eachRow(ROWS_PER_PAGE, (last: Row | undefined) => {
    const after = last?.n ?? Number.MIN_SAFE_INTEGER;
    return checkGoesOn(connection.prepare(statement).all(after) as Row[], (n) => n > after);
  });
}

/** SQLite checks a smaller file in a few milliseconds. */
const INLINE_BYTES = 1024 * 1024;

/** SQLite stops at 100 findings unless told otherwise; beyond this many a list helps nobody. */
const MAX_FINDINGS = 10_000;

const PRAGMA = `PRAGMA integrity_check(${MAX_FINDINGS})`;

/** Plain JavaScript, because a worker has no part in how this module was loaded. */
const WORKER = `
const { parentPort, workerData } = require('node:worker_threads');
process.removeAllListeners('warning');
const { DatabaseSync } = require(workerData.module);
const db = new DatabaseSync(workerData.path, { readOnly: true });
db.exec('PRAGMA busy_timeout=10000; PRAGMA cell_size_check=ON');
parentPort.postMessage(db.prepare(workerData.pragma).all().map((row) => row.integrity_check));
db.close();
`;

/** What SQLite itself finds damaged. Reads the whole file in one call, so a large one is checked in a thread of its own. */
async function checkFile(connection: SqliteConnection): Promise<string[]> {
  const isSmall = statSync(connection.path).size <= INLINE_BYTES;
  const found = isSmall ? connection.db.prepare(PRAGMA).all().map(findingOf) : await checkInWorker(connection.path);
  return found.filter((message) => message !== 'ok').map((message) => `SQLite: ${message}`);
}

function findingOf(row: unknown): string {
  return (row as { integrity_check: string }).integrity_check;
}

function checkInWorker(path: string): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const workerData = { path, module: sqliteModuleName(), pragma: PRAGMA };
    const worker = new Worker(WORKER, { eval: true, workerData, stderr: true, execArgv: [] });
    worker.once('message', resolve);
    worker.once('error', reject);
    worker.once('exit', () => reject(new Error(`the check of ${path} ended without a result`)));
  });
}
