import { type ChunkMeasure, checkMeasure, measureChunk } from '../../core/codec/measure.ts';
import { CorruptError, hasErrorCode, InvalidInputError, UnsupportedError } from '../../core/errors.ts';
import { parseCheckpointBody } from '../../core/record/checkpoint.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import { type CheckpointId, isCheckpointId, isName, parseSessionId, type SessionId } from '../../core/record/id.ts';
import { type ChunkContent, createChunk, type Digest, isDigest } from '../../core/tree/chunk.ts';
import type { ValueLimits } from '../../core/value/format.ts';
import type { Ref } from '../../storage/contract.ts';
import { parseEffect } from '../effect/effect-record.ts';
import { parseTombstone } from '../engine/tombstone.ts';
import {
  chainLine,
  EXPORT_START,
  type ExportEnd,
  type ExportLine,
  type ExportStart,
  isExportedKind,
} from './export.ts';

/** An exported session that was read to its end, and holds together. */
export type SessionFile = {
  readonly sessionId: SessionId;
  readonly refs: readonly Pick<Ref, 'kind' | 'name' | 'target'>[];
  readonly checkpoints: number;
  readonly chunks: number;
  readonly effects: number;
};

type Known = { readonly digest: Digest; readonly isLive: boolean };

/**
 * Checks the lines of an exported session, one after the other: shapes, digests, ids and names, what they refer to, and that every
 * state and result can be read within the limits. Each chunk is read once. Throws a CorruptError at the first line that is wrong.
 */
export class RecordReader {
  readonly #limits: ValueLimits;
  readonly #measures = new Map<Digest, ChunkMeasure>();
  readonly #records = new Map<CheckpointId, Known>();
  readonly #keys = new Set<string>();
  readonly #logs = new Map<string, number>();
  readonly #refs: SessionFile['refs'][number][] = [];
  #sessionId: SessionId | undefined;
  #digest: Digest | '' = '';
  #lines = 0;
  #end: ExportEnd['end'] | undefined;
  #counts = { checkpoints: 0, chunks: 0, effects: 0 };

  constructor(limits: ValueLimits) {
    this.#limits = limits;
  }

