import { parseCheckpointBody } from '../core/checkpoint.ts';
import type { CheckpointHeader, Tombstone } from '../core/checkpoint-header.ts';
import { type Chunk, createChunk, type Digest } from '../core/chunk.ts';
import { ConflictError, CorruptError, InvalidInputError, UnsupportedError } from '../core/errors.ts';
import { parseSessionId, type SessionId } from '../core/id.ts';
import type { RefChange } from '../storage/contract.ts';
import { parseEffect } from './effect-record.ts';
import type { Engine } from './engine.ts';
import {
  chainLine,
  EXPORT_START,
  type ExportEnd,
  type ExportLine,
  type ExportStart,
  isExportedKind,
} from './export.ts';

/** What an import brought in. */
export type ImportResult = {
  readonly sessionId: SessionId;
  readonly checkpoints: number;
  readonly chunks: number;
  readonly effects: number;
};

/** A line longer than this is not one of ours. */
const MAX_LINE_CHARS = 512 * 1024 * 1024;

/**
 * Reads an exported session into the storage. Everything is checked on the way; the branches appear last, in one commit,
 * so that a broken or interrupted import leaves no session behind that could be opened.
 */
export async function importSession(
  context: Engine,
  source: AsyncIterable<string | Uint8Array>,
): Promise<ImportResult> {
  const lines = splitLines(source);
  const first = await lines.next();
  const start = parseStart(first.done === true ? '' : first.value);
  const sessionId = parseSessionId(start.sessionId);
  await makeRoom(context, sessionId);
  const reader = new Importer(context, sessionId, first.value as string);
  try {
    for await (const line of lines) await reader.read(line);
    return await reader.finish();
  } catch (error) {
    await context.storage.deleteSession(sessionId);
    throw error;
  }
}

async function makeRoom({ storage }: Engine, sessionId: SessionId): Promise<void> {
  const names = await storage.readRefs({ sessionId });
  if (names.length > 0) {
    throw new ConflictError(
      `Session "${sessionId}" is in this storage already. Delete it first, or import into another storage.`,
      {
        details: { sessionId },
      },
    );
  }
  await storage.deleteSession(sessionId); // what an interrupted import left
}

function parseStart(line: string): ExportStart {
  const start = parseJson(line) as Partial<ExportStart> | null;
  if (start?.format !== EXPORT_START.format || typeof start.sessionId !== 'string') {
    throw new InvalidInputError(
      'This is not an exported session: the first line should name the format "savestate-session".',
    );
  }
  if (start.version !== EXPORT_START.version) {
    throw new UnsupportedError(
      `This session was exported in format version ${start.version}; this program reads version ${EXPORT_START.version}.`,
    );
  }
  return start as ExportStart;
}

class Importer {
  readonly #context: Engine;
  readonly #sessionId: SessionId;
  readonly #refs: RefChange[] = [];
  readonly #known = new Set<Digest>();
  #chunks: Chunk[] = [];
  #digest: Digest;
  #lines = 1;
  #end: ExportEnd['end'] | undefined;
  #counts = { checkpoints: 0, chunks: 0, effects: 0 };

  constructor(context: Engine, sessionId: SessionId, firstLine: string) {
    this.#context = context;
    this.#sessionId = sessionId;
    this.#digest = chainLine('', firstLine);
  }

  async read(line: string): Promise<void> {
    const parsed = parseJson(line) as ExportLine | ExportEnd;
    if (this.#end !== undefined) throw new CorruptError('The exported session goes on after its last line.');
    if ('end' in parsed) {
      this.#end = parsed.end;
      return;
    }
    this.#digest = chainLine(this.#digest, line);
    this.#lines++;
    await this.#take(parsed);
  }

  async #take(line: ExportLine): Promise<void> {
    checkShape(line, this.#lines);
    if ('chunk' in line) this.#takeChunk(line.chunk);
    else if ('checkpoint' in line) await this.#takeCheckpoint(line.checkpoint);
    else if ('tombstone' in line) await this.#takeTombstone(line.tombstone);
    else if ('effect' in line) await this.#takeEffect(line.effect);
    else if ('ref' in line) this.#refs.push(line.ref);
    else throw new CorruptError(`The exported session has a line of an unknown kind (line ${this.#lines}).`);
  }

  #takeChunk(content: { text: string; refs: readonly Digest[] }): void {
    const chunk = createChunk(content);
    this.#checkRefs(chunk.refs);
    this.#known.add(chunk.digest);
    this.#chunks.push(chunk);
    this.#counts.chunks++;
  }

