import type { EncodedState } from '../../core/codec/state-codec.ts';
import { ClosedError, ConflictError, isOutcomeUnknown } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Chunk, Digest } from '../../core/tree/chunk.ts';
import type { Commit, CommitResult, RefChange } from '../../storage/contract.ts';
import { isRefused } from '../../storage/refusal.ts';
import type { EffectLog } from '../effect/effect-log.ts';
import type { Engine } from '../engine/engine.ts';
import { DEFAULT_BRANCH, makeCurrent } from '../engine/records.ts';
import { type DescribedHeader, SAID_FIELD_NAMES } from '../engine/save-options.ts';
import { inheritUser, type WritePlace, type Writer } from '../engine/writer.ts';
import { acquireLease, type HeldLease, type Lease, type LeaseOptions } from '../lease/lease.ts';
import { checkFree } from '../revision/ref-name.ts';

/** Where a line begins. */
export type BranchStart = {
  readonly sessionId: SessionId;
  readonly branch: string;
  /** Whether the branch exists in the storage. */
  readonly isBranchStored: boolean;
  readonly head: Checkpoint | undefined;
  /** A lease that was taken for it; whoever took it ends it. */
  readonly lease?: HeldLease | undefined;
};

/** A state as it was when `save` was called, and what the caller said about it. */
export type PendingSave = {
  readonly described: DescribedHeader;
  readonly encoded: EncodedState;
  /** What the effect log held then: whatever comes later comes after the checkpoint. */
  readonly effects: NonNullable<WritePlace['effects']>;
  /** The log of the branch, as this line knows it. */
  readonly log: Pick<EffectLog, 'checks'>;
  readonly signal: AbortSignal | undefined;
  /** Whether nothing is stored if nothing changed since the last checkpoint. */
  readonly ifChanged: boolean;
  /** Which life of the session it was captured in. */
  readonly life: number;
};

/** A commit that got no answer: it may be stored. */
type Doubtful = { readonly id: CheckpointId; readonly chunks: readonly Chunk[] };

/** A branch that is written to again and again, under a lease if one was taken: each checkpoint on top of the last that was stored. */
export class BranchLine {
  readonly sessionId: SessionId;
  readonly #engine: Engine;
  /** A lease that came with the session is its giver's to release. */
  readonly #given: HeldLease | undefined;
  #lease: HeldLease | undefined;
  #acquiring: Promise<HeldLease> | undefined;
  #isClosed = false;
  #branch: string;
  #isBranchStored: boolean;
  #head: Checkpoint | undefined;
  /** Chunks that no commit has brought for certain: the next one refers to them, so it brings them. */
  readonly #unstored = new Map<Digest, Chunk>();
  #doubtful: Doubtful[] = [];
  #life = 0;
  /** Whether the session was deleted since its last checkpoint. */
  #isAnew = false;

  constructor(engine: Engine, start: BranchStart) {
    this.#engine = engine;
    this.sessionId = start.sessionId;
    this.#branch = start.branch;
    this.#isBranchStored = start.isBranchStored;
    this.#head = start.head;
    this.#given = start.lease;
    this.#lease = start.lease;
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
    return this.#doubtful.length > 0;
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
    this.#isAnew = true;
    this.#head = undefined;
    this.#isBranchStored = false;
    this.#unstored.clear();
    this.#doubtful = [];
  }

