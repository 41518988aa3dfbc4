import { InvalidInputError } from '../../core/errors.ts';
import { backoff } from '../../core/time/backoff.ts';
import { mapBounded } from '../../core/time/bounded.ts';
import { sleep } from '../../core/time/timer.ts';
import type { Ref } from '../../storage/contract.ts';
import { checkRef } from '../../storage/ref.ts';
import type { Engine } from '../engine/engine.ts';
import { claimLease, type HeldLease, toTerms } from '../lease/lease.ts';
import {
  dueBefore,
  isLeft,
  type LeasePlace,
  type LeaseState,
  moveLease,
  parseDue,
  readClock,
  readLease,
} from '../lease/lease-refs.ts';
import { openSession, type SessionHost } from '../session/session.ts';
import type {
  RecoveryEnd,
  RecoveryHandler,
  RecoveryOptions,
  RecoveryOutcome,
  RecoveryReport,
} from './recovery-options.ts';

const PAGE = 100;
/** A loop goes on for months; its report must not grow with it. */
const KEPT_OUTCOMES = 100;
const DEFAULT_MAX_ATTEMPTS = 5;
const DEFAULT_BACKOFF = { firstMs: 1_000, factor: 2, maxMs: 300_000 };
/** About 30 years: what is meant to come up again must be a time. */
const MAX_BACKOFF_MS = 1e12;
const NEVER = Number.POSITIVE_INFINITY;

type Ended = { readonly end: RecoveryEnd; readonly attempt: number; readonly error?: unknown };

