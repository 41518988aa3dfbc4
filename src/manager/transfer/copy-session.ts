import { ConflictError } from '../../core/errors.ts';
import type { Tombstone } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Chunk } from '../../core/tree/chunk.ts';
import { Breather } from '../../storage/breather.ts';
import type { ChunkStorage, Commit, EffectRow, Ref, RefChange } from '../../storage/contract.ts';
import { parseEffect } from '../effect/effect-record.ts';
import { isFoldedInto, readSession } from '../engine/records.ts';
import { type ExportLine, TransferChunks, toRecord } from './export.ts';
import { RecordReader } from './record-reader.ts';

/** What a copy of one session did. */
export type CopyCounts = { checkpoints: number; present: number };

/** What is copied from: a CheckpointManager. */
export type CopySource = {
  exportSession(sessionId: string): AsyncIterable<string>;
  get(id: string): Promise<unknown>;
};

/** Where a copy goes, and who is told of each checkpoint. */
export type CopyTarget = { readonly storage: ChunkStorage; readonly onCheckpoint: () => Promise<void> };

/**
 * Copies a session to another storage, record by record, oldest first, each checked; what is there already is left alone, so a copy
 * that was stopped goes on where it was, and one that is repeated brings what came since. Names come last, and only if nobody changed
 * them meanwhile. A branch that went on there by itself is a ConflictError.
 */
export async function copySession(from: CopySource, sessionId: SessionId, target: CopyTarget): Promise<CopyCounts> {
  const copier = new SessionCopier(sessionId, target);
  await copier.begin(from);
  const reader = new RecordReader({});
  const breather = new Breather();
  for await (const text of from.exportSession(sessionId)) {
    const line = reader.read(text.trimEnd());
    if (line !== undefined) await copier.take(line);
    await breather.breathe();
  }
  const { refs } = reader.finish();
  await copier.finish(refs);
  return copier.counts;
}

class SessionCopier {
  readonly counts: CopyCounts = { checkpoints: 0, present: 0 };
  readonly #sessionId: SessionId;
  readonly #storage: ChunkStorage;
  readonly #onCheckpoint: () => Promise<void>;
  /** Live here and deleted there; names must not point at them. */
  readonly #deleted = new Set<string>();
  /** What was there when the copy began. */
  readonly #refs = new Map<string, string>();
  readonly #effects = new Map<string, EffectRow>();
  /** What was deleted there so long ago that only its place is left. */
  readonly #folds: Tombstone[] = [];
  readonly #chunks = new TransferChunks();
  /** Chunks of records that are deleted there. */
  #kept: Chunk[] = [];

  constructor(sessionId: SessionId, { storage, onCheckpoint }: CopyTarget) {
    this.#sessionId = sessionId;
    this.#storage = storage;
    this.#onCheckpoint = onCheckpoint;
  }

  /** Every head there must be known here, or the copy would lose it. */
  async begin(from: CopySource): Promise<void> {
    const sessionId = this.#sessionId;
    for (const { kind, name, target } of await this.#storage.readRefs({ sessionId })) {
      if (kind === 'import') throw new ConflictError(`Session "${sessionId}" is being imported in the other storage.`);
      if (kind === 'branch' && (await from.get(target)) === undefined) throw this.#wentOn(name, `at ${target}`);
      this.#refs.set(refKey(kind, name), target);
    }
    for (const row of await this.#storage.readEffects({ sessionId })) this.#effects.set(placeOf(row), row);
    for await (const { tombstone } of readSession(this.#storage, sessionId))
      if (tombstone?.folded !== undefined) this.#folds.push(tombstone);
  }

  #wentOn(branch: string, where: string): ConflictError {
    return new ConflictError(
      `Branch "${branch}" of session "${this.#sessionId}" went on by itself in the other storage, ${where}. Nothing of it was copied.`,
      { details: { sessionId: this.#sessionId, branch } },
    );
  }

  async take(line: ExportLine): Promise<void> {
    if ('chunk' in line) this.#chunks.add(line);
    else if ('checkpoint' in line || 'tombstone' in line) await this.#takeRecord(line);
    else if ('effect' in line) await this.#takeEffect({ ...line.effect, sessionId: this.#sessionId });
  }

  async #takeRecord(line: Extract<ExportLine, { checkpoint: unknown } | { tombstone: unknown }>): Promise<void> {
    const { checkpoint, tombstone } = toRecord(line);
    const { id } = checkpoint.header;
    if (tombstone === undefined) await this.#onCheckpoint();
    const there = await this.#storage.readCheckpoint(id);
    if (there !== undefined || this.#folds.some((fold) => isFoldedInto(fold, checkpoint.header)))
      return this.#passBy(id, { isLive: tombstone === undefined, isLiveThere: there?.isDeleted === false });
    const { status } = await this.#commit({ checkpoint, chunks: this.#takeChunks() });
    if (status === 'duplicate') throw this.#wentOn(checkpoint.header.branch, `with the idempotency key of ${id}`);
    if (tombstone === undefined) this.counts.checkpoints++;
    else await this.#storage.deleteCheckpoints([{ id, body: tombstone }]);
  }

  /** What was deleted there may have taken its chunks along: they go with the next one, which may need them. */
  #passBy(id: CheckpointId, { isLive, isLiveThere }: { isLive: boolean; isLiveThere: boolean }): void {
    if (!isLive) return;
    this.counts.present++;
    const chunks = this.#chunks.take();
    if (isLiveThere) return;
    this.#deleted.add(id);
    this.#kept.push(...chunks);
  }

  /** A step that ended since is brought up to date; one that is another there is theirs. */
  async #takeEffect(row: EffectRow): Promise<void> {
    const there = this.#effects.get(placeOf(row));
    if (there !== undefined && there.digest !== row.digest && !isSameCall(there, row))
      throw this.#wentOn(row.branch, `with step ${row.ordinal}`);
    const chunks = this.#takeChunks();
    if (there?.digest === row.digest) this.#kept.push(...chunks);
    else await this.#commit({ effects: [row], chunks, refs: [this.#unchanged(row.branch)] });
  }

  /** That nobody recorded anything in this log meanwhile. */
  #unchanged(name: string): RefChange {
    const target = this.#refs.get(refKey('log', name)) ?? null;
    return { kind: 'log', name, expect: target, target };
  }

  #takeChunks(): Chunk[] {
    const chunks = [...this.#kept, ...this.#chunks.take()];
    this.#kept = [];
    return chunks;
  }

  #commit(commit: Omit<Commit, 'sessionId'>) {
    return this.#storage.commit({ sessionId: this.#sessionId, ...commit });
  }

  async finish(names: readonly Pick<Ref, 'kind' | 'name' | 'target'>[]): Promise<void> {
    const refs = names
      .filter(({ target }) => !this.#deleted.has(target))
      .map(({ kind, name, target }) => ({ kind, name, target, expect: this.#refs.get(refKey(kind, name)) ?? null }));
    if (refs.length > 0) await this.#commit({ refs });
  }
}

function refKey(kind: string, name: string): string {
  return JSON.stringify([kind, name]);
}

function placeOf({ branch, ordinal }: EffectRow): string {
  return JSON.stringify([branch, ordinal]);
}

/** Whether two records are of one call, as it was and as it went on. */
function isSameCall(one: EffectRow, other: EffectRow): boolean {
  return parseEffect(one).idempotencyKey === parseEffect(other).idempotencyKey;
}
