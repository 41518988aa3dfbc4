import { Buffer } from 'node:buffer';
import { hash, randomUUID } from 'node:crypto';
import { CorruptError } from '../../core/errors.ts';
import { mapBounded } from '../../core/time/bounded.ts';
import { type Chunk, type Digest, formatChunk } from '../../core/tree/chunk.ts';
import { type ObjectPlace, readStub, STUB_START } from '../../core/tree/object-stub.ts';
import { isNamed, nameCheck } from '../named-bytes.ts';
import type { ObjectStore, StoredObject } from './object-store.ts';

/** A piece of an object. */
export type Span = { readonly from: number; readonly to: number };

/** What lies between two wanted pieces is read along if it is no longer than this: that is faster than a second request. */
const MAX_GAP_BYTES = 262_144;
const PARALLEL_READS = 8;

/** Objects are not made larger than this by joining chunks. */
const PACK_BYTES = 8 * 1024 * 1024;

const OBJECT_NAME = /^[0-9a-f]{64}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Whether an object was named here: beside ours, and below a prefix, may be what others keep. */
export const isObjectName = (name: string): boolean => OBJECT_NAME.test(name);

/** Some chunks as one object, and the chunks that stand for them in the storage. */
export type Pack = { readonly name: string; readonly bytes: Uint8Array; readonly stubs: readonly Chunk[] };

/** Joins chunks to objects. Each has a name that was never used before: what is to be deleted is never put again. */
export function packChunks(chunks: readonly Chunk[]): Pack[] {
  const packs: Pack[] = [];
  let group: Chunk[] = [];
  let size = 0;
  for (const chunk of chunks) {
    group.push(chunk);
    size += chunk.text.length;
    if (size < PACK_BYTES) continue;
    packs.push(toPack(group));
    group = [];
    size = 0;
  }
  return group.length === 0 ? packs : [...packs, toPack(group)];
}

function toPack(chunks: readonly Chunk[]): Pack {
  const parts = chunks.map(({ text }) => Buffer.from(text));
  const bytes = Buffer.concat(parts);
  const name = `${hash('sha256', bytes)}-${randomUUID()}`;
  let from = 0;
  const stubs = chunks.map(({ digest }, at) => {
    const to = from + (parts[at]?.length ?? 0);
    const stub = toStub(digest, { object: name, from, to });
    from = to;
    return stub;
  });
  return { name, bytes, stubs };
}

/** A chunk that names a place. It ends with a check, as its name is no digest of it. */
function toStub(digest: Digest, { object, from, to }: ObjectPlace): Chunk {
  const text = `${STUB_START}${object}.${from}.${to}`;
  return { digest, text: `${text}.${nameCheck(digest, text)}`, refs: [] };
}

type Wanted = ObjectPlace & { readonly digest: Digest };

/** Puts texts back in place of the stubs among some chunks. A missing or damaged one is a CorruptError that names its digest. */
export async function unpackChunks<Found extends Chunk | undefined>(
  objects: ObjectStore,
  chunks: readonly Found[],
): Promise<Found[]> {
  const wanted = chunks.flatMap((chunk): Wanted[] => {
    const place = chunk && readStub(chunk);
    return chunk === undefined || place === undefined ? [] : [{ ...place, digest: chunk.digest }];
  });
  if (wanted.length === 0) return [...chunks];
  const texts = new Map((await mapBounded(toRuns(wanted), PARALLEL_READS, (run) => readRun(objects, run))).flat());
  return chunks.map((chunk) => {
    const text = chunk && texts.get(chunk.digest);
    return text === undefined ? chunk : { ...chunk, text };
  });
}

/** What is read at once: pieces of one object that lie near each other. */
function toRuns(wanted: readonly Wanted[]): Wanted[][] {
  const sorted = [...wanted].sort((a, b) => (a.object < b.object ? -1 : a.object > b.object ? 1 : a.from - b.from));
  const runs: Wanted[][] = [];
  for (const piece of sorted) {
    const last = runs.at(-1)?.at(-1);
    const isNear = last?.object === piece.object && piece.from - last.to <= MAX_GAP_BYTES;
    if (isNear) runs.at(-1)?.push(piece);
    else runs.push([piece]);
  }
  return runs;
}

async function readRun(objects: ObjectStore, run: readonly Wanted[]): Promise<[Digest, string][]> {
  const [first] = run;
  if (first === undefined) return [];
  const { object, from } = first;
  const to = Math.max(...run.map((piece) => piece.to));
  const bytes = await objects.get(object, { from, to });
  return run.map((piece): [Digest, string] => {
    const { digest } = piece;
    const details = { digest, object };
    if (bytes === undefined)
      throw new CorruptError(`Chunk ${digest} is missing: the object ${object} is not there, or is cut off.`, {
        details,
      });
    const text = Buffer.from(bytes.subarray(piece.from - from, piece.to - from)).toString();
    if (!isNamed(Buffer.from(formatChunk({ text, refs: [] })), digest))
      throw new CorruptError(`Chunk ${digest} is damaged in the object ${object}. Run verify to see what it affects.`, {
        details,
      });
    return [digest, text];
  });
}

/** Makes zeros of what lies between the pieces of an object that are in use: what was deleted must not live on beside what was not. */
export async function blankUnused(objects: ObjectStore, object: StoredObject, used: readonly Span[]): Promise<void> {
  if (objects.replace === undefined || used.some(({ to }) => to > object.bytes)) return; // more than is there is used: verify says so
  const gaps = gapsBetween(used, object.bytes);
  if (gaps.length === 0) return;
  const bytes = await objects.get(object.name, { from: 0, to: object.bytes });
  if (bytes === undefined || gaps.every(({ from, to }) => bytes.subarray(from, to).every((byte) => byte === 0))) return;
  const kept = new Uint8Array(bytes);
  for (const { from, to } of gaps) kept.fill(0, from, to);
  await objects.replace(object.name, kept);
}

function gapsBetween(used: readonly Span[], end: number): Span[] {
  const gaps: Span[] = [];
  let from = 0;
  for (const span of [...used].sort((a, b) => a.from - b.from)) {
    if (span.from > from) gaps.push({ from, to: span.from });
    from = Math.max(from, span.to);
  }
  return end > from ? [...gaps, { from, to: end }] : gaps;
}
