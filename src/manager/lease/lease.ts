import { ClosedError } from '../../core/errors.ts';
import { accepts, delayFrom, flag, type Optional, type OptionChecks, oneOf, signal } from '../../core/options.ts';
import { name } from '../../core/record/id.ts';
import { sleep } from '../../core/time/timer.ts';
import type { Commit, CommitResult, RefChange } from '../../storage/contract.ts';
import type { Engine } from '../engine/engine.ts';
import {
  describeHeld,
  describeLapse,
  describeTakeover,
  formatDue,
  formatHolder,
  isHolderDead,
  isHolderGone,
  isLeaseConflict,
  keptHere,
  type LeaseDue,
  type LeaseHolder,
  type LeasePlace,
  type LeaseState,
  moveLease,
  nameHolder,
  readClock,
  readLease,
} from './lease-refs.ts';

/** The right to write to a branch until it is released, taken over, or not renewed in time. */
export interface Lease {
  readonly sessionId: string;
  readonly branch: string;
  /** Rises with every acquisition of the branch: a fencing token for outside systems. */
  readonly epoch: number;
  readonly owner: string | undefined;
  /** By the storage's clock, if it has one. */
  readonly expiresAtMs: number;
  /** Whether it is neither released nor lost, and its time is not up. */
  readonly isHeld: boolean;
  /** Aborts when the lease is lost, with a ConflictError that says to whom. */
  readonly signal: AbortSignal;
  /** Makes it last for its whole time again. */
  renew(): Promise<void>;
  /** Lets others have it. Idempotent; does nothing if the lease is lost. */
  release(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** How a free lease is taken and kept: for how long without a sign of life, and who gives that sign. */
export type LeaseTerms = {
  readonly ttlMs: number;
  /** `auto`: renewed in the background. `manual`: by the caller, with `renew`. */
  readonly renew: 'auto' | 'manual';
  readonly owner?: string | undefined;
};

/** What a successful acquisition knows. `askedAtMs` is this process's time before the storage was asked. */
type LeaseClaim = LeasePlace &
  LeaseHolder &
  LeaseTerms & { readonly attempts: number; readonly expiresAtMs: number; readonly askedAtMs: number };

/** Two renewals may fail before the lease lapses; one that failed is tried again sooner. */
const RENEWALS_PER_TTL = 3;
const RETRIES_PER_TTL = 12;

/** A lease in the hands of its holder. Every commit goes through it with a check of the lease's ref: that is the fence. */
export class HeldLease implements Lease {
  readonly sessionId: LeasePlace['sessionId'];
  readonly branch: string;
  readonly epoch: number;
  readonly owner: string | undefined;
  readonly #engine: Engine;
  readonly #claim: LeaseClaim;
  readonly #loss = new AbortController();
  #expiresAtMs: number;
  /** When it lapses by this process's clock, never later than by the shared one. */
  #deadlineMs: number;
  #isReleased = false;
  #ending: Promise<boolean> | undefined;
  #cancelTimers: () => void = () => undefined;

  constructor(engine: Engine, claim: LeaseClaim) {
    this.#engine = engine;
    this.#claim = claim;
    this.sessionId = claim.sessionId;
    this.branch = claim.branch;
    this.epoch = claim.epoch;
    this.owner = claim.owner;
    this.#expiresAtMs = claim.expiresAtMs;
    this.#deadlineMs = claim.askedAtMs + claim.ttlMs;
    keptHere.add(claim.holder);
    this.#setTimers(RENEWALS_PER_TTL);
  }

  get expiresAtMs(): number {
    return this.#expiresAtMs;
  }

  get isHeld(): boolean {
    return !this.#isReleased && !this.isLost && this.#engine.ports.now() < this.#deadlineMs;
  }

  get isLost(): boolean {
    return this.#loss.signal.aborted;
  }

  get isReleased(): boolean {
    return this.#isReleased;
  }

  get signal(): AbortSignal {
    return this.#loss.signal;
  }

  /** Commits if the lease is still ours; refused with a ConflictError that says who took it over otherwise. */
  async commit(commit: Commit): Promise<CommitResult> {
    this.signal.throwIfAborted();
    const target = formatHolder(this.#claim);
    const fence: RefChange = { kind: 'lease', name: this.branch, expect: target, target };
    try {
      return await this.#engine.storage.commit({ ...commit, refs: [fence, ...(commit.refs ?? [])] });
    } catch (error) {
      if (!isLeaseConflict(error)) throw error;
      const takeover = describeTakeover(this.#claim, error.details.found);
      this.#lose(takeover);
      throw takeover;
    }
  }

  async renew(): Promise<void> {
    if (this.#isReleased) throw new ClosedError('This lease was released. Take a new one with session.lease().');
    const askedAtMs = this.#engine.ports.now();
    const expiresAtMs = (await readClock(this.#engine)) + this.#claim.ttlMs;
    const target = formatDue({ dueAtMs: expiresAtMs, attempts: this.#claim.attempts });
    // Whatever it was before: as long as the fence holds, only this lease sets it. So a lost answer does no harm.
    const refs: RefChange[] = [{ kind: 'due', name: this.branch, target }];
    await this.commit({ sessionId: this.sessionId, refs, durability: 'relaxed' });
    this.#expiresAtMs = expiresAtMs;
    this.#deadlineMs = askedAtMs + this.#claim.ttlMs;
    this.#setTimers(RENEWALS_PER_TTL);
  }

  async release(): Promise<void> {
    await this.end(undefined);
  }

  /** Ends the lease; with `due` the branch comes up for recovery then. Returns whether the lease was still ours. */
  async end(due: LeaseDue | undefined): Promise<boolean> {
    if (this.isLost) return false;
    this.letLapse();
    this.#ending ??= this.#end(due).catch((error: unknown) => {
      this.#ending = undefined; // a later call may try again
      throw error;
    });
    return this.#ending;
  }

  /** Does nothing more to keep it: whoever wants it gets it when its time is up. */
  letLapse(): void {
    this.#isReleased = true;
    this.#drop();
  }

  #drop(): void {
    keptHere.delete(this.#claim.holder);
    this.#cancelTimers();
  }

  #end(due: LeaseDue | undefined): Promise<boolean> {
    const { sessionId, branch, epoch } = this;
    const expected = { sessionId, branch, leaseTarget: formatHolder(this.#claim) };
    // Who recovers it next is told who failed.
    const lease = { epoch, holder: '', ...(due !== undefined && { owner: this.owner }) };
    return moveLease(this.#engine, expected, { lease, due });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** Sets when to renew next, as a part of the lease's time, and when it is too late for that. */
  #setTimers(partsPerTtl: number, lastError?: unknown): void {
    this.#cancelTimers();
    if (this.#claim.renew === 'manual' || this.#isReleased || this.isLost) return;
    const { setTimer, now } = this.#engine.ports;
    const set = (run: () => void, delayMs: number) => setTimer(run, { delayMs, keepsProcessAlive: false });
    const cancelRenewal = set(() => void this.#keep(), this.#claim.ttlMs / partsPerTtl);
    const cancelLapse = set(() => this.#lose(describeLapse(this.#claim, lastError)), this.#deadlineMs - now());
    this.#cancelTimers = () => {
      cancelRenewal();
      cancelLapse();
    };
  }

  /** Renews in the background. A storage that cannot be reached is tried again until the time is up. */
  async #keep(): Promise<void> {
    if (!this.isHeld) return; // the timer came late, as in a process that was paused
    try {
      await this.renew();
    } catch (error) {
      this.#setTimers(RETRIES_PER_TTL, error);
    }
  }

  #lose(reason: Error): void {
    if (this.#isReleased) return;
    this.#drop();
    this.#loss.abort(reason);
  }
}

/** How a lease is asked for. */
export type LeaseOptions = {
  readonly ttlMs?: number | undefined;
  readonly renew?: LeaseTerms['renew'] | undefined;
  /** A readable name for messages: `worker-7`. */
  readonly owner?: string | undefined;
  /** How long to wait for a lease that another holds; default: not at all. */
  readonly waitMs?: number | undefined;
  /** @internal Whether a lease that this process let go of is taken over at once, too. The fence decides if that was wrong. */
  readonly isEager?: boolean;
  readonly signal?: AbortSignal | undefined;
};

/** A lease target is a name, and an epoch and a holder stand beside the owner in it. */
const MAX_OWNER_CHARS = 256;

/** Accepts who holds a lease. */
export const owner = accepts(
  `a name of at most ${MAX_OWNER_CHARS} characters`,
  (value) => name(value) === undefined && String(value).length <= MAX_OWNER_CHARS,
);

export const LEASE_CHECKS: OptionChecks<LeaseOptions> = {
  ttlMs: delayFrom(1),
  renew: oneOf('auto', 'manual'),
  owner,
  waitMs: accepts('a number of 0 or more', (value) => typeof value === 'number' && value >= 0),
  isEager: flag,
  signal,
};

const DEFAULT_TTL_MS = 30_000;
/** While it waits, a lease is looked at when it should lapse, and this often because it may be released or renewed before. */
const MAX_POLL_MS = 1_000;
const MIN_POLL_MS = 20;

/** Takes the lease of a branch; waits for it if asked to. A held one is a ConflictError that says by whom. */
export async function acquireLease(engine: Engine, place: LeasePlace, options: LeaseOptions): Promise<HeldLease> {
  const terms = toTerms(options);
  const { waitMs = 0, signal } = options;
  const giveUpAtMs = engine.ports.now() + waitMs;
  for (;;) {
    signal?.throwIfAborted();
    const found = await readLease(engine, place);
    const nowMs = await readClock(engine);
    const isGone = options.isEager === true ? isHolderGone : isHolderDead;
    if (found.holder === '' || found.dueAtMs <= nowMs || isGone(found)) {
      const lease = await claimLease(engine, found, { ...terms, attempts: found.attempts });
      if (lease !== undefined) return lease;
      continue; // someone else was faster: see who
    }
    const leftMs = giveUpAtMs - engine.ports.now();
    if (leftMs <= 0) throw describeHeld(found);
    const untilLapseMs = Math.max(MIN_POLL_MS, found.dueAtMs - nowMs);
    await sleep(engine.ports, Math.min(leftMs, untilLapseMs, MAX_POLL_MS), signal);
  }
}

/** Takes a lease that was found free, under the next epoch; undefined if someone else was faster. */
export async function claimLease(
  engine: Engine,
  found: LeaseState,
  { attempts, ...terms }: LeaseTerms & Pick<LeaseDue, 'attempts'>,
): Promise<HeldLease | undefined> {
  const { sessionId, branch, epoch } = found;
  const askedAtMs = engine.ports.now();
  const expiresAtMs = (await readClock(engine)) + terms.ttlMs;
  const lease = { epoch: epoch + 1, holder: nameHolder(engine.ports.nextId()), owner: terms.owner };
  if (!(await moveLease(engine, found, { lease, due: { dueAtMs: expiresAtMs, attempts } }))) return undefined;
  return new HeldLease(engine, { sessionId, branch, ...terms, ...lease, attempts, expiresAtMs, askedAtMs });
}

/** Adds the defaults to what the caller said about a lease. */
export function toTerms({ ttlMs = DEFAULT_TTL_MS, owner, renew = 'auto' }: Optional<LeaseTerms>): LeaseTerms {
  return { ttlMs, owner, renew };
}
