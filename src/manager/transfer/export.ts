import { ConflictError, CorruptError, hasErrorCode, NotFoundError } from '../../core/errors.ts';
import { groupBy } from '../../core/group-by.ts';
import { Checkpoint, type CheckpointJson, parseCheckpointBody } from '../../core/record/checkpoint.ts';
import type { CheckpointHeader, Tombstone } from '../../core/record/checkpoint-header.ts';
import { type CheckpointId, isCheckpointId, parseSessionId, type SessionId } from '../../core/record/id.ts';
import { formatSafeJson } from '../../core/safe-json.ts';
import { type Chunk, type ChunkContent, type Digest, digestText } from '../../core/tree/chunk.ts';
import { Breather } from '../../storage/breather.ts';
import type { CheckpointRowWithRoot, EffectRow, NewCheckpoint, Ref, RefKind } from '../../storage/contract.ts';
import { parseEffect } from '../effect/effect-record.ts';
import { isDroppedMark, readDropped, takeLast } from '../effect/effect-refs.ts';
import type { Engine } from '../engine/engine.ts';
import { CURRENT, parseRoot, readPages, toEntry } from '../engine/records.ts';

/** How a file of an exported session begins. */
export type ExportStart = { readonly format: 'savestate-session'; readonly version: 1; readonly sessionId: SessionId };

/** One line of an exported session. Chunks come before the first line that needs them. */
export type ExportLine =
  | { readonly chunk: ChunkContent }
  | { readonly checkpoint: { readonly body: string; readonly digest: Digest; readonly root: ChunkContent } }
  | { readonly tombstone: { readonly body: string; readonly digest: Digest } }
  | { readonly effect: Omit<EffectRow, 'sessionId'> }
  | { readonly ref: Pick<Ref, 'kind' | 'name' | 'target'> };

/** The last line: how many lines came before it, and the digest of their digests. */
export type ExportEnd = { readonly end: { readonly lines: number; readonly digest: Digest } };

export const EXPORT_START = { format: 'savestate-session', version: 1 } as const;

/** What a session takes along. Leases and what groups agreed on belong to the place it is at. */
const EXPORTED_KINDS: ReadonlySet<string> = new Set<RefKind>(['branch', 'tag', 'pin', 'mark', 'current', 'log']);

/** Whether an exported session has refs of this kind. */
export function isExportedKind(kind: unknown): boolean {
  return typeof kind === 'string' && EXPORTED_KINDS.has(kind);
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
  const seen: Seen = { written: new Set(), known: new Set(), live: new Set(), refs };
  try {
    for await (const line of writeLines(exportLines(engine, id, seen))) {
      yield line;
      if (breather.isDue) await breather.breathe();
    }
  } catch (error) {
    if (!hasErrorCode(error, 'CORRUPT') || !(await isDeletedFrom(engine, id, seen))) throw error;
    throw new ConflictError(`Session "${id}" was deleted from while it was exported. Export it again.`, {
      details: { sessionId: id },
      cause: error,
    });
  }
}

/** What an export came by: its refs, chunks and checkpoints, those that were not deleted, and the last of these. */
type Seen = {
  readonly refs: readonly Ref[];
  readonly written: Set<Digest>;
  readonly known: Set<string>;
  readonly live: Set<string>;
  last?: CheckpointId;
};

/** Whether others deleted a checkpoint or a named one since: what is missing then is no damage. */
async function isDeletedFrom({ storage }: Engine, sessionId: SessionId, { refs, last }: Seen): Promise<boolean> {
  const row = last === undefined ? undefined : await storage.readCheckpoint(last);
  if (row?.isDeleted === true) return true;
  const now = await storage.readRefs({ sessionId });
  const gone = refs.filter(
    ({ kind, name, target }) => !now.some((ref) => ref.kind === kind && ref.name === name && ref.target === target),
  );
  const rows = await Promise.all(
    gone
      .filter(({ target }) => isCheckpointId(target))
      .map(({ target }) => storage.readCheckpoint(target as CheckpointId)),
  );
  return rows.some((one) => one?.isDeleted !== false);
}

async function* exportLines(
  engine: Engine,
  sessionId: SessionId,
  seen: Seen,
): AsyncGenerator<ExportStart | ExportLine> {
  yield { ...EXPORT_START, sessionId };
  const { refs, written, live } = seen;
  yield* exportCheckpoints(engine, sessionId, seen);
  for (const { kind, name, target } of refs)
    if (kind === 'branch' || kind === 'tag' || kind === 'pin') checkKnown(live, target, `${kind} "${name}"`);
  const marks = yield* exportEffects(engine, { sessionId, refs }, written);
  for (const { kind, name, target } of [...refs.filter((ref) => !isDroppedMark(ref)), ...marks])
    yield { ref: { kind, name, target } };
}

async function* exportCheckpoints(engine: Engine, sessionId: SessionId, seen: Seen): AsyncGenerator<ExportLine> {
  const { written, known, live } = seen;
  for await (const row of readRoots(engine, sessionId)) {
    const { parentId, checkpoint } = toEntry(row);
    if (parentId !== undefined) checkKnown(known, parentId, `the parent of ${row.id}`);
    known.add(row.id);
    if (checkpoint === undefined || row.root === undefined) {
      yield { tombstone: { body: row.body, digest: row.digest } };
      continue;
    }
    seen.last = row.id;
    live.add(row.id);
    parseRoot(checkpoint, row.root);
    yield* exportChunks(engine, row.root.refs, written);
    yield { checkpoint: { body: row.body, digest: row.digest, root: toContent(row.root) } };
  }
}