  #checkRefs(refs: readonly Digest[]): void {
    const absent = refs.find((digest) => !this.#known.has(digest));
    if (absent !== undefined)
      throw new CorruptError(`The exported session lacks chunk ${absent}, which line ${this.#lines} needs.`);
  }

  async #takeCheckpoint({
    body,
    digest,
    root,
  }: Extract<ExportLine, { checkpoint: unknown }>['checkpoint']): Promise<void> {
    const header = parseCheckpointBody(body, digest);
    this.#checkSession(header.sessionId);
    this.#checkRefs(root.refs);
    if (createChunk(root).digest !== header.stateDigest)
      throw new CorruptError(`The state of checkpoint ${header.id} does not match its digest.`);
    await this.#context.storage.commit({
      sessionId: this.#sessionId,
      checkpoint: { header, body, digest, root },
      chunks: this.#takeChunks(),
    });
    this.#counts.checkpoints++;
  }

  /** A storage makes tombstones from checkpoints only, so an empty one is put in and deleted again. */
  async #takeTombstone({ body, digest }: { body: string; digest: Digest }): Promise<void> {
    const tombstone = parseJson(body) as Tombstone;
    this.#checkSession(tombstone.sessionId);
    const { id, sessionId, branch, sequence, timestampMs, stateDigest } = tombstone;
    const header: CheckpointHeader = {
      id,
      sessionId,
      branch,
      sequence,
      timestampMs,
      stateDigest,
      type: 'deleted',
      stateBytes: 0,
    };
    const checkpoint = { header, body: JSON.stringify(header), digest, root: { text: 'null', refs: [] } };
    await this.#context.storage.commit({ sessionId: this.#sessionId, checkpoint });
    await this.#context.storage.deleteCheckpoints([{ id, body }]);
  }

  async #takeEffect(effect: Extract<ExportLine, { effect: unknown }>['effect']): Promise<void> {
    const row = { ...effect, sessionId: this.#sessionId };
    parseEffect(row);
    this.#checkRefs(row.result?.refs ?? []);
    await this.#context.storage.commit({ sessionId: this.#sessionId, effects: [row], chunks: this.#takeChunks() });
    this.#counts.effects++;
  }

  #takeChunks(): Chunk[] {
    const chunks = this.#chunks;
    this.#chunks = [];
    return chunks;
  }

  #checkSession(found: string): void {
    if (found !== this.#sessionId)
      throw new CorruptError(`The exported session "${this.#sessionId}" holds a record of session "${found}".`);
  }

  async finish(): Promise<ImportResult> {
    if (this.#end === undefined) throw new CorruptError(`The exported session is cut off after line ${this.#lines}.`);
    if (this.#end.lines !== this.#lines || this.#end.digest !== this.#digest) {
      throw new CorruptError(
        'The exported session was changed after it was written: its last line does not match the others.',
      );
    }
    await this.#context.storage.commit({ sessionId: this.#sessionId, refs: this.#refs });
    return { sessionId: this.#sessionId, ...this.#counts };
  }
}

const HEX_DIGEST = /^[0-9a-f]{64}$/;

/** The file comes from outside: the parts of a line that are used must be what their names say. */
function checkShape(line: ExportLine, number: number): void {
  const [kind = '', value] = Object.entries(line)[0] ?? [];
  const fields = (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>;
  const isSound = SHAPES[kind]?.(fields) ?? false;
  if (!isSound) throw new CorruptError(`The exported session is damaged: line ${number} is not what was written.`);
}

const isText = (value: unknown): boolean => typeof value === 'string';
const isDigest = (value: unknown): boolean => typeof value === 'string' && HEX_DIGEST.test(value);
const isContent = (value: unknown): boolean => {
  const { text, refs } = (value ?? {}) as { text?: unknown; refs?: unknown };
  return isText(text) && Array.isArray(refs) && refs.every(isDigest);
};

const SHAPES: Record<string, (fields: Record<string, unknown>) => boolean> = {
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

async function* splitLines(source: AsyncIterable<string | Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let rest = '';
  for await (const part of source) {
    const lines = (rest + (typeof part === 'string' ? part : decoder.decode(part, { stream: true }))).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > MAX_LINE_CHARS)
      throw new InvalidInputError('This is not an exported session: it has a line that does not end.');
    yield* lines;
  }
  if (rest !== '') yield rest;
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw new CorruptError('The exported session has a line that is not JSON.', { cause });
  }
}
