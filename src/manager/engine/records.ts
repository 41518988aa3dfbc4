import { CorruptError, hasErrorCode } from '../../core/errors.ts';
import { checkTombstone } from '../../core/record/check-header.ts';
import { Checkpoint, parseCheckpointBody } from '../../core/record/checkpoint.ts';
import type { Tombstone } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { type Chunk, type ChunkContent, createChunk, type Digest, digestText } from '../../core/tree/chunk.ts';
import { Breather } from '../../storage/breather.ts';
import type { CheckpointQuery, CheckpointRow, ChunkStorage, Ref, RefChange } from '../../storage/contract.ts';

/** The branch of a session that was never rewound or switched. */
export const DEFAULT_BRANCH = 'main';

/** The name of the ref that says which branch is current. */
export const CURRENT = { kind: 'current', name: 'branch' } as const;

/** The branch that a session is opened on when none is named, by the session's refs. */
export function findCurrentBranch(refs: readonly Ref[]): string {
  return refs.find(({ kind }) => kind === CURRENT.kind)?.target ?? DEFAULT_BRANCH;
}

/** Makes a branch the current one. */
export function makeCurrent(branch: string): RefChange {
  return { ...CURRENT, target: branch };
}

/** Checks a row and reads its header. */
export function parseRow(row: CheckpointRow): Checkpoint {
  const header = parseCheckpointBody(row.body, row.digest);
  if (header.id !== row.id || header.sessionId !== row.sessionId) {
    throw new CorruptError(`The record stored as ${row.id} says it is ${header.id}. Run verify.`, {
      details: { id: row.id },
    });
  }
  return new Checkpoint(header, row.digest);
}

/** Reads rows of many sessions. Damaged ones are left out, so that the rest stays usable; verify names them. */
export async function parseRows(rows: readonly CheckpointRow[]): Promise<{
  readonly checkpoints: Checkpoint[];
  readonly damaged: CheckpointRow[];
}> {
  const checkpoints: Checkpoint[] = [];
  const damaged: CheckpointRow[] = [];
  await new Breather().each(rows, (row) => {
    try {
      checkpoints.push(parseRow(row));
    } catch (error) {
      if (!hasErrorCode(error, 'CORRUPT')) throw error;
      damaged.push(row);
    }
  });
  return { checkpoints, damaged };
}

/** Checks the root of a checkpoint's state. */
export function parseRoot({ id, stateDigest }: Checkpoint, content: ChunkContent): Chunk {
  const root = createChunk(content);
  if (root.digest === stateDigest) return root;
  throw new CorruptError(`The state of checkpoint ${id} is damaged: its root does not match its digest. Run verify.`, {
    details: { id },
  });
}

/** The text that stays of a deleted checkpoint. Its last field proves that no bit of it, or of the digest beside it, changed. */
export function formatTombstone({ header, digest }: Checkpoint, deletedAtMs: number, reason: string): string {
  const { id, sessionId, branch, parentId, sequence, timestampMs, stateDigest } = header;
  const parent = parentId === undefined ? {} : { parentId };
  const place = { id, sessionId, branch, ...parent, sequence, timestampMs, stateDigest };
  return sealTombstone({ ...place, deletedAtMs, reason }, digest);
}

/** The text of a tombstone, with its check. */
export function sealTombstone(tombstone: Tombstone, digest: Digest): string {
  return JSON.stringify({ ...tombstone, check: checkOf(tombstone, digest) });
}

/** Whether a checkpoint is one of those that were folded into a tombstone: its place says so, because its id is gone. */
export function isFoldedInto(
  { id, branch, sequence, folded = 0, foldedFrom = id }: Tombstone,
  record: Pick<Tombstone, 'id' | 'branch' | 'sequence'>,
): boolean {
  const isBetween = record.id >= foldedFrom && record.id < id;
  return isBetween && record.branch === branch && record.sequence >= sequence - folded && record.sequence < sequence;
}

/** The name of the mark that says up to which id tombstones that nothing was saved on were removed. */
export const ENDED = { kind: 'mark', name: 'ended' } as const;

/** What that mark says of an id: no id itself, so that the mark points at nothing. */
export function endedTarget(id: CheckpointId): string {
  return id.slice('chk_'.length);
}