/** The effects of each branch up to its mark; every one must be there that was not dropped. Returns the marks that say which were. */
async function* exportEffects(
  engine: Engine,
  { sessionId, refs }: { sessionId: SessionId; refs: readonly Ref[] },
  written: Set<Digest>,
): AsyncGenerator<ExportLine, readonly Ref[]> {
  const marks = new Map(refs.filter(({ kind }) => kind === 'log').map(({ name, target }) => [name, Number(target)]));
  const rows = groupBy(await engine.storage.readEffects({ sessionId }), ({ branch }) => branch);
  // After the effects: others may go on dropping.
  const dropped = (await engine.repository.readRefs({ sessionId, kind: 'mark' })).filter(isDroppedMark);
  const droppedOf = readDropped(dropped);
  for (const branch of new Set([...marks.keys(), ...rows.keys()])) {
    const count = marks.get(branch) ?? 0;
    const own = takeLast(rows.get(branch) ?? [], count);
    // A branch without a mark began after the marks were read, or its mark is lost.
    const isNew = count === 0 && (await engine.repository.readRef(sessionId, 'log', branch)) !== undefined;
    if (own.length < count - droppedOf(branch) || (count === 0 && !isNew)) throw hiddenEffects(sessionId, branch);
    for (const row of own) yield* exportEffect(engine, row, written);
  }
  return dropped;
}

async function* exportEffect(engine: Engine, row: EffectRow, written: Set<Digest>): AsyncGenerator<ExportLine> {
  parseEffect(row);
  const { branch, ordinal, body, result, digest } = row;
  yield* exportChunks(engine, result?.refs ?? [], written);
  // Fields in an order of its own: storages give them in theirs.
  yield { effect: { branch, ordinal, body, ...(result !== undefined && { result: toContent(result) }), digest } };
}

function hiddenEffects(sessionId: SessionId, branch: string): CorruptError {
  return new CorruptError(`Not all effects of branch "${branch}" are there. Run verify.`, {
    details: { sessionId, branch },
  });
}

/** A damaged index hides rows: an export that lacks some must fail now, not when it is needed. */
function checkKnown(known: ReadonlySet<string>, id: string, what: string): void {
  if (known.has(id)) return;
  throw new CorruptError(`Checkpoint ${id}, ${what}, is missing from the storage. Run verify.`, { details: { id } });
}

async function* readRoots({ storage }: Engine, sessionId: SessionId): AsyncGenerator<CheckpointRowWithRoot> {
  for await (const rows of readPages(storage, { sessionId, order: 'oldest', include: 'all' }))
    for (const { id } of rows) {
      const row = await storage.readCheckpoint(id);
      if (row !== undefined) yield row;
    }
}

/** Chunks not written yet, those they refer to first: found level by level, written from the lowest up. */
async function* exportChunks(
  engine: Engine,
  refs: readonly Digest[],
  written: Set<Digest>,
): AsyncGenerator<ExportLine> {
  const levels: Chunk[][] = [];
  for (let wanted = refs; ; ) {
    const fresh = [...new Set(wanted)].filter((digest) => !written.has(digest));
    if (fresh.length === 0) break;
    for (const digest of fresh) written.add(digest);
    const chunks = await engine.repository.readChunks(fresh);
    levels.push(chunks);
    wanted = chunks.flatMap((chunk) => chunk.refs);
  }
  for (const chunk of sortByNeed(levels)) yield { chunk: toContent(chunk) };
}

/** A chunk may be needed by one of its own level, or of a level below: it comes before all that need it. */
export function* sortByNeed(levels: readonly (readonly Chunk[])[]): Generator<Chunk> {
  const left = new Map(levels.flat().map((chunk) => [chunk.digest, chunk]));
  const open = levels.flat();
  for (let top = open.pop(); top !== undefined; top = open.pop()) {
    const needed = left.has(top.digest) ? top.refs.flatMap((digest) => left.get(digest) ?? []) : [];
    if (needed.length > 0) open.push(top, ...needed);
    else if (left.delete(top.digest)) yield top;
  }
}

function toContent({ text, refs }: ChunkContent): ChunkContent {
  return { text, refs };
}

/** One checkpoint with its whole state as JSON that people can read; `Checkpoint.fromJSON` reads it back. */
export async function exportCheckpoint({ repository, codec }: Engine, idOrPrefix: string): Promise<CheckpointJson> {
  const { checkpoint, root } = await repository.open(idOrPrefix);
  const state = codec.decode(root, await repository.loadChunks(root));
  return new Checkpoint(checkpoint.header, checkpoint.digest, codec.encodeJson(state)).toJSON();
}

/** A record as a storage takes it. Of a deleted checkpoint an empty one is put in, and deleted again with the text that stays. */
type TransferRecord = { readonly checkpoint: NewCheckpoint; readonly tombstone?: string };

/** What a line that was checked brings into a storage. */
export function toRecord(line: Extract<ExportLine, { checkpoint: unknown } | { tombstone: unknown }>): TransferRecord {
  if ('tombstone' in line) return { checkpoint: toPlaceholder(line.tombstone), tombstone: line.tombstone.body };
  const { body, digest, root } = line.checkpoint;
  return { checkpoint: { header: parseCheckpointBody(body, digest), body, digest, root } };
}

/** What is put in for a deleted checkpoint, to be deleted at once: a record cannot begin as a tombstone. */
export function toPlaceholder({ body, digest }: { readonly body: string; readonly digest: Digest }): NewCheckpoint {
  const { id, sessionId, branch, sequence, timestampMs, stateDigest } = JSON.parse(body) as Tombstone;
  const place = { id, sessionId, branch, sequence, timestampMs, stateDigest };
  const header: CheckpointHeader = { ...place, type: 'deleted', stateBytes: 0 };
  return { header, body: JSON.stringify(header), digest, root: { text: 'null', refs: [] } };
}
