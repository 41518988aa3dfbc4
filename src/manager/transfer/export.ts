import { ConflictError, CorruptError, hasErrorCode, NotFoundError } from '../../core/errors.ts';
import { groupBy } from '../../core/group-by.ts';
import { Checkpoint, type CheckpointJson } from '../../core/record/checkpoint.ts';
import type { CheckpointHeader, Tombstone } from '../../core/record/checkpoint-header.ts';
import { type CheckpointId, isCheckpointId, parseSessionId, type SessionId } from '../../core/record/id.ts';
import { formatSafeJson } from '../../core/safe-json.ts';
import { type Chunk, type ChunkContent, type Digest, digestText } from '../../core/tree/chunk.ts';
import { Breather } from '../../storage/breather.ts';
import type { CheckpointRow, EffectRow, NewCheckpoint, Ref, RefKind } from '../../storage/contract.ts';
import { readReachableByLevel } from '../../storage/reachable.ts';
import { parseEffect } from '../effect/effect-record.ts';
import { effectsMissing, isDroppedMark, readDropped, takeLast } from '../effect/effect-refs.ts';
import type { Engine } from '../engine/engine.ts';
import { CURRENT, parseRoot, readPages, toEntry } from '../engine/records.ts';

/** How a file of an exported session begins. */
export type ExportStart = { readonly format: 'savestate-session'; readonly version: 1; readonly sessionId: SessionId };

type Content = {
  readonly chunk: ChunkContent;
  readonly checkpoint: { readonly body: string; readonly digest: Digest; readonly root: ChunkContent };
  readonly tombstone: { readonly body: string; readonly digest: Digest };
  readonly effect: Omit<EffectRow, 'sessionId'>;
  readonly ref: Pick<Ref, 'kind' | 'name' | 'target'>;
};

/** What is in a line of one kind. */
export type LineOf<Kind extends keyof Content> = Content[Kind];

/** One line of an exported session. Chunks come before the first line that needs them. */
export type ExportLine = { [Kind in keyof Content]: { readonly [Key in Kind]: Content[Kind] } }[keyof Content];

/** The last line: how many lines came before it, and the digest of their digests. */
export type ExportEnd = { readonly end: { readonly lines: number; readonly digest: Digest } };

export const EXPORT_START = { format: 'savestate-session', version: 1 } as const;

/** What a session takes along. Leases and what groups agreed on belong to the place it is at. */
const EXPORTED_KINDS: ReadonlySet<unknown> = new Set<RefKind>(['branch', 'tag', 'pin', 'mark', 'current', 'log']);

/** Whether an exported session has refs of this kind. */
export function isExportedKind(kind: unknown): boolean {
  return EXPORTED_KINDS.has(kind);
}

/** Writes the lines of a session, and at the end how many they are: what is missing, changed or out of its order is noticed there. */
export async function* writeLines(values: AsyncIterable<ExportStart | ExportLine>): AsyncGenerator<string> {
  let digest: Digest | '' = '';
  let lines = 0;
  for await (const value of values) {
    const line = formatSafeJson(value);
    digest = chainLine(digest, line);
    lines++;
    yield `${line}\n`;
  }
  const end: ExportEnd = { end: { lines, digest: digest as Digest } };
  yield `${JSON.stringify(end)}\n`;
}

/** Chains the digests of lines. */
export function chainLine(digest: Digest | '', line: string): Digest {
  return digestText(`${digest}\n${line}`);
}

