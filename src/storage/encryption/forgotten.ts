import { isForgotten, isLost } from '../../core/errors.ts';
import type { SessionId } from '../../core/record/id.ts';
import { Breather } from '../breather.ts';
import type { CheckpointQuery, CheckpointRow, ChunkStorage, ForgottenCount } from '../contract.ts';
import { openSession, sealedTextOf, sealQuery } from './sealed-rows.ts';
import type { Vault } from './vault.ts';

const PAGE = 1_000;

/** The sessions some of whose checkpoints fit a query and cannot be read, because their key was removed. */
export async function countForgotten(
  inner: ChunkStorage,
  vault: Vault,
  query: Omit<CheckpointQuery, 'limit' | 'after' | 'offset'>,
): Promise<ForgottenCount[]> {
  const counts = new Map<SessionId, { checkpoints: number; forgotten: number }>();
  const breather = new Breather();
  for (let sealed = sealQuery(vault, { ...query, limit: PAGE }); ; ) {
    const rows = await inner.listCheckpoints(sealed);
    await breather.each(rows, (row) => {
      const count = counts.get(row.sessionId) ?? { checkpoints: 0, forgotten: 0 };
      count.checkpoints++;
      if (hasRemovedKey(vault, row)) count.forgotten++;
      counts.set(row.sessionId, count);
    });
    const last = rows.at(-1);
    if (last === undefined || rows.length < PAGE) break;
    sealed = { ...sealed, after: last.id };
  }
  return [...counts].flatMap(([sessionId, count]) =>
    count.forgotten === 0 ? [] : [{ sessionId: openSession(vault, sessionId), ...count }],
  );
}

function hasRemovedKey(vault: Vault, row: CheckpointRow): boolean {
  if (row.isDeleted) return false;
  try {
    vault.lockOf(sealedTextOf(row), `Checkpoint ${row.id}`);
    return false;
  } catch (error) {
    if (!isLost(error)) throw error;
    return isForgotten(error);
  }
}
