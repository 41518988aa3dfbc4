import { Buffer, isAscii } from 'node:buffer';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Chunk, Digest } from '../../core/tree/chunk.ts';
import type { SqliteConnection } from '../database/sqlite-connection.ts';
import { type ChunkNumbers, readRefs } from './chunk-numbers.ts';
import { decodeText } from './sqlite-codec.ts';

/** Chunks read without giving way to others: some milliseconds' worth. */
const CHUNKS_PER_TURN = 2000;

const DIGEST_CHARS = 64;

const WANTED = 'FROM chunk WHERE n IN (SELECT value FROM json_each(?))';
const SELECT_LINES = `SELECT count(*) AS count, CAST(group_concat(n||':'||hex(refs)||':'||hex(prefix)||hex(rest)||text, char(10)) AS BLOB) AS lines ${WANTED} AND typeof(text)='text'`;
const SELECT_ALL = `SELECT n, hex(prefix)||hex(rest) AS digest, refs, text ${WANTED}`;
const SELECT_OTHERS = `${SELECT_ALL} AND typeof(text)<>'text'`;

type RowColumns = { n: number; digest: string; refs: Uint8Array | null; text: string | Uint8Array };

/** A chunk as it was read: its refs are digests only once all chunks have been read. */
type Row = { readonly digest: Digest; readonly text: string; readonly refs: Uint8Array | null };

/**
 * Reads whole trees of chunks. Those of a batch that are not compressed are joined to one text by SQLite, because
 * handing over a row costs more than reading it. JSON has no line feeds of its own, so they separate the rows.
 */
export async function readTree(
  connection: SqliteConnection,
  numbers: ChunkNumbers,
  roots: readonly Digest[],
): Promise<Chunk[]> {
  const rows = new Map<number, Row>();
  const wanted = await connection.read(() => {
    numbers.refresh();
    return roots.map((digest) => numbers.find(digest)).filter((n) => n !== undefined);
  });
  while (wanted.length > 0) {
    const batch = wanted.splice(-CHUNKS_PER_TURN);
    if (rows.size > 0) await nextTurn();
    const found = await connection.read(() => readBatch(connection, batch));
    for (const [n, row] of found) rows.set(n, row);
    const below = await connection.read(() => found.flatMap(([, { refs }]) => numbers.unpackNumbers(refs)));
    for (const n of new Set(below)) if (!rows.has(n)) wanted.push(n);
  }
  return connection.read(() => [...rows.values()].map((row) => toChunk(row, rows, numbers)));
}

/** The rows with these numbers, as far as they are there, in no particular order. */
export function readBatch(connection: SqliteConnection, wanted: readonly number[]): [number, Row][] {
  const list = JSON.stringify(wanted);
  const { count, lines } = connection.prepare(SELECT_LINES).get(list) as { count: number; lines: Uint8Array | null };
  const plain = lines === null ? [] : splitLines(lines);
  const isSeparable = plain.length === count;
  if (isSeparable && count === wanted.length) return plain;
  const others = connection.prepare(isSeparable ? SELECT_OTHERS : SELECT_ALL).all(list) as RowColumns[];
  const whole = others.map(({ n, digest, refs, text }): [number, Row] => [
    n,
    { digest: digest.toLowerCase() as Digest, text: decodeText(text), refs },
  ]);
  return isSeparable ? plain.concat(whole) : whole;
}

/**
 * As bytes: SQLite's driver makes one wide text of all if a single character of a single row is wide. Texts in ASCII are slices of one text
 * of a byte a character, so that the garbage collector has less to copy while they wait to be decoded.
 */
function splitLines(bytes: Uint8Array): [number, Row][] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const whole = buffer.toString('latin1');
  const isPlain = isAscii(buffer);
  const rows: [number, Row][] = [];
  for (let from = 0; from < whole.length; ) {
    const end = whole.indexOf('\n', from);
    const to = end === -1 ? whole.length : end;
    const refsAt = whole.indexOf(':', from) + 1;
    const digestAt = whole.indexOf(':', refsAt) + 1;
    const textAt = digestAt + DIGEST_CHARS;
    const digest = whole.slice(digestAt, textAt).toLowerCase() as Digest;
    const refs = digestAt - 1 === refsAt ? null : Buffer.from(whole.slice(refsAt, digestAt - 1), 'hex');
    const isSlice = isPlain || isAscii(buffer.subarray(textAt, to));
    const text = isSlice ? whole.slice(textAt, to) : buffer.toString('utf8', textAt, to);
    rows.push([Number(whole.slice(from, refsAt - 1)), { digest, text, refs }]);
    from = to + 1;
  }
  return rows;
}

function toChunk({ digest, text, refs }: Row, rows: ReadonlyMap<number, Row>, numbers: ChunkNumbers): Chunk {
  if (refs === null) return { digest, text, refs: [] };
  const stored = readRefs(refs);
  const known = stored.digests ?? stored.numbers.map((n) => rows.get(n)?.digest);
  return { digest, text, refs: known.every((ref) => ref !== undefined) ? known : numbers.unpack(refs) };
}
