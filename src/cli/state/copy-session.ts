import { parseCheckpointBody } from '../../core/checkpoint.ts';
import type { CheckpointHeader, Tombstone } from '../../core/checkpoint-header.ts';
import { type Chunk, createChunk } from '../../core/chunk.ts';
import { ConflictError } from '../../core/errors.ts';
import type { SessionId } from '../../core/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ExportLine } from '../../manager/export.ts';
import type { ChunkStorage, RefChange } from '../../storage/contract.ts';

/** What a copy of one session did. */
export type CopyCounts = { checkpoints: number; present: number };

/** Where a copy goes, and who is told of each checkpoint. */
export type CopyTarget = { readonly storage: ChunkStorage; readonly onCheckpoint: () => Promise<void> };

/**
 * Copies a session to another storage, record by record, oldest first; what is there already is left alone, so a copy that was stopped
 * goes on where it was, and one that is repeated brings what came since. Names come last. A branch that went on there by itself is a ConflictError.
 */
export async function copySession(
  from: CheckpointManager,
  sessionId: SessionId,
  target: CopyTarget,
): Promise<CopyCounts> {
  const copier = new SessionCopier(sessionId, target);
  await copier.checkBranches(from);
  for await (const line of from.exportSession(sessionId)) await copier.take(JSON.parse(line) as ExportLine);
  await copier.finish();
  return copier.counts;
}

class SessionCopier {
  readonly counts: CopyCounts = { checkpoints: 0, present: 0 };
  readonly #sessionId: SessionId;
  readonly #storage: ChunkStorage;
  readonly #onCheckpoint: () => Promise<void>;
  readonly #refs: RefChange[] = [];
  /** Live here and deleted there; names must not point at them. */
  readonly #deleted = new Set<string>();
  /** Chunks since the last record, and those of records that are deleted there. */
  #chunks: Chunk[] = [];
  #kept: Chunk[] = [];

  constructor(sessionId: SessionId, { storage, onCheckpoint }: CopyTarget) {
    this.#sessionId = sessionId;
    this.#storage = storage;
    this.#onCheckpoint = onCheckpoint;
  }

  /** Every head there must be known here, or the copy would lose it. */
  async checkBranches(from: CheckpointManager): Promise<void> {
    for (const { name, target } of await this.#storage.readRefs({ sessionId: this.#sessionId, kind: 'branch' })) {
      if ((await from.get(target)) !== undefined) continue;
      throw new ConflictError(
        `Branch "${name}" of session "${this.#sessionId}" went on by itself in the other storage, at ${target}. Nothing of it was copied.`,
      );
    }
  }

  async take(line: ExportLine): Promise<void> {
    if ('chunk' in line) this.#chunks.push(createChunk(line.chunk));
    else if ('checkpoint' in line) await this.#takeCheckpoint(line.checkpoint);
    else if ('tombstone' in line) await this.#takeTombstone(line.tombstone);
    else if ('effect' in line)
      await this.#commit({ effects: [{ ...line.effect, sessionId: this.#sessionId }], chunks: this.#takeChunks() });
    else if ('ref' in line) this.#refs.push(line.ref);
  }

  async #takeCheckpoint({
    body,
    digest,
    root,
  }: Extract<ExportLine, { checkpoint: unknown }>['checkpoint']): Promise<void> {
    const header = parseCheckpointBody(body, digest);
    await this.#onCheckpoint();
    const there = await this.#storage.readCheckpoint(header.id);
    if (there === undefined) {
      await this.#commit({ checkpoint: { header, body, digest, root }, chunks: this.#takeChunks() });
      this.counts.checkpoints++;
      return;
    }
    this.counts.present++;
    // What was deleted there may have taken its chunks along: they go with the next one, which may need them.
    if (there.isDeleted) {
      this.#deleted.add(header.id);
      this.#kept.push(...this.#chunks);
    }
    this.#chunks = [];
  }

  /** A storage makes tombstones from checkpoints only, so an empty one is put in and deleted again. */
  async #takeTombstone({ body, digest }: Extract<ExportLine, { tombstone: unknown }>['tombstone']): Promise<void> {
    const { id, sessionId, branch, sequence, timestampMs, stateDigest } = JSON.parse(body) as Tombstone;
    if ((await this.#storage.readCheckpoint(id)) !== undefined) return;
    const header: CheckpointHeader = {
      id,
      sessionId,
      branch,
      sequence,
      timestampMs,
      stateDigest,
      type: 'deleted',
      stateBytes: 0,
    };
    await this.#commit({
      checkpoint: { header, body: JSON.stringify(header), digest, root: { text: 'null', refs: [] } },
    });
    await this.#storage.deleteCheckpoints([{ id, body }]);
  }

  #takeChunks(): Chunk[] {
    const chunks = [...this.#kept, ...this.#chunks];
    this.#kept = [];
    this.#chunks = [];
    return chunks;
  }

  async #commit(commit: Omit<Parameters<ChunkStorage['commit']>[0], 'sessionId'>): Promise<void> {
    await this.#storage.commit({ sessionId: this.#sessionId, ...commit });
  }

  async finish(): Promise<void> {
    const refs = this.#refs.filter(({ target }) => target === null || !this.#deleted.has(target));
    if (refs.length > 0) await this.#commit({ refs });
  }
}