/** What it says now. */
export function findEnded(refs: readonly Ref[]): string | undefined {
  return refs.find(({ kind, name }) => kind === ENDED.kind && name === ENDED.name)?.target;
}

/** Reads a tombstone's text; throws a CorruptError if it is not what was written. */
export function parseTombstone(row: Pick<CheckpointRow, 'body' | 'digest'> & Partial<CheckpointRow>): Tombstone {
  const { check, ...json } = parseObject(row.body);
  const tombstone = checkTombstone(json);
  const { id = tombstone.id, sessionId = tombstone.sessionId } = row;
  const isFiled = id === tombstone.id && sessionId === tombstone.sessionId;
  if (isFiled && check === checkOf(tombstone, row.digest)) return tombstone;
  throw new CorruptError(`The tombstone of checkpoint ${id} is damaged.`, { details: { id } });
}

/** The fields of a text that should be a JSON object; none if it is not, which fails the checks that follow. */
export function parseObject(text: string): { readonly [field: string]: unknown } {
  try {
    return { ...(JSON.parse(text) as object) };
  } catch {
    return {};
  }
}

function checkOf(tombstone: Tombstone, digest: Digest): string {
  return digestText(JSON.stringify([digest, tombstone])).slice(0, 16);
}

/** One step of a lineage: a checkpoint, or what is left of a deleted one. */
export type LineageEntry = { readonly id: CheckpointId; readonly parentId: CheckpointId | undefined } & (
  | { readonly checkpoint: Checkpoint; readonly tombstone?: undefined }
  | { readonly checkpoint?: undefined; readonly tombstone: Tombstone }
);

/** Reads a row as part of a lineage. */
export function toEntry(row: CheckpointRow): LineageEntry {
  if (row.isDeleted) {
    const tombstone = parseTombstone(row);
    return { id: row.id, parentId: tombstone.parentId, tombstone };
  }
  const checkpoint = parseRow(row);
  return { id: row.id, parentId: checkpoint.parentId, checkpoint };
}

const PAGE = 500;
/** Most who read a history want the newest few. */
const FIRST_PAGE = 50;

/** The rows that fit, page by page. A damaged index may lead back to rows that were there, and would without end. */
export async function* readPages(
  storage: ChunkStorage,
  query: Omit<CheckpointQuery, 'limit'>,
): AsyncGenerator<readonly CheckpointRow[]> {
  let { after } = query;
  let limit = FIRST_PAGE;
  do {
    const rows = await storage.listCheckpoints({ ...query, limit, ...(after !== undefined && { after }) });
    const last = rows.at(-1)?.id;
    if (after !== undefined && last !== undefined && (query.order === 'oldest' ? last <= after : last >= after))
      throw new CorruptError('The list of checkpoints leads in circles. Run verify.');
    yield rows;
    after = rows.length < limit ? undefined : last;
    limit = PAGE;
  } while (after !== undefined);
}

/** Every session, in the order of their ids. */
export async function* eachSession(
  storage: ChunkStorage,
  damaged: { readonly onDamaged?: (problem: string) => void } = {},
): AsyncGenerator<SessionId> {
  for (let after: SessionId | undefined; ; ) {
    const sessions = await storage.listSessions({ limit: PAGE, ...damaged, ...(after !== undefined && { after }) });
    yield* sessions;
    after = sessions.at(-1);
    if (sessions.length < PAGE) return;
  }
}

/** All checkpoints and tombstones of a session, newest first. */
export async function* readSession(
  storage: ChunkStorage,
  sessionId: SessionId,
  before?: CheckpointId,
): AsyncGenerator<LineageEntry> {
  const place = { sessionId, order: 'newest', include: 'all', ...(before !== undefined && { after: before }) } as const;
  for await (const rows of readPages(storage, place)) for (const row of rows) yield toEntry(row);
}

/** The way from a checkpoint to its root, itself first. One pass, because a parent's id is always smaller than its child's. */
export async function* readPath(storage: ChunkStorage, from: Checkpoint): AsyncGenerator<LineageEntry> {
  yield { id: from.id, parentId: from.parentId, checkpoint: from };
  let wanted = from.parentId;
  if (wanted === undefined) return;
  for await (const entry of readSession(storage, from.sessionId, from.id)) {
    if (entry.id !== wanted) continue;
    yield entry;
    wanted = entry.parentId;
    if (wanted === undefined) return;
  }
}
