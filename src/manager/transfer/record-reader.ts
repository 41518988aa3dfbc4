import { StateCheck } from '../../core/codec/state-check.ts';
import { CorruptError, hasErrorCode, InvalidInputError, UnsupportedError } from '../../core/errors.ts';
import { isRecord } from '../../core/options.ts';
import { type Check, findUnknownField, isText } from '../../core/record/check-header.ts';
import { parseCheckpointBody } from '../../core/record/checkpoint.ts';
import type { CheckpointHeader, Tombstone } from '../../core/record/checkpoint-header.ts';
import { type CheckpointId, parseSessionId, type SessionId, timeOfId } from '../../core/record/id.ts';
import { type ChunkContent, createChunk, type Digest, isDigest } from '../../core/tree/chunk.ts';
import type { ValueLimits } from '../../core/value/format.ts';
import { checkMade, parseEffect } from '../effect/effect-record.ts';
import { parseTombstone } from '../engine/records.ts';
import { GROUP_TYPE, MAX_CHARS, SAID_FIELD_NAMES, SAID_FIELDS } from '../engine/save-options.ts';
import { checkGroupState } from '../group/group-state.ts';
import { chainLine, EXPORT_START, type ExportEnd, type ExportLine, isExportedKind, type LineOf } from './export.ts';
import { atLine, type LineSpool } from './lines.ts';
import { type KnownRecord, type NameLine, SessionNames } from './session-names.ts';

/** An exported session that was read to its end, and holds together. */
export type SessionFile = {
  readonly sessionId: SessionId;
  readonly refs: readonly NameLine[];
  readonly checkpoints: number;
  readonly chunks: number;
  readonly effects: number;
};

/** What a file is held against: what its states may hold, where its lines are kept, and the clock here; without that, ids may be of any time. */
type ReaderOptions = { readonly limits: ValueLimits; readonly spool: LineSpool; readonly nowMs?: number };

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

/**
 * Checks the lines of an exported session, one after the other: shapes, digests, ids and names, what they refer to, and that every
 * state and result can be loaded. Throws a CorruptError at the first line that is wrong.
 */
export class RecordReader {
  readonly #latestMs: number;
  readonly #states: StateCheck;
  readonly #spool: LineSpool;
  /** Where each chunk is in the spool. */
  readonly #chunks = new Map<Digest, number>();
  readonly #records = new Map<CheckpointId, KnownRecord>();
  readonly #keys = new Set<string>();
  readonly #names = new SessionNames(this.#records);
  #hasSecrets = false;
  #sessionId: SessionId | undefined;
  #digest: Digest | '' = '';
  #lines = 0;
  #end: ExportEnd['end'] | undefined;
  #effects = 0;

  constructor({ limits, spool, nowMs = Number.POSITIVE_INFINITY }: ReaderOptions) {
    this.#states = new StateCheck(limits);
    this.#spool = spool;
    this.#latestMs = nowMs + FAR_MS;
  }

  /** Checks a line. */
  read(text: string): void {
    try {
      this.#read(text);
    } catch (error) {
      const isDamaged = this.#lines > 0 || hasErrorCode(error, 'CORRUPT'); // what begins otherwise is no export
      throw isDamaged ? atLine(this.#lines + 1, error) : error;
    }
  }

  #read(text: string): void {
    const line = parseLine(text);
    if (this.#sessionId === undefined) this.#sessionId = parseStart(line);
    else if (this.#end !== undefined) throw new CorruptError('The session goes on after its last line.');
    else {
      checkShape(line);
      if ('end' in line) {
        this.#end = line.end;
        return;
      }
      const place = this.#spool.add(text);
      this.#hasSecrets ||= text.includes('secret');
      this.#check(line, place);
    }
    this.#digest = chainLine(this.#digest, text);
    this.#lines++;
  }

  /** What was read, if it is all that was written. */
  finish(): SessionFile {
    if (this.#sessionId === undefined) throw notExported();
    if (this.#end === undefined) throw new CorruptError(`The exported session is cut off after line ${this.#lines}.`);
    if (this.#end.lines !== this.#lines || this.#end.digest !== this.#digest) {
      throw new CorruptError(
        'The exported session was changed after it was written: its last line does not match the others.',
      );
    }
    this.#names.check();
    return {
      sessionId: this.#sessionId,
      refs: this.#names.names,
      checkpoints: [...this.#records.values()].filter(({ isLive }) => isLive).length,
      chunks: this.#chunks.size,
      effects: this.#effects,
    };
  }

  #check(line: ExportLine, place: number): void {
    if ('chunk' in line) {
      this.#checkRefs(line.chunk);
      this.#chunks.set(createChunk(line.chunk).digest, place);
    } else if ('checkpoint' in line) this.#checkCheckpoint(line.checkpoint);
    else if ('tombstone' in line) this.#checkTombstone(line.tombstone);
    else if ('effect' in line) this.#checkEffect(line.effect);
    else this.#names.add(line.ref, this.#lines + 1);
  }

  /** Chunks come before what refers to them. */
  #checkRefs({ refs }: ChunkContent): void {
    const absent = refs.find((digest) => !this.#chunks.has(digest));
    if (absent !== undefined) throw new CorruptError(`Chunk ${absent} is missing.`, { details: { digest: absent } });
  }

  #readValue(root: ChunkContent): ReturnType<StateCheck['read']> {
    this.#checkRefs(root);
    return this.#states.read(root, (digest) => {
      const line = JSON.parse(this.#spool.get(this.#chunks.get(digest) ?? 0)) as { readonly chunk: ChunkContent };
      return line.chunk;
    });
  }

  #checkCheckpoint({ body, digest, root }: LineOf<'checkpoint'>): void {
    const header = parseCheckpointBody(body, digest);
    checkBody(header, body, 'checkpoint');
    this.#checkSaid(header);
    this.#addRecord(header, { digest, isLive: true });
    this.#checkParent(header);
    this.#addKey(header.idempotencyKey);
    this.#names.addCheckpoint(header, this.#lines + 1);
    if (createChunk(root).digest !== header.stateDigest)
      throw new CorruptError(`The state of checkpoint ${header.id} does not match its digest.`);
    const { value, sizeBytes } = this.#readValue(root);
    this.#checkSize(header, sizeBytes);
    if (header.type === GROUP_TYPE) checkGroupState(value);
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
    const parent = parentId && this.#records.get(parentId);
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

  #checkTombstone({ body, digest }: LineOf<'tombstone'>): void {
    const tombstone = parseTombstone({ body, digest });
    checkBody(tombstone, body, 'tombstone');
    this.#addRecord(tombstone, { digest, isLive: false });
  }

  /** Parents come first, as their ids do. */
  #addRecord(record: CheckpointHeader | Tombstone, known: Pick<KnownRecord, 'digest' | 'isLive'>): void {
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
  #checkSequence(record: CheckpointHeader | Tombstone): void {
    const { id, parentId, sequence } = record;
    const { folded = 0, metadata }: Partial<Tombstone & CheckpointHeader> = record;
    const expected = this.#sequenceOf(parentId) + folded + 1;
    const isCopied = parentId === undefined && sequence > expected && metadata?.langgraph !== undefined;
    if ((sequence === expected || isCopied) && sequence <= MAX_COUNT) return;
    const place = `${expected} is its place after ${parentId ?? 'nothing'}`;
    throw new CorruptError(`Checkpoint ${id} has the sequence ${sequence}, and ${place}.`);
  }

