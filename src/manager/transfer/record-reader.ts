import { StateCheck } from '../../core/codec/state-check.ts';
import { CorruptError, hasErrorCode, InvalidInputError, UnsupportedError } from '../../core/errors.ts';
import { findUnknownField } from '../../core/record/check-header.ts';
import { parseCheckpointBody } from '../../core/record/checkpoint.ts';
import type { CheckpointHeader, Tombstone } from '../../core/record/checkpoint-header.ts';
import { type CheckpointId, parseSessionId, type SessionId, timeOfId } from '../../core/record/id.ts';
import { type ChunkContent, createChunk, type Digest, isDigest } from '../../core/tree/chunk.ts';
import type { ValueLimits } from '../../core/value/format.ts';
import { checkMade, parseEffect } from '../effect/effect-record.ts';
import { parseTombstone } from '../engine/records.ts';
import { GROUP_TYPE, MAX_CHARS, SAID_FIELD_NAMES, SAID_FIELDS } from '../engine/save-options.ts';
import { checkGroupState } from '../group/group-state.ts';
import {
  chainLine,
  EXPORT_START,
  type ExportEnd,
  type ExportLine,
  type ExportStart,
  isExportedKind,
} from './export.ts';
import { atLine, describeFound, type LineSpool } from './lines.ts';
import { type KnownRecord, type NameLine, SessionNames } from './session-names.ts';

/** An exported session that was read to its end, and holds together. */
export type SessionFile = {
  readonly sessionId: SessionId;
  readonly refs: readonly NameLine[];
  readonly checkpoints: number;
  readonly chunks: number;
  readonly effects: number;
};

/**
 * What a file is held against. `states`: the limits of what its states may hold, and where its lines are kept, to read them; without
 * it, states are not read. `nowMs`: the clock here; without it, ids may be of any time.
 */
export type ReaderOptions = {
  readonly states?: { readonly limits: ValueLimits; readonly spool: LineSpool };
  readonly nowMs?: number;
};

/** What says where a record stands in its lineage. */
type Placed = Pick<CheckpointHeader, 'id' | 'parentId' | 'sequence' | 'metadata'> & Pick<Tombstone, 'folded'>;

/** Clocks differ by hours. What is later would be the newest of the storage until then, and later ids would follow it. */
const FAR_MS = 24 * 3600 * 1000;
/** No date is later. */
const MAX_DATE_MS = 8.64e15;
/** Sizes are estimates: of small states, and up to this factor, any is taken. */
const ANY_BYTES = 4_096;
const FAR_SIZE = 64;
/** What stands for a secret may be so many times as long. */
const GROWTH = 16;
/** No session counts as far. What goes on from a count that came in must have room to count on. */
const MAX_COUNT = 1e12;
const RESULTS = 'does not fit that it has a result, or none';

/**
 * Checks the lines of an exported session, one after the other: shapes, digests, ids and names, what they refer to, and that every
 * state and result can be loaded. Throws a CorruptError at the first line that is wrong.
 */
export class RecordReader {
  readonly #latestMs: number;
  readonly #states: StateCheck | undefined;
  readonly #spool: LineSpool | undefined;
  /** Where each chunk is in the spool. */
  readonly #chunks = new Map<Digest, number>();
  readonly #records = new Map<CheckpointId, KnownRecord>();
  readonly #keys = new Set<string>();
  readonly #names = new SessionNames();
  #hasSecrets = false;
  #sessionId: SessionId | undefined;
  #digest: Digest | '' = '';
  #lines = 0;
  #place = 0;
  #end: ExportEnd['end'] | undefined;
  #counts = { checkpoints: 0, chunks: 0, effects: 0 };

  constructor({ states, nowMs = Number.POSITIVE_INFINITY }: ReaderOptions) {
    this.#states = states && new StateCheck(states.limits);
    this.#spool = states?.spool;
    this.#latestMs = nowMs + FAR_MS;
  }

