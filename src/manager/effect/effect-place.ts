import type { Digest } from '../../core/tree/chunk.ts';
import type { ChunkStorage, EffectRow, NewEffect } from '../../storage/contract.ts';
import { isRefused } from '../../storage/refusal.ts';
import { type EffectRecord, parseEffect, type RecordedEffect } from './effect-record.ts';

/** What is to stand at a place of a log, and the digest of what stands there now, as far as is known; without one nothing can. */
export type Placement = { readonly record: EffectRecord; readonly row: EffectRow; readonly over: Digest | undefined };

/**
 * Stores a row at a place where another process may record, too. A result that stands there stays, whoever brought it, and is returned.
 * Throws the storage's ConflictError if another attempt has begun since, or nothing is there any more.
 */
export async function placeEffect(
  storage: ChunkStorage,
  { record, row, over }: Placement,
  commit: (effect: NewEffect) => Promise<unknown>,
): Promise<RecordedEffect | undefined> {
  for (let known = over; ; ) {
    try {
      await commit(known === undefined ? row : { ...row, expect: known });
      return undefined;
    } catch (error) {
      const standing = isRefused(error, 'replaced') ? await readPlace(storage, row) : undefined;
      if (standing === undefined || standing.digest === known) throw error;
      const found = parseEffect(standing);
      if (found.status === 'done') return found;
      if (!mayReplace(record, found)) throw error;
      known = standing.digest;
    }
  }
}

async function readPlace(storage: ChunkStorage, { sessionId, branch, ordinal }: EffectRow) {
  const [first] = await storage.readEffects({ sessionId, branch, fromOrdinal: ordinal });
  return first?.ordinal === ordinal ? first : undefined;
}

/** A result counts more than any attempt without one; else the later attempt counts. */
function mayReplace({ status, attempt }: EffectRecord, found: EffectRecord): boolean {
  if (found.status === 'dropped') return false;
  return status === 'done' || found.attempt < attempt || (status === 'failed' && found.attempt === attempt);
}
