import { accepts, callback, delayFrom, type OptionChecks, oneOf, signal } from '../../core/options.ts';
import { name } from '../../core/record/id.ts';
import { sleep } from '../../core/time/timer.ts';
import type { Engine } from '../engine/engine.ts';
import { HeldLease, type LeaseTerms } from './lease.ts';
import { describeHeld } from './lease-conflict.ts';
import { type IsGone, type LeasePlace, type LeaseState, moveLease, readClock, readLease } from './lease-refs.ts';

/** How a lease is asked for. */
export type LeaseOptions = {
  readonly ttlMs?: number | undefined;
  readonly renew?: LeaseTerms['renew'] | undefined;
  /** A readable name for messages: `worker-7`. */
  readonly owner?: string | undefined;
  /** How long to wait for a lease that another holds; default: not at all. */
  readonly waitMs?: number | undefined;
  /** @internal Whether a holder is over for certain: its lease is taken over at once. The fence decides if that was wrong. */
  readonly isGone?: IsGone;
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
  isGone: callback,
  signal,
};

/** How a free lease is taken. */
export type ClaimTerms = LeaseTerms & { readonly owner?: string | undefined; readonly attempts: number };

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
    if (isFree(found, nowMs) || options.isGone?.(found.owner) === true) {
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

/** Whether nobody holds the lease, or its holder did not renew it in time. */
export function isFree({ holder, dueAtMs }: LeaseState, nowMs: number): boolean {
  return holder === '' || dueAtMs <= nowMs;
}

/** Takes a lease that was found free, under the next epoch; undefined if someone else was faster. */
export async function claimLease(
  engine: Engine,
  found: LeaseState,
  { owner, attempts, ...terms }: ClaimTerms,
): Promise<HeldLease | undefined> {
  const askedAtMs = engine.ports.now();
  const expiresAtMs = (await readClock(engine)) + terms.ttlMs;
  const lease = { epoch: found.epoch + 1, holder: engine.ports.nextId().slice(-HOLDER_CHARS), owner };
  if (!(await moveLease(engine, found, { lease, due: { dueAtMs: expiresAtMs, attempts } }))) return undefined;
  const { sessionId, branch } = found;
  return new HeldLease(engine, { sessionId, branch, ...lease, attempts, expiresAtMs, askedAtMs }, terms);
}

/** The random part of an id. */
const HOLDER_CHARS = 12;

/** Adds the defaults to what the caller said about a lease. */
export function toTerms({
  ttlMs = DEFAULT_TTL_MS,
  owner,
  renew = 'auto',
}: Pick<LeaseOptions, 'ttlMs' | 'owner' | 'renew'>): Omit<ClaimTerms, 'attempts'> {
  return { ttlMs, owner, renew };
}