/** Looks for sessions whose writers are gone. Of all workers that look, exactly one gets each of them. */
export class RecoveryLoop {
  readonly #engine: Engine;
  readonly #host: SessionHost;
  readonly #options: RecoveryOptions & { readonly handler: RecoveryHandler };
  readonly #maxAttempts: number;
  readonly #counts = { recovered: 0, failed: 0, poisoned: 0, lost: 0 };
  readonly #outcomes: { readonly [End in RecoveryEnd]: RecoveryOutcome[] } = {
    recovered: [],
    failed: [],
    poisoned: [],
    lost: [],
  };
  /** How many more sessions this pass may take. */
  #places = 0;

  constructor(engine: Engine, host: SessionHost, options: RecoveryOptions & { readonly handler: RecoveryHandler }) {
    this.#engine = engine;
    this.#host = host;
    this.#options = options;
    this.#maxAttempts = options.maxAttempts ?? DEFAULT_MAX_ATTEMPTS;
  }

  /** Makes one pass over what is due, or one after the other until the signal aborts. */
  async run(): Promise<RecoveryReport> {
    const { everyMs, onError } = this.#options;
    do {
      try {
        await this.#pass();
      } catch (error) {
        if (onError === undefined) throw error;
        onError(error);
      }
    } while (everyMs !== undefined && (await this.#pause(everyMs)));
    return { counts: { ...this.#counts }, ...this.#outcomes };
  }

  /** Returns whether to go on. */
  async #pause(everyMs: number): Promise<boolean> {
    await sleep(this.#engine.ports, everyMs, this.#options.signal).catch(() => undefined);
    return this.#options.signal?.aborted !== true;
  }

  /** Takes what is due now, oldest first, each at most once. */
  async #pass(): Promise<void> {
    this.#places = this.#options.limit ?? Number.POSITIVE_INFINITY;
    const before = dueBefore(await readClock(this.#engine), this.#options.isEager);
    const seen = new Set<string>();
    for (let limit = PAGE; this.#mayTake(); ) {
      const due = await this.#engine.storage.readDue({ before, limit });
      const fresh = due.filter((ref) => !seen.has(keyOf(ref)));
      for (const ref of fresh) seen.add(keyOf(ref));
      // All are awaited also when one fails: no handler may still run when the caller is told.
      await mapBounded(fresh, this.#options.concurrency ?? 1, async (ref) => {
        if (this.#mayTake()) await this.#take(ref);
      });
      if (fresh.length === 0 && due.length < limit) return;
      limit = PAGE + due.length - fresh.length; // those that could not be taken stay before the others
    }
  }

  #mayTake(): boolean {
    return this.#places > 0 && this.#options.signal?.aborted !== true;
  }

  async #take(ref: Ref): Promise<void> {
    const place = { sessionId: ref.sessionId, branch: ref.name };
    if (this.#options.isMine?.(place) === false) return;
    this.#places--;
    const ended = await this.#recover(ref, place);
    if (ended === undefined) {
      this.#places++;
      return;
    }
    const { end, ...rest } = ended;
    const outcome = { ...place, ...rest };
    this.#counts[end]++;
    if (this.#outcomes[end].push(outcome) > KEPT_OUTCOMES) this.#outcomes[end].shift();
    if (end === 'poisoned') this.#options.onPoisoned?.(outcome);
  }

  /** Claims a session that is due, and lets the handler go on with it; undefined if another has it, or it is not due any more. Never rejects. */
  async #recover(ref: Ref, place: LeasePlace): Promise<Ended | undefined> {
    let attempt = 0;
    try {
      attempt = parseDue(checkRef(ref).target).attempts;
      const found = await readLease(this.#engine, place);
      if (!isLeft(found, await readClock(this.#engine), this.#options.isEager)) return undefined;
      if (found.attempts >= this.#maxAttempts) return await this.#poison(found);
      const attempts = found.attempts + 1;
      const lease = await claimLease(this.#engine, found, { ...toTerms(this.#options), attempts });
      if (lease === undefined) return undefined;
      attempt = attempts;
      // If it could not be ended, the next worker gets it after its time.
      return { attempt, ...(await this.#run(found, lease, attempt).finally(() => lease.letLapse())) };
    } catch (error) {
      return { end: 'failed', attempt, error };
    }
  }

  /** Its last worker died, so nobody said that it was the last one. */
  async #poison(found: LeaseState): Promise<Ended | undefined> {
    const { epoch, owner, attempts } = found;
    const lease = { epoch, holder: '', owner };
    const isOurs = await moveLease(this.#engine, found, { lease, due: { dueAtMs: NEVER, attempts } });
    return isOurs ? { end: 'poisoned', attempt: attempts } : undefined;
  }

  async #run(found: LeaseState, lease: HeldLease, attempt: number): Promise<Omit<Ended, 'attempt'>> {
    try {
      await this.#handle(found, lease, attempt);
    } catch (error) {
      return { end: await this.#giveBack(lease, attempt), error };
    }
    return (await lease.end(undefined)) ? { end: 'recovered' } : { end: 'lost', error: lease.signal.reason };
  }

  async #handle(found: LeaseState, lease: HeldLease, attempt: number): Promise<void> {
    const { sessionId, branch, dueAtMs: abandonedAtMs, owner: previousOwner } = found;
    const session = await openSession(this.#host, { sessionId, lease }, { ...this.#options.session, branch });
    try {
      await this.#options.handler(session, { attempt, abandonedAtMs, previousOwner, lease });
    } finally {
      await session.close();
    }
  }

  /** A failed attempt comes up again later, unless it was the last. */
  async #giveBack(lease: HeldLease, attempt: number): Promise<RecoveryEnd> {
    const isLast = attempt >= this.#maxAttempts;
    const dueAtMs = isLast ? NEVER : (await readClock(this.#engine)) + this.#delayAfter(attempt);
    if (!(await lease.end({ dueAtMs, attempts: attempt }))) return 'lost';
    return isLast ? 'poisoned' : 'failed';
  }

  #delayAfter(attempt: number): number {
    const { backoffMs = DEFAULT_BACKOFF } = this.#options;
    const delayMs = typeof backoffMs === 'function' ? backoffMs(attempt) : backoff(attempt, backoffMs);
    if (delayMs >= 0 && delayMs <= MAX_BACKOFF_MS) return delayMs;
    throw new InvalidInputError(`backoffMs must give a number from 0 to ${MAX_BACKOFF_MS}; found ${String(delayMs)}.`, {
      details: { option: 'backoffMs' },
    });
  }
}

function keyOf({ sessionId, name }: Ref): string {
  return JSON.stringify([sessionId, name]);
}