  /** Checks a line. Returns what it holds; undefined for the first and the last one. */
  read(text: string): ExportLine | undefined {
    if (this.#sessionId === undefined) return this.#begin(text);
    if (this.#end !== undefined) throw new CorruptError('The exported session goes on after its last line.');
    const line = parseLine(text);
    if ('end' in line) {
      this.#end = line.end as ExportEnd['end'];
      return undefined;
    }
    this.#chain(text);
    try {
      return this.#check(line);
    } catch (error) {
      throw this.#locate(error);
    }
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
    for (const ref of this.#refs) this.#checkRef(ref);
    const marked = new Set(this.#refs.flatMap(({ kind, name }) => (kind === 'log' ? [name] : [])));
    const loose = [...this.#logs.keys()].find((name) => !marked.has(name));
    if (loose !== undefined)
      throw new CorruptError(`The exported session has effects of "${loose}", and no log of it.`);
    return { sessionId: this.#sessionId, refs: this.#refs, ...this.#counts };
  }

  #begin(text: string): undefined {
    const start = parseStart(text);
    this.#sessionId = parseSessionId(start.sessionId);
    this.#chain(text);
  }

  #chain(text: string): void {
    this.#digest = chainLine(this.#digest, text);
    this.#lines++;
  }

  /** What is wrong with a line is damage of the file, whatever it would be elsewhere. */
  #locate(error: unknown): unknown {
    const isOurs = hasErrorCode(error, 'CORRUPT') || hasErrorCode(error, 'INVALID_INPUT');
    if (!isOurs) return error;
    const { message, details } = error as CorruptError;
    return new CorruptError(`The exported session cannot be brought in: line ${this.#lines}: ${message}`, {
      cause: error,
      details: { ...details, line: this.#lines },
    });
  }

  #check(line: { readonly [kind: string]: unknown }): ExportLine {
    const [kind = '', ...more] = Object.keys(line);
    const isSound = more.length === 0 && SHAPES[kind]?.(asFields(line[kind])) === true;
    if (!isSound) throw new CorruptError('It is not what was written.');
    const known = line as ExportLine;
    if ('chunk' in known) this.#checkChunk(known.chunk);
    else if ('checkpoint' in known) this.#checkCheckpoint(known.checkpoint);
    else if ('tombstone' in known) this.#checkTombstone(known.tombstone);
    else if ('effect' in known) this.#checkEffect(known.effect);
    else this.#refs.push(known.ref);
    return known;
  }

  #measure(content: ChunkContent): ChunkMeasure {
    return measureChunk(content, (digest) => this.#measures.get(digest));
  }

  #checkChunk(content: ChunkContent): void {
    const { digest } = createChunk(content);
    this.#measures.set(digest, this.#measure(content));
    this.#counts.chunks++;
  }

  #checkCheckpoint({ body, digest, root }: Extract<ExportLine, { checkpoint: unknown }>['checkpoint']): void {
    const header = parseCheckpointBody(body, digest);
    this.#addRecord(header, { digest, isLive: true });
    this.#checkParent(header);
    this.#addKey(header.idempotencyKey);
    if (createChunk(root).digest !== header.stateDigest)
      throw new CorruptError(`The state of checkpoint ${header.id} does not match its digest.`);
    checkMeasure(this.#measure(root), this.#limits);
    this.#counts.checkpoints++;
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
    this.#addRecord(parseTombstone({ body, digest }), { digest, isLive: false });
  }

  /** Parents come first, as their ids do. */
  #addRecord(
    { id, sessionId, parentId }: { id: CheckpointId; sessionId: SessionId; parentId?: CheckpointId },
    known: Known,
  ): void {
    if (sessionId !== this.#sessionId)
      throw new CorruptError(`Checkpoint ${id} is of session ${JSON.stringify(sessionId)}.`);
    if (this.#records.has(id)) throw new CorruptError(`Checkpoint ${id} is there twice.`);
    if (parentId !== undefined && (!this.#records.has(parentId) || parentId >= id))
      throw new CorruptError(`The parent ${parentId} of checkpoint ${id} does not come before it.`);
    this.#records.set(id, known);
  }

  #checkEffect(effect: Extract<ExportLine, { effect: unknown }>['effect']): void {
    const { branch, ordinal, result } = effect;
    parseEffect({ ...effect, sessionId: this.#sessionId as SessionId });
    const count = this.#logs.get(branch) ?? 0;
    if (ordinal !== count) throw new CorruptError(`Effect ${ordinal} of "${branch}" comes after ${count} others.`);
    this.#logs.set(branch, count + 1);
    if (result !== undefined) checkMeasure(this.#measure(result), this.#limits);
    this.#counts.effects++;
  }

  #checkRef({ kind, name, target }: SessionFile['refs'][number]): void {
    const isNamed = kind === 'branch' || kind === 'tag';
    if (isNamed && !isName(name))
      throw new CorruptError(`The exported session has a ${kind} called ${JSON.stringify(name)}.`);
    if (kind === 'log' && target !== String(this.#logs.get(name) ?? 0))
      throw new CorruptError(`The exported session lacks effects of ${JSON.stringify(name)}.`);
    const isFound = isNamed || kind === 'pin' ? this.#isLive(target) : this.#isHere(target);
    if (!isFound)
      throw new CorruptError(
        `The ${kind} ${JSON.stringify(name)} points at ${JSON.stringify(target)}, which is not in the file.`,
      );
  }

  #isLive(target: string): boolean {
    return this.#records.get(target as CheckpointId)?.isLive === true;
  }

  /** Marks may point at anything, but at no checkpoint of others. */
  #isHere(target: string): boolean {
    return !isCheckpointId(target) || this.#records.has(target);
  }
}

function parseStart(text: string): ExportStart {
  const start = parseLine(text) as Partial<ExportStart>;
  if (start.format !== EXPORT_START.format || typeof start.sessionId !== 'string') throw notExported();
  if (start.version !== EXPORT_START.version) {
    throw new UnsupportedError(
      `This session was exported in format version ${String(start.version)}; this program reads version ${EXPORT_START.version}.`,
    );
  }
  return start as ExportStart;
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
    throw new CorruptError('The exported session has a line that is not JSON.', { cause });
  }
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) return { ...json };
  throw new CorruptError('The exported session has a line that is no record.');
}

function asFields(value: unknown): { readonly [field: string]: unknown } {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

const isText = (value: unknown): boolean => typeof value === 'string';
const isContent = (value: unknown): boolean => {
  const { text, refs } = asFields(value);
  return isText(text) && Array.isArray(refs) && refs.every(isDigest);
};

/** The file comes from outside: the parts of a line that are used must be what their names say. */
const SHAPES: Record<string, (fields: { readonly [field: string]: unknown }) => boolean> = {
  chunk: isContent,
  checkpoint: ({ body, digest, root }) => isText(body) && isDigest(digest) && isContent(root),
  tombstone: ({ body, digest }) => isText(body) && isDigest(digest),
  effect: ({ branch, ordinal, body, digest, result }) =>
    isText(branch) &&
    Number.isSafeInteger(ordinal) &&
    isText(body) &&
    isDigest(digest) &&
    (result === undefined || isContent(result)),
  ref: ({ kind, name, target }) => isExportedKind(kind) && isText(name) && isText(target),
};