  #sequenceOf(id: CheckpointId | undefined): number {
    return (id && this.#records.get(id)?.sequence) ?? 0;
  }

  #checkEffect(effect: LineOf<'effect'>): void {
    const record = parseEffect({ ...effect, sessionId: this.#sessionId as SessionId });
    const { status } = record;
    checkMade(record, { maxCount: MAX_COUNT, latestMs: this.#latestMs });
    if ((status === 'done' || status === 'failed') !== (effect.result !== undefined))
      throw new CorruptError(
        `Effect ${effect.ordinal} of "${effect.branch}" is ${status}, which does not fit that it has a result, or none.`,
      );
    this.#names.addEffect(effect.branch, effect.ordinal);
    if (effect.result !== undefined) this.#readValue(effect.result);
    this.#effects++;
  }
}

type Fields = { readonly [field: string]: unknown };

function parseLine(text: string): Fields {
  if (text.startsWith('\ufeff'))
    throw new CorruptError('It begins with a byte order mark, which no export has. Save the file without it.');
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new CorruptError('It is not JSON.', { cause });
  }
  if (isRecord(json)) return json;
  throw new CorruptError('It is no record.');
}

function parseStart({ sessionId, ...format }: Fields): SessionId {
  if (format.format !== EXPORT_START.format || typeof sessionId !== 'string') throw notExported();
  if (format.version !== EXPORT_START.version) {
    throw new UnsupportedError(
      `This session was exported in format version ${describeFound(format.version)}; this program reads version ${EXPORT_START.version}.`,
    );
  }
  const unknown = Object.keys(format).find((field) => !Object.hasOwn(EXPORT_START, field));
  if (unknown !== undefined) throw unknownField(unknown);
  return parseSessionId(sessionId);
}

function notExported(): InvalidInputError {
  return new InvalidInputError(
    'This is not an exported session: the first line should name the format "savestate-session".',
  );
}

/** What a record says must be all that its text says; a field that no export has was put there by others. */
function checkBody(record: object, body: string, kind: 'checkpoint' | 'tombstone'): void {
  const unknown = findUnknownField(record, kind);
  if (unknown !== undefined) throw unknownField(unknown);
  if (JSON.stringify(JSON.parse(body)) !== body)
    throw new CorruptError('A record is not written as records are: a field comes twice, or there are spaces.');
}

function unknownField(field: string): CorruptError {
  return new CorruptError(`It has a field ${describeFound(field)}, which no export has.`, { details: { field } });
}

/** Throws a CorruptError unless a line is one of ours, with all its fields and no other. */
function checkShape(line: Fields): asserts line is ExportLine | ExportEnd {
  const [kind = '', ...more] = Object.keys(line);
  if (more.length > 0 || !Object.hasOwn(SHAPES, kind) || SHAPES[kind]?.(line[kind]) !== true)
    throw new CorruptError(`It is not what was written: found ${describeFound(line)}.`);
}

/** Whether a value has fields of these kinds, and no other. The file comes from outside. */
const shaped =
  (checks: { readonly [field: string]: Check }): Check =>
  (value) =>
    isRecord(value) &&
    Object.keys({ ...checks, ...value }).every(
      (field) => Object.hasOwn(checks, field) && checks[field]?.(value[field]) === true,
    );

const isContent = shaped({ text: isText, refs: (value) => Array.isArray(value) && value.every(isDigest) });

const SHAPES: { readonly [kind: string]: Check } = {
  chunk: isContent,
  checkpoint: shaped({ body: isText, digest: isDigest, root: isContent }),
  tombstone: shaped({ body: isText, digest: isDigest }),
  effect: shaped({
    branch: isText,
    ordinal: Number.isSafeInteger,
    body: isText,
    digest: isDigest,
    result: (value) => value === undefined || isContent(value),
  }),
  ref: shaped({ kind: isExportedKind, name: isText, target: isText }),
  end: shaped({ lines: Number.isSafeInteger, digest: isDigest }),
};

function describeFound(value: unknown): string {
  const text = value === undefined ? 'nothing' : JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}...` : text;
}
