import { ConflictError, CorruptError, InvalidInputError, isOutcomeUnknown } from '../../core/errors.ts';
import { parseCheckpointBody } from '../../core/record/checkpoint.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { type Chunk, createChunk } from '../../core/tree/chunk.ts';
import { Breather } from '../../storage/breather.ts';
import type { Commit, EffectRow, NewCheckpoint } from '../../storage/contract.ts';
import { areSameRefs } from '../../storage/ref.ts';
import type { Engine } from '../engine/engine.ts';
import { claimSession, type ImportClaim } from '../engine/import-claim.ts';
import { type ExportLine, toPlaceholder } from './export.ts';
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

type Lines = AsyncIterable<string | Uint8Array>;

/**
 * Reads an exported session into the storage, all of it or nothing. First the whole file is read and checked, and nothing is written.
 * Then the session is claimed, its checkpoints are stored, and in the end one commit brings its names and effects. A session that
 * somebody else began meanwhile is left as it is: that is a ConflictError.
 */
export async function importSession(
  engine: Engine,
  source: Lines,
  { isOwn, keyOf }: Origin = {},
): Promise<ImportResult> {
  return readFile(engine, { source, isOwn }, async (file, spool) => {
    const claim = await claimSession(engine, file.sessionId);
    const writing = new SessionWriting(engine, { file, claim, key: keyOf === undefined ? {} : { keyOf } });
    try {
      for await (const line of spool.read()) await writing.take(JSON.parse(line) as ExportLine);
      await writing.finish();
    } catch (error) {
      await writing.undo(error);
      throw error;
    }
    const { refs: _, ...result } = file;
    return result;
  });
}

/** Reads an exported session of this storage whole and checks it, as an import does; stores nothing. */
export async function checkSession(engine: Engine, source: Lines): Promise<SessionFile> {
  return readFile(engine, { source, isOwn: true }, async (file) => file);
}

async function readFile<Result>(
  { codec, ports }: Engine,
  { source, isOwn = false }: { readonly source: Lines; readonly isOwn?: boolean | undefined },
  use: (file: SessionFile, spool: LineSpool) => Promise<Result>,
): Promise<Result> {
  if (Object(source)[Symbol.asyncIterator] === undefined && Object(source)[Symbol.iterator] === undefined)
    throw new InvalidInputError('importSession reads a stream of texts or bytes, such as createReadStream(file).');
  const spool = new LineSpool();
  try {
    const reader = new RecordReader({ limits: codec.limits, spool, ...(!isOwn && { nowMs: ports.now() }) });
    return await use(await readLines(reader, source), spool);
  } finally {
    spool.close();
  }
}

async function readLines(reader: RecordReader, source: Lines): Promise<SessionFile> {
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
    {
      file,
      claim,
      key,
    }: { readonly file: SessionFile; readonly claim: ImportClaim; readonly key: Pick<Commit, 'keyOf'> },
  ) {
    this.#engine = engine;
    this.#file = file;
    this.#claim = claim;
    this.#key = key;
  }

  async take(line: ExportLine): Promise<void> {
    if ('chunk' in line) this.#chunks.push(createChunk(line.chunk));
    else if ('checkpoint' in line) {
      const { body, digest } = line.checkpoint;
      this.#live.push(await this.#store({ ...line.checkpoint, header: parseCheckpointBody(body, digest) }));
    } else if ('tombstone' in line) {
      const id = await this.#store(toPlaceholder(line.tombstone));
      await this.#engine.storage.deleteCheckpoints([{ id, body: line.tombstone.body }]);
    } else if ('effect' in line) {
      this.#effects.rows.push({ ...line.effect, sessionId: this.#file.sessionId });
      this.#effects.chunks.push(...this.#chunks.splice(0));
    }
    await this.#breather.breathe();
  }

  async #store(checkpoint: NewCheckpoint): Promise<CheckpointId> {
    const { id } = checkpoint.header;
    const commit = { sessionId: this.#file.sessionId, checkpoint, chunks: this.#chunks.splice(0), ...this.#key };
    const result = await this.#engine.storage.commit({ ...commit, refs: this.#claim.check() });
    if (result.status === 'duplicate') throw new ConflictError(`Checkpoint ${id} is in this storage already.`);
    this.#ids.push(id);
    return id;
  }

  /** One commit: from here on the session is there, as a whole. It is refused if anybody deleted something of it. */
  async finish(): Promise<void> {
    const { sessionId, refs } = this.#file;
    const { storage } = this.#engine;
    const { rows: effects, chunks } = this.#effects;
    const names = refs.map(({ kind, name, target }) => ({ kind, name, target, expect: null }));
    try {
      const all = [...names, ...this.#claim.end()];
      await storage.commit({ sessionId, effects, chunks, requires: this.#live, refs: all, ...this.#key });
    } catch (error) {
      if (!isOutcomeUnknown(error) || !areSameRefs(await storage.readRefs({ sessionId }), refs)) throw error;
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
