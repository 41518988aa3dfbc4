import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Chunk, Digest } from '../../core/chunk.ts';
import { type ChunkNumbers, readRefs } from './chunk-numbers.ts';
import { decodeText } from './sqlite-codec.ts';
import type { SqliteConnection } from './sqlite-connection.ts';

/** Chunks read without giving way to others: some milliseconds' worth. */
const CHUNKS_PER_TURN = 2000;

const DIGEST_CHARS = 64;

/** A chunk as it was read: its refs are digests only once all chunks have been read. */
type Row = { readonly digest: Digest; readonly text: string; readonly refs: Uint8Array | null };

/**
 * Reads whole trees of chunks. Most chunks are plain texts without refs: those of a batch are joined to one text by SQLite, because
 * handing over a row costs more than reading it. JSON has no line feeds of its own, so they separate the rows.
 */
export async function readTree(
  connection: SqliteConnection,
  numbers: ChunkNumbers,
  roots: readonly Digest[],
): Promise<Chunk[]> {
  const rows = new Map<number, Row>();
  const read = (wanted: readonly number[]) => connection.read(() => readBatch(connection, wanted));
  let wanted = await connection.read(() => roots.map((digest) => numbers.find(digest)).filter((n) => n !== undefined));
  while (wanted.length > 0) {
    const below = new Set<number>();
    for (let at = 0; at < wanted.length; at += CHUNKS_PER_TURN) {
      if (rows.size > 0) await nextTurn();
      for (const [n, row] of await read(wanted.slice(at, at + CHUNKS_PER_TURN))) {
        rows.set(n, row);
        for (const child of numbers.unpackNumbers(row.refs)) below.add(child);
      }
    }
    wanted = [...below].filter((n) => !rows.has(n));
  }
  return connection.read(() => [...rows.values()].map((row) => toChunk(row, rows, numbers)));
}

function readBatch(connection: SqliteConnection, wanted: readonly number[]): [number, Row][] {
  const list = JSON.stringify(wanted);
  const plain = connection
    .prepare(
      "SELECT count(*) AS count, group_concat(n||':'||hex(prefix)||hex(rest)||text, char(10)) AS lines FROM chunk WHERE n IN (SELECT value FROM json_each(?)) AND refs IS NULL AND typeof(text)='text'",
    )
    .get(list) as { count: number; lines: string | null };
  const rows = plain.lines === null ? [] : plain.lines.split('\n').map(parseLine);
  const isSeparable = rows.length === plain.count;
  const condition = isSeparable ? "AND (refs IS NOT NULL OR typeof(text)<>'text')" : '';
  const others = connection
    .prepare(
      `SELECT n, hex(prefix)||hex(rest) AS digest, refs, text FROM chunk WHERE n IN (SELECT value FROM json_each(?)) ${condition}`,
    )
    .all(list) as { n: number; digest: string; refs: Uint8Array | null; text: string | Uint8Array }[];
  const whole = others.map(({ n, digest, refs, text }): [number, Row] => [
    n,
    { digest: digest.toLowerCase() as Digest, text: decodeText(text), refs },
  ]);
  return isSeparable ? rows.concat(whole) : whole;
}

function parseLine(line: string): [number, Row] {
  const at = line.indexOf(':') + 1;
  const digest = line.slice(at, at + DIGEST_CHARS).toLowerCase() as Digest;
  return [Number(line.slice(0, at - 1)), { digest, text: line.slice(at + DIGEST_CHARS), refs: null }];
}

function toChunk({ digest, text, refs }: Row, rows: ReadonlyMap<number, Row>, numbers: ChunkNumbers): Chunk {
  if (refs === null) return { digest, text, refs: [] };
  const stored = readRefs(refs);
  const known = stored.digests ?? stored.numbers.map((n) => rows.get(n)?.digest);
  return { digest, text, refs: known.every((ref) => ref !== undefined) ? known : numbers.unpack(refs) };
}