  /** Checks a line. Returns what it holds; undefined for the first and the last one. */
  read(text: string): ExportLine | undefined {
    if (this.#sessionId === undefined) return this.#begin(text);
    if (this.#end !== undefined) throw new CorruptError('The exported session goes on after its last line.');
    try {
      const line = parseLine(text);
      if ('end' in line) return this.#finish(line);
      this.#place = this.#spool?.add(text) ?? 0;
      this.#hasSecrets ||= text.includes('secret');
      const known = this.#check(line);
      this.#chain(text);
      return known;
    } catch (error) {
      throw atLine(this.#lines + 1, error);
    }
  }

  #finish(line: { readonly end?: unknown }): undefined {
    this.#end = line.end as ExportEnd['end'];
    checkKeys(line, ['end']);
    checkKeys(asFields(line.end), ['lines', 'digest']);
  }

  /** What was read, if it is all that was written. */
  finish(): SessionFile {
    if (this.#sessionId === undefined) throw notExported();
    if (this.#end === undefined) throw new CorruptError(`The exported session is cut off after line ${this.#lines}.`);
    if (this.#end?.lines !== this.#lines || this.#end.digest !== this.#digest) {
      throw new CorruptError(
        'The exported session was changed after it was written: its last line does not match the others.',
      );
    }
    this.#names.check(this.#records);
    return { sessionId: this.#sessionId, refs: this.#names.names, ...this.#counts };
  }

  #begin(text: string): undefined {
    const start = this.#parseStart(text);
    this.#sessionId = parseSessionId(start.sessionId);
    this.#chain(text);
  }

  #parseStart(text: string): ExportStart {
    try {
      return parseStart(text);
    } catch (error) {
      throw hasErrorCode(error, 'CORRUPT') ? atLine(1, error) : error;
    }
  }

  #chain(text: string): void {
    this.#digest = chainLine(this.#digest, text);
    this.#lines++;
  }

  #check(line: { readonly [kind: string]: unknown }): ExportLine {
    const [kind = '', ...more] = Object.keys(line);
    const shape = more.length === 0 ? SHAPES[kind] : undefined;
    if (shape === undefined || !fits(line[kind], shape))
      throw new CorruptError(`It is not what was written: found ${describeFound(line)}.`);
    checkKeys(asFields(line[kind]), Object.keys(shape));
    const known = line as ExportLine;
    if ('chunk' in known) this.#checkChunk(known.chunk);
    else if ('checkpoint' in known) this.#checkCheckpoint(known.checkpoint);
    else if ('tombstone' in known) this.#checkTombstone(known.tombstone);
    else if ('effect' in known) this.#checkEffect(known.effect);
    else this.#names.add(known.ref, this.#lines + 1);
    return known;
  }

  #checkChunk(content: ChunkContent): void {
    this.#checkRefs(content);
    this.#chunks.set(createChunk(content).digest, this.#place);
    this.#counts.chunks++;
  }

  /** Chunks come before what refers to them. */
  #checkRefs({ refs }: ChunkContent): void {
    const absent = refs.find((digest) => !this.#chunks.has(digest));
    if (absent !== undefined) throw new CorruptError(`Chunk ${absent} is missing.`, { details: { digest: absent } });
  }

