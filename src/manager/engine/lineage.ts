import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { Tombstone } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { CheckpointRow, ChunkStorage } from '../../storage/contract.ts';
import { parseRow } from './repository.ts';
import { parseTombstone } from './tombstone.ts';

/** One step of a lineage: a checkpoint, or what is left of a deleted one. */
export type LineageEntry =
  | {
      readonly id: CheckpointId;
      readonly parentId: CheckpointId | undefined;
      readonly checkpoint: Checkpoint;
      readonly tombstone?: undefined;
    }
  | {
      readonly id: CheckpointId;
      readonly parentId: CheckpointId | undefined;
      readonly checkpoint?: undefined;
      readonly tombstone: Tombstone;
    };

const PAGE = 500;

/** Reads a row as part of a lineage. */
export function toEntry(row: CheckpointRow): LineageEntry {
  if (row.isDeleted) {
    const tombstone = parseTombstone(row);
    return { id: row.id, parentId: tombstone.parentId, tombstone };
  }
  const checkpoint = parseRow(row);
  return { id: row.id, parentId: checkpoint.parentId, checkpoint };
}

/** All checkpoints and tombstones of a session, page by page, newest first. */
export async function* readSession(
  storage: ChunkStorage,
  sessionId: SessionId,
  before?: CheckpointId,
): AsyncGenerator<LineageEntry> {
  let after = before;
  for (;;) {
    const rows = await storage.listCheckpoints({
      sessionId,
      order: 'newest',
      include: 'all',
      limit: PAGE,
      ...(after !== undefined && { after }),
    });
    for (const row of rows) yield toEntry(row);
    after = rows.at(-1)?.id;
    if (rows.length < PAGE || after === undefined) return;
  }
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
