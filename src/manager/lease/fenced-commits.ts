import { ClosedError } from '../../core/errors.ts';
import type { Commit, CommitResult } from '../../storage/contract.ts';
import type { Engine } from '../engine/engine.ts';
import type { HeldLease, Lease } from './lease.ts';
import { acquireLease, type LeaseOptions } from './lease-acquisition.ts';
import type { LeasePlace } from './lease-refs.ts';

/** The one way of a session's commits into the storage: with the fence of its lease, if it has one. */
export class FencedCommits {
  readonly #context: Engine;
  /** A lease that came with the session is its giver's to release. */
  readonly #given: HeldLease | undefined;
  #lease: HeldLease | undefined;
  #acquiring: Promise<HeldLease> | undefined;
  #isClosed = false;

  constructor(context: Engine, given?: HeldLease) {
    this.#context = context;
    this.#given = given;
    this.#lease = given;
  }

  /** The lease that commits stand under now; a lost one stays, and refuses them. */
  get lease(): HeldLease | undefined {
    return this.#lease?.isReleased === true ? undefined : this.#lease;
  }

  /** Commits in the order of the calls. Work begun under a lease ends under it: whoever released it meanwhile is not trusted. */
  async commit(commit: Commit, lease = this.lease): Promise<CommitResult> {
    return lease === undefined ? this.#context.storage.commit(commit) : lease.commit(commit);
  }

  /** Takes a lease, or renews the one that is held. */
  async acquire(place: LeasePlace, options: LeaseOptions): Promise<Lease> {
    const { lease } = this;
    if (lease !== undefined && !lease.isLost) {
      await lease.renew();
      return lease;
    }
    this.#acquiring ??= this.#acquire(place, options).finally(() => {
      this.#acquiring = undefined;
    });
    return this.#acquiring;
  }

  async #acquire(place: LeasePlace, options: LeaseOptions): Promise<HeldLease> {
    const lease = await acquireLease(this.#context, place, options);
    if (this.#isClosed) {
      await lease.release();
      throw new ClosedError(`Session "${place.sessionId}" was closed while it waited for its lease.`);
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