  /** Holds the chunks of a save whose turn has come: what was captured since builds on them, whether it is stored or not. */
  bring({ encoded, life }: PendingSave): void {
    if (life === this.#life) for (const chunk of encoded.chunks) this.#unstored.set(chunk.digest, chunk);
  }

  /** Stores a checkpoint that was brought, and makes it the head. */
  async store(writer: Writer, pending: PendingSave): Promise<Checkpoint> {
    const succession = this.#isAnew ? await this.#succeed() : []; // before the look: what it waits for may end the session
    // It was encoded against a state that is gone, so its chunks are not all there are.
    if (pending.life !== this.#life)
      throw new ConflictError(`Session "${this.sessionId}" was deleted meanwhile. Save again to begin it anew.`);
    pending.signal?.throwIfAborted();
    if (this.isInDoubt) await this.settleDoubt(writer);
    const { storedHead } = this;
    if (pending.ifChanged && storedHead !== undefined && isUnchanged(pending, storedHead)) return storedHead;
    try {
      return await this.#write(writer, pending, succession);
    } catch (error) {
      if (!this.#isOwn(error)) throw error;
      await this.settleDoubt(writer); // it arrived after the look
      return this.#write(writer, pending, succession);
    }
  }

  /** Where the next checkpoint goes: after the last of this line, with nothing that another recorded since; no new branch hides a tag. */
  #next({ effects, log }: PendingSave, succession: readonly RefChange[]) {
    const { sessionId, branch, lease, storedHead } = this;
    const parent = this.#head;
    const id = this.#engine.ports.nextId(parent?.id);
    const refs = [...log.checks, ...(storedHead === undefined ? [checkFree('tag', branch)] : []), ...succession];
    return { sessionId, branch, parent, id, effects, lease, expect: storedHead?.id ?? null, refs };
  }

  /** If a deleted session begins anew on another branch than `main`, that is the one to open next. */
  async #succeed(): Promise<RefChange[]> {
    const { sessionId, branch } = this;
    const branches = await this.#engine.repository.readRefs({ sessionId, kind: 'branch' });
    return branches.length === 0 && branch !== DEFAULT_BRANCH ? [makeCurrent(branch)] : [];
  }

  async #write(writer: Writer, pending: PendingSave, succession: readonly RefChange[]): Promise<Checkpoint> {
    const { described, encoded } = pending;
    const place = this.#next(pending, succession);
    const { id, branch, parent } = place;
    const chunks = [...this.#unstored.values()];
    try {
      const checkpoint = await writer.write(place, { described, encoded, chunks });
      // One that was stored before under the same key is the head by now, if only the answer to it got lost.
      if (checkpoint.id === id) this.#advance(checkpoint, chunks);
      else if (checkpoint.branch === branch && checkpoint.parentId === parent?.id) this.#advance(checkpoint, []);
      return checkpoint;
    } catch (error) {
      if (isOutcomeUnknown(error)) this.#doubtful.push({ id, chunks });
      throw error;
    }
  }

  #advance(checkpoint: Checkpoint, chunks: readonly Chunk[]): void {
    for (const { digest } of chunks) this.#unstored.delete(digest);
    this.#doubtful = [];
    this.#head = checkpoint;
    this.#isAnew = false;
    this.#isBranchStored = checkpoint.branch === this.#branch;
  }

  /** Whether a save was refused only because an earlier one of this line was stored after all. */
  #isOwn(error: unknown): boolean {
    return isRefused(error, 'moved') && this.#doubtful.some(({ id }) => id === error.details.found);
  }

  /** A commit that got no answer may be stored after all: then the next one stands on it. */
  async settleDoubt(writer: Writer): Promise<void> {
    for (const doubtful of this.#doubtful) {
      const checkpoint = await writer.find(doubtful.id);
      if (checkpoint !== undefined && this.#doubtful.includes(doubtful)) this.#advance(checkpoint, doubtful.chunks);
    }
  }

  /** Goes on from the last own checkpoint, in a new branch that says where it left. */
  branchOff(): void {
    this.#branch = `${this.#branch}~w${this.#engine.ports.nextId().slice(-7)}`; // no number: `~3` is a revision
    this.#isBranchStored = false;
  }

  /** The lease that commits stand under now; a lost one stays, and refuses them. */
  get lease(): HeldLease | undefined {
    return this.#lease?.isReleased === true ? undefined : this.#lease;
  }

  /**
   * Commits in the order of the calls. Work begun under a lease ends under it: whoever released it meanwhile, or closed the session,
   * is not trusted. Another may have taken the work up since.
   */
  async commit(commit: Commit, lease = this.lease): Promise<CommitResult> {
    if (this.#isClosed)
      throw new ClosedError(
        `Session "${this.sessionId}" was closed or rewound before this step ended, so its outcome is not recorded.`,
      );
    return (lease ?? this.#engine.storage).commit(commit);
  }

  /** Takes a lease, or renews the one that is held. */
  async acquire(options: LeaseOptions): Promise<Lease> {
    const { lease } = this;
    if (lease !== undefined && !lease.isLost) {
      await lease.renew();
      return lease;
    }
    this.#acquiring ??= this.#acquire(options).finally(() => {
      this.#acquiring = undefined;
    });
    return this.#acquiring;
  }

  async #acquire(options: LeaseOptions): Promise<HeldLease> {
    const { sessionId, branch } = this;
    const lease = await acquireLease(this.#engine, { sessionId, branch }, options);
    if (this.#isClosed) {
      await lease.release();
      throw new ClosedError(`Session "${sessionId}" was closed while it waited for its lease.`);
    }
    this.#lease = lease;
    return lease;
  }

  /** Releases what was acquired here. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#lease !== this.#given) await this.#lease?.release();
  }
}

/** What a checkpoint says of its saving, and not of its agent. */
const OF_SAVING = new Set<string>(['idempotencyKey', 'trigger', 'name', 'note', 'author', 'reason']);
const ABOUT_AGENT = SAID_FIELD_NAMES.filter((field) => !OF_SAVING.has(field));

function isUnchanged({ described, encoded }: PendingSave, head: Checkpoint): boolean {
  const about = (said: DescribedHeader): string => JSON.stringify(ABOUT_AGENT.map((field) => said[field] ?? null));
  const said = { ...described, ...inheritUser(described, head) };
  return encoded.root.digest === head.stateDigest && about(said) === about(head.header);
}