/** Writes a session as lines of JSON, oldest checkpoint first, every chunk once. Streams: holds one checkpoint's chunks at a time. */
export async function* exportSession(engine: Engine, sessionId: string): AsyncGenerator<string> {
  const id = parseSessionId(sessionId);
  await engine.settled();
  // First, so that everything they speak of is there when the rest is read, also if others go on saving.
  const all = await engine.repository.readRefs({ sessionId: id });
  const branches = new Set(all.flatMap(({ kind, name }) => (kind === 'branch' ? [name] : [])));
  const refs = all.filter(
    ({ kind, target }) => isExportedKind(kind) && (kind !== CURRENT.kind || branches.has(target)),
  );
  if (refs.length === 0)
    throw new NotFoundError(`There is no session "${id}" to export.`, { details: { sessionId: id } });
  const breather = new Breather();
  const reading = new SessionReading(engine, id, refs);
  try {
    for await (const line of writeLines(reading.lines())) {
      yield line;
      if (breather.isDue) await breather.breathe();
    }
  } catch (error) {
    if (!hasErrorCode(error, 'CORRUPT') || !(await reading.isDeletedFrom())) throw error;
    throw new ConflictError(`Session "${id}" was deleted from while it was exported. Export it again.`, {
      details: { sessionId: id },
      cause: error,
    });
  }
}

/** Reads a session by the names that it had at the beginning. */
class SessionReading {
  readonly #engine: Engine;
  readonly #sessionId: SessionId;
  readonly #refs: readonly Ref[];
  readonly #written = new Set<Digest>();
  /** The checkpoints and tombstones that were read, and which of them are the former. */
  readonly #known = new Map<string, boolean>();
  #last: CheckpointId | undefined;

  constructor(engine: Engine, sessionId: SessionId, refs: readonly Ref[]) {
    this.#engine = engine;
    this.#sessionId = sessionId;
    this.#refs = refs;
  }

