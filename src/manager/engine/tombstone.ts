import { CorruptError } from '../../core/errors.ts';
import { checkTombstone } from '../../core/record/check-header.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { Tombstone } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { type Digest, digestText } from '../../core/tree/chunk.ts';
import type { CheckpointRow } from '../../storage/contract.ts';

/** The text that stays of a deleted checkpoint. Its last field proves that no bit of it, or of the digest beside it, changed. */
export function formatTombstone({ header, digest }: Checkpoint, deletedAtMs: number, reason: string): string {
  const { id, sessionId, branch, parentId, sequence, timestampMs, stateDigest } = header;
  const tombstone: Tombstone = {
    id,
    sessionId,
    branch,
    ...(parentId !== undefined && { parentId }),
    sequence,
    timestampMs,
    stateDigest,
    deletedAtMs,
    reason,
  };
  return JSON.stringify({ ...tombstone, check: checkOf(tombstone, digest) });
}

/** Reads a tombstone's text; throws a CorruptError if it is not what was written. */
export function parseTombstone({
  body,
  digest,
  id,
}: Pick<CheckpointRow, 'body' | 'digest'> & { id?: CheckpointId }): Tombstone {
  const { check, ...json } = parseObject(body);
  const tombstone = checkTombstone(json);
  if ((id ?? tombstone.id) === tombstone.id && check === checkOf(tombstone, digest)) return tombstone;
  throw new CorruptError(`The tombstone of checkpoint ${id ?? tombstone.id} is damaged.`, {
    details: { id: id ?? tombstone.id },
  });
}

function parseObject(body: string): { readonly check?: unknown } {
  try {
    return { ...(JSON.parse(body) as object) };
  } catch {
    return {}; // which fails the check, as damage should
  }
}

function checkOf(tombstone: Tombstone, digest: Digest): string {
  return digestText(JSON.stringify([digest, tombstone])).slice(0, 16);
}
