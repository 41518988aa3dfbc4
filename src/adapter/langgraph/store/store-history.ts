import type { CheckpointId, SessionId } from '../../../core/record/id.ts';
import type { Engine } from '../../../manager/engine/engine.ts';
import { readSession } from '../../../manager/engine/lineage.ts';
import { deleteCheckpoints } from '../../../manager/retention/retention-records.ts';

/** What was forgotten: how many checkpoints, and the bytes that the storage gave back. */
export type StorePruneReport = { readonly checkpoints: number; readonly bytes: number };

const DELETE_BATCH = 200;
const REASON = 'only the latest state of its store was kept';

/** Deletes all checkpoints of a session but those that a branch, tag or pin points at, and gives the space back. */
export async function forgetHistory(engine: Engine, sessionId: SessionId): Promise<StorePruneReport> {
  const ids: CheckpointId[] = [];
  for await (const { id, checkpoint } of readSession(engine.storage, sessionId))
    if (checkpoint !== undefined) ids.push(id);
  let checkpoints = 0;
  for (let at = 0; at < ids.length; at += DELETE_BATCH) {
    const doomed = ids.slice(at, at + DELETE_BATCH).map((id) => ({ id, reason: REASON }));
    checkpoints += (await deleteCheckpoints(engine, doomed)).length;
  }
  const { bytes } = await engine.storage.collect();
  return { checkpoints, bytes };
}
