import { isLost } from '../../core/errors.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { ChunkStorage } from '../../storage/contract.ts';

/**
 * Whether a session has checkpoints and no names at all: a backup or copy to this storage was cut off before it could set them, or is
 * still under way. An import holds a claim, and every save sets a name.
 */
export async function isCutOff(storage: ChunkStorage, sessionId: SessionId): Promise<boolean> {
  try {
    if ((await storage.readRefs({ sessionId })).length > 0) return false;
    const [row] = await storage.listCheckpoints({ sessionId, limit: 1 });
    return row !== undefined && (await storage.readRefs({ sessionId })).length === 0; // it may have been begun just now
  } catch (error) {
    if (isLost(error)) return false; // verify names what is damaged
    throw error;
  }
}