  /** Reads a state or result. */
  #readValue(root: ChunkContent): ReturnType<StateCheck['read']> | undefined {
    this.#checkRefs(root);
    return this.#states?.read(root, (digest) => this.#findChunk(digest));
  }

  #findChunk(digest: Digest): ChunkContent {
    const line = JSON.parse(this.#spool?.get(this.#chunks.get(digest) ?? 0) ?? '');
    return (line as Extract<ExportLine, { chunk: unknown }>).chunk;
  }

  #checkCheckpoint({ body, digest, root }: Extract<ExportLine, { checkpoint: unknown }>['checkpoint']): void {
    const header = parseCheckpointBody(body, digest);
    checkBody(header, body, 'checkpoint');
    this.#checkSaid(header);
    this.#addRecord(header, { digest, isLive: true });
    this.#checkParent(header);
    this.#addKey(header.idempotencyKey);
    this.#names.addCheckpoint(header, this.#lines + 1);
    if (createChunk(root).digest !== header.stateDigest)
      throw new CorruptError(`The state of checkpoint ${header.id} does not match its digest.`);
    const state = this.#readValue(root);
    if (state !== undefined) this.#checkSize(header, state.sizeBytes);
    if (header.type === GROUP_TYPE && state !== undefined) checkGroupState(state.value);
    this.#counts.checkpoints++;
  }

  /** A size is about right; without its secrets a state may be much smaller than it was. */
  #checkSize({ id, stateBytes }: CheckpointHeader, found: number): void {
    const mayBeLess = this.#hasSecrets || stateBytes <= found * FAR_SIZE + ANY_BYTES;
    if (mayBeLess && found <= stateBytes * FAR_SIZE + ANY_BYTES) return;
    throw new CorruptError(`Checkpoint ${id} says that its state has ${stateBytes} bytes, and it has about ${found}.`);
  }

  /** A header is read for every list entry. What was left out of it may be shorter than what stands there instead. */
  #checkSaid(header: CheckpointHeader): void {
    const { id, timestampMs, schemaVersion = 0 } = header;
    const long = SAID_FIELD_NAMES.find((field) => {
      const said = header[field] ?? '';
      const chars = (typeof said === 'string' ? said : JSON.stringify(said)).length;
      return chars > MAX_CHARS[SAID_FIELDS[field]] * GROWTH;
    });
    if (long !== undefined) throw new CorruptError(`The ${long} of checkpoint ${id} is too long.`);
    if (timestampMs < 0) throw new CorruptError(`The time of checkpoint ${id} is ${timestampMs}, which no clock said.`);
    this.#checkTime(id, timestampMs);
    if (!Number.isSafeInteger(schemaVersion) || schemaVersion < 0)
      throw new CorruptError(`The schemaVersion of checkpoint ${id} is ${schemaVersion}.`);
  }

  #checkParent({ id, parentId, parentDigest, needsParent }: CheckpointHeader): void {
    const parent = parentId === undefined ? undefined : this.#records.get(parentId);
    if (parent?.digest !== parentDigest)
      throw new CorruptError(`The parent of checkpoint ${id} is not the one it was saved on.`);
    if (needsParent === true && parent?.isLive !== true)
      throw new CorruptError(`Checkpoint ${id} needs its parent, which was deleted.`);
  }

  #addKey(key: string | undefined): void {
    if (key === undefined) return;
    if (this.#keys.has(key)) throw new CorruptError(`Two checkpoints have the idempotency key ${JSON.stringify(key)}.`);
    this.#keys.add(key);
  }

  #checkTombstone({ body, digest }: Extract<ExportLine, { tombstone: unknown }>['tombstone']): void {
    const tombstone = parseTombstone({ body, digest });
    checkBody(tombstone, body, 'tombstone');
    this.#addRecord(tombstone, { digest, isLive: false });
  }

  /** Parents come first, as their ids do. */
  #addRecord(
    record: Placed & Pick<CheckpointHeader, 'sessionId' | 'branch'>,
    known: Pick<KnownRecord, 'digest' | 'isLive'>,
  ): void {
    const { id, sessionId, parentId, branch, sequence } = record;
    if (sessionId !== this.#sessionId)
      throw new CorruptError(`Checkpoint ${id} is of session ${JSON.stringify(sessionId)}.`);
    if (this.#records.has(id)) throw new CorruptError(`Checkpoint ${id} is there twice.`);
    if (parentId !== undefined && (!this.#records.has(parentId) || parentId >= id))
      throw new CorruptError(`The parent ${parentId} of checkpoint ${id} does not come before it.`);
    this.#checkTime(id, timeOfId(id));
    this.#checkSequence(record);
    this.#records.set(id, { ...known, branch, sequence });
  }

  /** What is saved later must sort after it, here too. */
  #checkTime(id: CheckpointId, timeMs: number): void {
    if (timeMs <= this.#latestMs) return;
    const now = new Date(this.#latestMs - FAR_MS).toISOString();
    const then = timeMs > MAX_DATE_MS ? timeMs : new Date(timeMs).toISOString();
    throw new CorruptError(
      `Checkpoint ${id} lies more than a day in the future (${then}; the clock here says ${now}). If that clock is wrong, set it.`,
      { details: { id } },
    );
  }

  /** Also what was deleted keeps its place. A copy of a thread leaves deleted checkpoints behind, and keeps the numbers. */
  #checkSequence({ id, parentId, sequence, metadata, folded = 0 }: Placed): void {
    const expected = this.#sequenceOf(parentId) + folded + 1;
    const isCopied = parentId === undefined && sequence > expected && metadata?.langgraph !== undefined;
    if ((sequence === expected || isCopied) && sequence <= MAX_COUNT) return;
    const place = `${expected} is its place after ${parentId ?? 'nothing'}`;
    throw new CorruptError(`Checkpoint ${id} has the sequence ${sequence}, and ${place}.`);
  }

  #sequenceOf(id: CheckpointId | undefined): number {
    return (id && this.#records.get(id)?.sequence) ?? 0;
  }

  #checkEffect(effect: Extract<ExportLine, { effect: unknown }>['effect']): void {
    const record = parseEffect({ ...effect, sessionId: this.#sessionId as SessionId });
    const { status } = record;
    checkMade(record, { maxCount: MAX_COUNT, latestMs: this.#latestMs });
    if ((status === 'done' || status === 'failed') !== (effect.result !== undefined))
      throw new CorruptError(`Effect ${effect.ordinal} of "${effect.branch}" is ${status}, which ${RESULTS}.`);
    this.#names.addEffect(effect.branch, effect.ordinal);
    if (effect.result !== undefined) this.#readValue(effect.result);
    this.#counts.effects++;
  }
}

function parseStart(text: string): ExportStart {
  if (text.startsWith('\ufeff'))
    throw new CorruptError('It begins with a byte order mark, which no export has. Save the file without it.');
  const start = parseLine(text) as Partial<ExportStart>;
  if (start.format !== EXPORT_START.format || typeof start.sessionId !== 'string') throw notExported();
  if (start.version !== EXPORT_START.version) {
    throw new UnsupportedError(
      `This session was exported in format version ${describeFound(start.version)}; this program reads version ${EXPORT_START.version}.`,
    );
  }
  checkKeys(start, Object.keys(EXPORT_START).concat('sessionId'));
  return start as ExportStart;
}

/** A name of a field that no export has was put there by others. */
function checkKeys(record: object, known: readonly string[]): void {
  const unknown = Object.keys(record).find((key) => !known.includes(key));
  if (unknown !== undefined) throw unknownField(unknown);
}

/** What a record says must be all that its text says. */
function checkBody(record: object, body: string, kind: 'checkpoint' | 'tombstone'): void {
  const unknown = findUnknownField(record, kind);
  if (unknown !== undefined) throw unknownField(unknown);
  if (JSON.stringify(JSON.parse(body)) !== body)
    throw new CorruptError('A record is not written as records are: a field comes twice, or there are spaces.');
}

function unknownField(field: string): CorruptError {
  return new CorruptError(`It has a field ${describeFound(field)}, which no export has.`, { details: { field } });
}

function notExported(): InvalidInputError {
  return new InvalidInputError(
    'This is not an exported session: the first line should name the format "savestate-session".',
  );
}

function parseLine(text: string): { readonly [key: string]: unknown } {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new CorruptError('It is not JSON.', { cause });
  }
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) return { ...json };
  throw new CorruptError('It is no record.');
}

function asFields(value: unknown): { readonly [field: string]: unknown } {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

const isText = (value: unknown): boolean => typeof value === 'string';
const CONTENT: Shape = { text: isText, refs: (value) => Array.isArray(value) && value.every(isDigest) };
const isContent = (value: unknown): boolean => fits(value, CONTENT) && Object.keys(asFields(value)).length === 2;

type Shape = { readonly [field: string]: (value: unknown) => boolean };

/** All fields of a line of each kind. The file comes from outside: they must be what their names say. */
const SHAPES: { readonly [kind: string]: Shape } = {
  chunk: CONTENT,
  checkpoint: { body: isText, digest: isDigest, root: isContent },
  tombstone: { body: isText, digest: isDigest },
  effect: {
    branch: isText,
    ordinal: Number.isSafeInteger,
    body: isText,
    digest: isDigest,
    result: (value) => value === undefined || isContent(value),
  },
  ref: { kind: isExportedKind, name: isText, target: isText },
};

function fits(value: unknown, shape: Shape): boolean {
  const fields = asFields(value);
  return Object.entries(shape).every(([field, isSound]) => isSound(fields[field]));
}
