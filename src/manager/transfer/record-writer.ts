import { parseCheckpointBody } from '../../core/record/checkpoint.ts';
import type { CheckpointHeader, Tombstone } from '../../core/record/checkpoint-header.ts';
import { type Chunk, createChunk } from '../../core/tree/chunk.ts';
import type { NewCheckpoint } from '../../storage/contract.ts';
import type { ExportLine } from './export.ts';

/** A record as a storage takes it. Of a deleted checkpoint an empty one is put in, and deleted again with the text that stays. */
export type TransferRecord = { readonly checkpoint: NewCheckpoint; readonly tombstone?: string };

/** Gathers the chunks of lines that were checked, for the record that comes after them. */
export class TransferChunks {
  #chunks: Chunk[] = [];

  add({ chunk }: Extract<ExportLine, { chunk: unknown }>): void {
    this.#chunks.push(createChunk(chunk));
  }

  take(): Chunk[] {
    const chunks = this.#chunks;
    this.#chunks = [];
    return chunks;
  }
}

/** What a line that was checked brings into a storage. */
export function toRecord(line: Extract<ExportLine, { checkpoint: unknown } | { tombstone: unknown }>): TransferRecord {
  if ('tombstone' in line) return toDeleted(line.tombstone);
  const { body, digest, root } = line.checkpoint;
  return { checkpoint: { header: parseCheckpointBody(body, digest), body, digest, root } };
}

function toDeleted({ body, digest }: Extract<ExportLine, { tombstone: unknown }>['tombstone']): TransferRecord {
  const { id, sessionId, branch, sequence, timestampMs, stateDigest } = JSON.parse(body) as Tombstone;
  const place = { id, sessionId, branch, sequence, timestampMs, stateDigest };
  const header: CheckpointHeader = { ...place, type: 'deleted', stateBytes: 0 };
  const checkpoint = { header, body: JSON.stringify(header), digest, root: { text: 'null', refs: [] } };
  return { checkpoint, tombstone: body };
}
