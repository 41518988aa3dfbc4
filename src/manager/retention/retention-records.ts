import { hasErrorCode } from '../../core/errors.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { Breather } from '../../storage/breather.ts';
import type { CheckpointQuery } from '../../storage/contract.ts';
import type { Engine } from '../engine/engine.ts';
import { parseRow, parseRows } from '../engine/repository.ts';
import { formatTombstone } from '../engine/tombstone.ts';

const PAGE = 500;

/** A checkpoint to delete, and why. */
type Doomed = { readonly id: CheckpointId; readonly reason: string };

/** All that fit. Sessions with damage are left out: what they need is not known. */
export async function readHeaders(engine: Engine, filter: Omit<CheckpointQuery, 'limit'>): Promise<CheckpointHeader[]> {
  const headers: CheckpointHeader[] = [];
  const damaged = new Set<SessionId>();
  const breather = new Breather();
  let after: CheckpointId | undefined;
  do {
    const page = { ...filter, limit: PAGE, ...(after !== undefined && { after }) };
    const rows = await engine.storage.listCheckpoints(page);
    const parsed = await parseRows(rows);
    for (const { header } of parsed.checkpoints) headers.push(header);
    for (const { sessionId } of parsed.damaged) damaged.add(sessionId);
    after = rows.length < PAGE ? undefined : rows.at(-1)?.id;
    await breather.breathe();
  } while (after !== undefined);
  return damaged.size === 0 ? headers : headers.filter(({ sessionId }) => !damaged.has(sessionId));
}

/** Turns checkpoints into tombstones and says so; answers those that were deleted now. */
export async function deleteCheckpoints(
  engine: Engine,
  doomed: readonly Doomed[],
  options: { readonly force?: boolean } = {},
): Promise<CheckpointId[]> {
  const deletedAtMs = engine.ports.now();
  const deletions = await Promise.all(
    doomed.map(async ({ id, reason }) => {
      const row = await engine.storage.readCheckpoint(id);
      return row === undefined || row.isDeleted
        ? []
        : [{ id, body: formatTombstone(parseRow(row), deletedAtMs, reason) }];
    }),
  );
  const deleted = await engine.storage.deleteCheckpoints(deletions.flat(), options);
  const reasons = new Map(doomed.map(({ id, reason }) => [id, reason]));
  for (const id of deleted) await engine.events.emit('checkpoint_deleted', id, reasons.get(id) ?? '');
  return deleted;
}

/** Of a damaged session nothing is deleted: what its names point at is not known. The others are not held up by it. */
export async function orIfDamaged<Result>(work: Promise<Result>, result: Result): Promise<Result> {
  try {
    return await work;
  } catch (error) {
    if (hasErrorCode(error, 'CORRUPT')) return result;
    throw error;
  }
}
