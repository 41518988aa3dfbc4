import type { EncodedState } from '../../core/codec/state-codec.ts';
import { ConflictError, isOutcomeUnknown } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Chunk, Digest } from '../../core/tree/chunk.ts';
import type { CommitResult, NewCheckpoint } from '../../storage/contract.ts';
import { buildCheckpoint, keyTaken, type Place } from '../engine/commit-builder.ts';
import type { Engine } from '../engine/engine.ts';
import type { DescribedHeader } from '../engine/save-options.ts';
import type { FencedCommits } from '../lease/fenced-commits.ts';

/** Where a writer begins. */
export type BranchStart = {
  readonly sessionId: SessionId;
  readonly branch: string;
  /** Whether the branch exists in the storage. */
  readonly isBranchStored: boolean;
  readonly head: Checkpoint | undefined;
};

/** A state as it was when `save` was called, and what the caller said about it. */
export type PendingSave = {
  readonly described: DescribedHeader;
  readonly encoded: EncodedState;
  /** What the effect log held then: whatever comes later comes after the checkpoint. */
  readonly effects: Place['effects'];
  readonly signal: AbortSignal | undefined;
  /** Whether nothing is stored if nothing changed since the last checkpoint. */
  readonly ifChanged: boolean;
  /** Which life of the session it was captured in. */
  readonly life: number;
};

type Delivery = { readonly checkpoint: Checkpoint; readonly chunks: readonly Chunk[] };

/** Stores the checkpoints of one branch, each on top of the last one that was stored. */
export class BranchWriter {
  readonly #context: Engine;
  readonly #commits: FencedCommits;
  readonly #sessionId: SessionId;
  #branch: string;
  #isBranchStored: boolean;
  #head: Checkpoint | undefined;
  /** Chunks that no commit has brought for certain: the next one refers to them, so it brings them. */
  readonly #unstored = new Map<Digest, Chunk>();
  /** A commit that got no answer: it may be stored. */
  #doubtful: Delivery | undefined;
  #life = 0;

  constructor(context: Engine, commits: FencedCommits, start: BranchStart) {
    this.#context = context;
    this.#commits = commits;
    this.#sessionId = start.sessionId;
    this.#branch = start.branch;
    this.#isBranchStored = start.isBranchStored;
    this.#head = start.head;
  }

  get branch(): string {
    return this.#branch;
  }

  get head(): Checkpoint | undefined {
    return this.#head;
  }

  /** What the branch is at in the storage; undefined before its first checkpoint. */
  get storedHead(): Checkpoint | undefined {
    return this.#isBranchStored ? this.#head : undefined;
  }

  get isInDoubt(): boolean {
    return this.#doubtful !== undefined;
  }

  /** How often the session was deleted while this wrote to it. */
  get life(): number {
    return this.#life;
  }

  /** Refuses what was captured before. */
  renew(): void {
    this.#life++;
  }

  /** Begins anew: of what was stored before nothing is left. */
  restart(): void {
    this.renew();
    this.#head = undefined;
    this.#isBranchStored = false;
    this.#unstored.clear();
    this.#doubtful = undefined;
  }

  /** Stores a checkpoint and makes it the head. */
  async store(pending: PendingSave): Promise<Checkpoint> {
    const { described, encoded, effects, signal, life } = pending;
    // It was encoded against a state that is gone, so its chunks are not all there are.
    if (life !== this.#life)
      throw new ConflictError(`Session "${this.#sessionId}" was deleted meanwhile. Save again to begin it anew.`);
    for (const chunk of encoded.chunks) this.#unstored.set(chunk.digest, chunk);
    signal?.throwIfAborted();
    if (this.isInDoubt) await this.settleDoubt();
    const { storedHead } = this;
    if (pending.ifChanged && storedHead !== undefined && isUnchanged(pending, storedHead)) return storedHead;
    const place = { sessionId: this.#sessionId, branch: this.#branch, parent: this.#head, effects };
    const { checkpoint, record } = buildCheckpoint(this.#context, place, { described, encoded });
    const delivery = { checkpoint, chunks: [...this.#unstored.values()] };
    const result = await this.#commit(delivery, record);
    if (result.status === 'duplicate') return this.#findStored(result.id, pending);
    this.#advance(delivery);
    return checkpoint;
  }

  async #commit(delivery: Delivery, record: NewCheckpoint): Promise<CommitResult> {
    const target = delivery.checkpoint.id;
    try {
      return await this.#commits.commit({
        sessionId: this.#sessionId,
        checkpoint: record,
        chunks: delivery.chunks,
        refs: [{ kind: 'branch', name: this.#branch, expect: this.storedHead?.id ?? null, target }],
        ...(this.#head !== undefined && { requires: [this.#head.id] }),
      });
    } catch (error) {
      if (isOutcomeUnknown(error)) this.#doubtful = delivery;
      throw error;
    }
  }

  #advance({ checkpoint, chunks }: Delivery): void {
    for (const { digest } of chunks) this.#unstored.delete(digest);
    this.#doubtful = undefined;
    this.#head = checkpoint;
    this.#isBranchStored = checkpoint.branch === this.#branch;
  }

  /** This save was stored before under the same key. If that answer got lost on its way, the head is there by now. */
  async #findStored(id: CheckpointId, { described, encoded }: PendingSave): Promise<Checkpoint> {
    const { checkpoint } = await this.#context.repository.open(id);
    if (checkpoint.stateDigest !== encoded.root.digest) throw keyTaken(checkpoint, described.idempotencyKey);
    if (checkpoint.branch === this.#branch && checkpoint.parentId === this.#head?.id) {
      this.#head = checkpoint;
      this.#isBranchStored = true;
    }
    return checkpoint;
  }

  /** A commit that got no answer may be stored after all: then the next one stands on it. */
  async settleDoubt(): Promise<void> {
    const doubtful = this.#doubtful;
    if (doubtful === undefined) return;
    const row = await this.#context.storage.readCheckpoint(doubtful.checkpoint.id);
    const isStored = row !== undefined && !row.isDeleted;
    if (isStored && this.#doubtful === doubtful) this.#advance(doubtful);
  }

  /** Goes on from the last own checkpoint, in a new branch that says where it left. */
  branchOff(): void {
    this.#branch = `${this.#branch}~${this.#context.ports.nextId().slice(-8)}`;
    this.#isBranchStored = false;
  }
}

/** What a checkpoint says of its agent. Why it was saved does not count. */
const ABOUT_AGENT = [
  'agentId',
  'agentType',
  'userId',
  'status',
  'contextSummary',
  'collectedFields',
  'requiredFields',
  'metadata',
  'fingerprint',
] as const;

function isUnchanged({ described, encoded }: PendingSave, { header }: Checkpoint): boolean {
  const about = (said: DescribedHeader): string => JSON.stringify(ABOUT_AGENT.map((field) => said[field] ?? null));
  return encoded.root.digest === header.stateDigest && about(described) === about(header);
}
