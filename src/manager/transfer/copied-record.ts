import { CorruptError } from '../../core/errors.ts';
import type { CheckpointHeader, Tombstone } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import type { ChunkContent } from '../../core/tree/chunk.ts';
import type { CheckpointRow, CheckpointRowWithRoot, EffectRow, NewCheckpoint } from '../../storage/contract.ts';
import { parseEffect } from '../effect/effect-record.ts';
import { parseObject, parseRoot, parseRow, parseTombstone } from '../engine/records.ts';

/** Whether `encrypted()` sealed a row. It is copied as it is: its chunks and names are checked, and the rest, if there are keys, by SealedCheck. */
export function isSealedRow({ body }: Pick<CheckpointRow, 'body'>): boolean {
  return /,"sealed":"[^"]*"\}$/.test(body);
}

/** The same of a step. */
export const isSealedEffect = ({ body }: EffectRow): boolean => /^k_[0-9a-f]{16}\./.test(body);

/** The parent of a checkpoint or tombstone, which is checked. */
export function readParent(row: CheckpointRow): CheckpointId | undefined {
  return (row.isDeleted && !isSealedRow(row) ? parseTombstone(row) : readHeader(row)).parentId;
}

/** The tombstone that stands for others, too; of every other row nothing. */
export function readFold(row: CheckpointRow): Tombstone[] {
  if (!row.isDeleted || isSealedRow(row)) return [];
  const tombstone = parseTombstone(row);
  return tombstone.folded === undefined ? [] : [tombstone];
}

function readHeader(row: CheckpointRow): CheckpointHeader {
  if (!isSealedRow(row)) return parseRow(row).header;
  const { sealed: _, ...clear } = parseObject(row.body);
  const isFiled = clear.id === row.id && clear.sessionId === row.sessionId && 'deletedAtMs' in clear === row.isDeleted;
  if (isFiled) return clear as CheckpointHeader;
  throw new CorruptError(`The record stored as ${row.id} is damaged.`, { details: { id: row.id } });
}

/** A checkpoint as the other storage takes it. */
export function toNewCheckpoint(row: CheckpointRowWithRoot & { readonly root: ChunkContent }): NewCheckpoint {
  const header = readHeader(row);
  if (!isSealedRow(row)) parseRoot(parseRow(row), row.root);
  return { header, body: row.body, digest: row.digest, root: row.root };
}

/** Whether a copy was killed before it could delete what it had put in for a tombstone. */
export function isPlaceholder({ isDeleted, body }: CheckpointRow): boolean {
  return !isDeleted && body.includes('"type":"deleted"') && parseObject(body).stateBytes === 0;
}

/** Whether a recorded step may take the place of another: it is the same call, which went on. */
export function isSameCall(one: EffectRow, other: EffectRow): boolean {
  return isSealedEffect(one) || parseEffect(one).idempotencyKey === parseEffect(other).idempotencyKey;
}

/** Whether a step, which is checked, has not ended; of a sealed one nobody knows. */
export function isOpenEffect(row: EffectRow): boolean {
  return isSealedEffect(row) || parseEffect(row).status === 'started';
}
