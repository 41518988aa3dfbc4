import type { CheckpointHeader } from '../../src/core/record/checkpoint-header.ts';
import type { ChunkStorage } from '../../src/storage/contract.ts';

/**
 * Everything that a storage holds, in words that are the same for every run of the same calls: ids are numbered in their order, and
 * what depends on the time or on chance is left out.
 */
export async function takeSnapshot(storage: ChunkStorage): Promise<string[]> {
  const sessions = await storage.listSessions({ limit: 1_000 });
  const rows = await storage.listCheckpoints({ limit: 1_000, include: 'all', order: 'oldest' });
  const effects = await Promise.all(sessions.map((sessionId) => storage.readEffects({ sessionId })));
  const lines = [
    ...rows.map(({ body, isDeleted }) => describeCheckpoint(JSON.parse(body) as CheckpointHeader, isDeleted)),
    ...(await storage.readRefs()).map(({ sessionId, kind, name, target }) =>
      kind === 'lease' || kind === 'due' ? [sessionId, kind, name] : [sessionId, kind, name, target],
    ),
    ...effects.flat().map((effect) => {
      const { name, status, attempt } = JSON.parse(effect.body) as Record<string, unknown>;
      return [effect.sessionId, effect.branch, effect.ordinal, name, status, attempt];
    }),
  ];
  const numbers = new Map(rows.map(({ id }, at) => [id as string, `#${at}`]));
  return lines.map((line) => JSON.stringify(line).replaceAll(/chk_\w{22}/g, (id) => numbers.get(id) ?? id)).sort();
}

function describeCheckpoint(header: CheckpointHeader, isDeleted: boolean): unknown[] {
  const { id, sessionId, branch, parentId, sequence, stateDigest, idempotencyKey, effectCount } = header;
  return [sessionId, branch, id, parentId, sequence, isDeleted, stateDigest, idempotencyKey, effectCount];
}
