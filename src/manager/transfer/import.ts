import { ConflictError, CorruptError, InvalidInputError, isOutcomeUnknown } from '../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { type Chunk, createChunk } from '../../core/tree/chunk.ts';
import { Breather } from '../../storage/breather.ts';
import type { Commit, EffectRow } from '../../storage/contract.ts';
import { areSameRefs } from '../../storage/ref.ts';
import type { Engine } from '../engine/engine.ts';
import { claimSession, type ImportClaim } from '../engine/import-claim.ts';
import { type ExportLine, toRecord } from './export.ts';
import { LineSpool, splitLines } from './lines.ts';
import { RecordReader, type SessionFile } from './record-reader.ts';

/** What an import brought in. */
export type ImportResult = {
  readonly sessionId: SessionId;
  readonly checkpoints: number;
  readonly chunks: number;
  readonly effects: number;
};

/** `isOwn`: it was in this storage before, so that its times may be any; and under which key: that of the session `keyOf`. */
type Origin = { readonly isOwn?: boolean; readonly keyOf?: SessionId };

/**
 * Reads an exported session into the storage, all of it or nothing. First the whole file is read and checked, and nothing is written.
 * Then the session is claimed, its checkpoints are stored, and in the end one commit brings its names and effects. A session that
 * somebody else began meanwhile is left as it is: that is a ConflictError.
 */
export async function importSession(
  engine: Engine,
  source: AsyncIterable<string | Uint8Array>,
  origin: Origin = {},
): Promise<ImportResult> {
  checkSource(source);
  const spool = new LineSpool();
  try {
    const file = await readFile(engine, { source, spool, ...origin });
    const claim = await claimSession(engine, file.sessionId);
    const writing = new SessionWriting(engine, { file, claim, origin });
    try {
      for await (const line of spool.read()) await writing.take(JSON.parse(line) as ExportLine);
      await writing.finish();
    } catch (error) {
      await writing.undo(error);
      throw error;
    }
    const { sessionId, checkpoints, chunks, effects } = file;
    return { sessionId, checkpoints, chunks, effects };
  } finally {
    spool.close();
  }
}

function checkSource(source: unknown): void {
  const isStream =
    typeof source === 'object' && source !== null && (Symbol.asyncIterator in source || Symbol.iterator in source);
  if (!isStream)
    throw new InvalidInputError('importSession reads a stream of texts or bytes, such as createReadStream(file).');
}

/** Reads an exported session of this storage whole and checks it, as an import does; stores nothing. */
export async function checkSession(
  engine: Engine,
  source: AsyncIterable<string | Uint8Array>,
): Promise<Pick<SessionFile, 'checkpoints' | 'effects'>> {
  const spool = new LineSpool();
  try {
    return await readFile(engine, { source, spool, isOwn: true });
  } finally {
    spool.close();
  }
}

async function readFile(
  { codec, ports }: Engine,
  { source, spool, isOwn = false }: Origin & { source: AsyncIterable<string | Uint8Array>; spool: LineSpool },
): Promise<SessionFile> {
  const states = { limits: codec.limits, spool };
  const reader = new RecordReader(isOwn ? { states } : { states, nowMs: ports.now() });
  const breather = new Breather();
  try {
    for await (const line of splitLines(source)) {
      reader.read(line);
      await breather.breathe();
    }
    return reader.finish();
  } catch (error) {
    if (error instanceof CorruptError) damagedFiles.add(error);
    throw error;
  }
}

const damagedFiles = new WeakSet<Error>();

/** Whether an import failed because its file is damaged, not the storage. */
export function isDamagedFile(error: unknown): boolean {
  return error instanceof Error && damagedFiles.has(error);
}

/** Puts a checked session into a storage. */
class SessionWriting {
  readonly #engine: Engine;
  readonly #file: SessionFile;
  readonly #claim: ImportClaim;
  readonly #key: Pick<Commit, 'keyOf'>;
  readonly #breather = new Breather();
  /** Those of lines that were read, for the record that comes after them. */
  #chunks: Chunk[] = [];
  readonly #ids: CheckpointId[] = [];
  /** Those that are not tombstones. */
  readonly #live: CheckpointId[] = [];
  /** Wait for the end: under a name that somebody else has by then they would be taken for theirs. */
  readonly #effects: { readonly rows: EffectRow[]; readonly chunks: Chunk[] } = { rows: [], chunks: [] };

  constructor(
    engine: Engine,
    { file, claim, origin }: { readonly file: SessionFile; readonly claim: ImportClaim; readonly origin: Origin },
  ) {
    this.#engine = engine;
    this.#file = file;
    this.#claim = claim;
    this.#key = origin.keyOf === undefined ? {} : { keyOf: origin.keyOf };
  }

  async take(line: ExportLine): Promise<void> {
    if ('chunk' in line) this.#chunks.push(createChunk(line.chunk));
    else if ('checkpoint' in line || 'tombstone' in line) await this.#takeRecord(line);
    else if ('effect' in line) {
      this.#effects.rows.push({ ...line.effect, sessionId: this.#file.sessionId });
      this.#effects.chunks.push(...this.#chunks.splice(0));
    }
    await this.#breather.breathe();
  }

  async #takeRecord(line: Extract<ExportLine, { checkpoint: unknown } | { tombstone: unknown }>): Promise<void> {
    const { checkpoint, tombstone } = toRecord(line);
    const { id } = checkpoint.header;
    const result = await this.#commit({ checkpoint, chunks: this.#chunks.splice(0) });
    if (result.status === 'duplicate') throw new ConflictError(`Checkpoint ${id} is in this storage already.`);
    this.#ids.push(id);
    if (tombstone === undefined) this.#live.push(id);
    else await this.#engine.storage.deleteCheckpoints([{ id, body: tombstone }]);
  }

  #commit(commit: Omit<Commit, 'sessionId'>) {
    const refs = [...this.#claim.check(), ...(commit.refs ?? [])];
    return this.#engine.storage.commit({ ...commit, ...this.#key, sessionId: this.#file.sessionId, refs });
  }

  /** One commit: from here on the session is there, as a whole. It is refused if anybody deleted something of it. */
  async finish(): Promise<void> {
    const { sessionId, refs } = this.#file;
    const { rows: effects, chunks } = this.#effects;
    const names = refs.map(({ kind, name, target }) => ({ kind, name, target, expect: null }));
    try {
      const all = [...names, ...this.#claim.end()];
      const records = { effects, chunks, requires: this.#live, ...this.#key };
      await this.#engine.storage.commit({ sessionId, ...records, refs: all });
    } catch (error) {
      if (!isOutcomeUnknown(error) || !areSameRefs(await this.#engine.storage.readRefs({ sessionId }), refs))
        throw error;
    }
  }

  /** Takes back what was written, and nothing else. What went wrong first is what the caller hears. */
  async undo(cause: unknown): Promise<void> {
    try {
      await this.#claim.giveUp(this.#ids);
    } catch (error) {
      if (cause instanceof Error && cause.cause === undefined) cause.cause = error;
    }
  }
}