  async *lines(): AsyncGenerator<ExportStart | ExportLine> {
    yield { ...EXPORT_START, sessionId: this.#sessionId };
    const place = { sessionId: this.#sessionId, order: 'oldest', include: 'all' } as const;
    for await (const rows of readPages(this.#engine.storage, place)) for (const row of rows) yield* this.#record(row);
    for (const { kind, name, target } of this.#refs)
      if (kind === 'branch' || kind === 'tag' || kind === 'pin')
        this.#checkKnown(this.#known.get(target), target, `${kind} "${name}"`);
    const marks = yield* this.#effects();
    for (const { kind, name, target } of [...this.#refs.filter((ref) => !isDroppedMark(ref)), ...marks])
      yield { ref: { kind, name, target } };
  }

  async *#record({ id }: CheckpointRow): AsyncGenerator<ExportLine> {
    const row = await this.#engine.storage.readCheckpoint(id);
    if (row === undefined) return;
    const { parentId, checkpoint } = toEntry(row);
    if (parentId !== undefined) this.#checkKnown(this.#known.has(parentId), parentId, `the parent of ${id}`);
    const { body, digest, root } = row;
    const isLive = checkpoint !== undefined && root !== undefined;
    this.#known.set(id, isLive);
    if (!isLive) return yield { tombstone: { body, digest } };
    this.#last = id;
    parseRoot(checkpoint, root);
    yield* this.#chunks(root.refs);
    yield { checkpoint: { body, digest, root: toContent(root) } };
  }

  /** A damaged index hides rows: an export that lacks some must fail now, not when it is needed. */
  #checkKnown(isKnown: boolean | undefined, id: string, what: string): void {
    if (isKnown) return;
    throw new CorruptError(`Checkpoint ${id}, ${what}, is missing from the storage. Run verify.`, { details: { id } });
  }

  /** The effects of each branch up to its mark; every one must be there that was not dropped. Returns the marks that say which were. */
  async *#effects(): AsyncGenerator<ExportLine, readonly Ref[]> {
    const sessionId = this.#sessionId;
    const { storage, repository } = this.#engine;
    const counts = new Map(this.#refs.flatMap(({ kind, name, target }) => (kind === 'log' ? [[name, +target]] : [])));
    const rows = groupBy(await storage.readEffects({ sessionId }), ({ branch }) => branch);
    // After the effects: others may go on dropping.
    const marks = (await repository.readRefs({ sessionId, kind: 'mark' })).filter(isDroppedMark);
    const droppedOf = readDropped(marks);
    for (const branch of new Set([...counts.keys(), ...rows.keys()])) {
      const before = counts.get(branch) ?? 0;
      const log = takeLast(rows.get(branch) ?? [], before);
      // A branch without a mark began after the marks were read, or its mark is lost.
      const isLost = before === 0 && (await repository.readRef(sessionId, 'log', branch)) === undefined;
      if (isLost || log.length < before - droppedOf(branch)) throw effectsMissing(sessionId, branch);
      for (const row of log) yield* this.#effect(row);
    }
    return marks;
  }

  async *#effect(row: EffectRow): AsyncGenerator<ExportLine> {
    parseEffect(row);
    const { branch, ordinal, body, result, digest } = row;
    yield* this.#chunks(result?.refs ?? []);
    // Fields in an order of its own: storages give them in theirs.
    yield { effect: { branch, ordinal, body, ...(result !== undefined && { result: toContent(result) }), digest } };
  }

  /** Chunks not written yet, those they refer to first: found level by level, written from the lowest up. */
  async *#chunks(refs: readonly Digest[]): AsyncGenerator<ExportLine> {
    const read = async (level: readonly Digest[]) => {
      const fresh = level.filter((digest) => !this.#written.has(digest));
      for (const digest of fresh) this.#written.add(digest);
      return fresh.length === 0 ? [] : this.#engine.repository.readChunks(fresh);
    };
    const found = await readReachableByLevel(read, refs);
    for (const chunk of sortByNeed(found)) yield { chunk: toContent(chunk) };
  }

  /** Whether others deleted a checkpoint or a named one since: what is missing then is no damage. */
  async isDeletedFrom(): Promise<boolean> {
    const { storage } = this.#engine;
    const now = await storage.readRefs({ sessionId: this.#sessionId });
    const isGone = ({ kind, name, target }: Ref) =>
      isCheckpointId(target) && !now.some((ref) => ref.kind === kind && ref.name === name && ref.target === target);
    const ids = [this.#last ?? [], this.#refs.filter(isGone).map(({ target }) => target as CheckpointId)].flat();
    const rows = await Promise.all(ids.map((id) => storage.readCheckpoint(id)));
    return rows.some((row) => row?.isDeleted !== false);
  }
}

/** A chunk may be needed by one that was found with it, or before: it comes before all that need it. */
export function* sortByNeed(chunks: readonly Chunk[]): Generator<Chunk> {
  const left = new Map(chunks.map((chunk) => [chunk.digest, chunk]));
  const open = [...chunks];
  for (let top = open.pop(); top !== undefined; top = open.pop()) {
    const needed = left.has(top.digest) ? top.refs.flatMap((digest) => left.get(digest) ?? []) : [];
    if (needed.length > 0) open.push(top, ...needed);
    else if (left.delete(top.digest)) yield top;
  }
}

/** What of a chunk, or of a row's root, is written. */
export function toContent({ text, refs }: ChunkContent): ChunkContent {
  return { text, refs };
}

/** One checkpoint with its whole state as JSON that people can read; `Checkpoint.fromJSON` reads it back. */
export async function exportCheckpoint({ repository, codec }: Engine, idOrPrefix: string): Promise<CheckpointJson> {
  const { checkpoint, root } = await repository.open(idOrPrefix);
  const state = codec.decode(root, await repository.loadChunks(root));
  return new Checkpoint(checkpoint.header, checkpoint.digest, codec.encodeJson(state)).toJSON();
}

/** What is put in for a deleted checkpoint, to be deleted at once: a record cannot begin as a tombstone. */
export function toPlaceholder({ body, digest }: Pick<CheckpointRow, 'body' | 'digest'>): NewCheckpoint {
  const { id, sessionId, branch, sequence, timestampMs, stateDigest } = JSON.parse(body) as Tombstone;
  const place = { id, sessionId, branch, sequence, timestampMs, stateDigest };
  const header: CheckpointHeader = { ...place, type: 'deleted', stateBytes: 0 };
  return { header, body: JSON.stringify(header), digest, root: { text: 'null', refs: [] } };
}
