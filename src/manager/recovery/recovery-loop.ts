import { sleep } from '../../core/time/timer.ts';
import type { Ref } from '../../storage/contract.ts';
import { checkRef } from '../../storage/ref.ts';
import type { Engine } from '../engine/engine.ts';
import { claimLease, type HeldLease } from '../lease/lease.ts';
import { dueBefore, isLeft, type LeaseState, moveLease, parseDue, readClock, readLease } from '../lease/lease-refs.ts';
import { openSession, type SessionHost } from '../session/session.ts';
import {
  parseRecoveryOptions,
  type RecoveryEnd,
  type RecoveryHandler,
  type RecoveryOptions,
  type RecoveryOutcome,
  type RecoveryReport,
  RecoveryReporter,
  type RecoveryTerms,
} from './recovery-options.ts';

/** Refs that are read together. */
const PAGE = 100;

/** Looks for sessions whose writers are gone. Of all workers that look, exactly one gets each of them. */
export class RecoveryLoop {
  readonly #engine: Engine;
  readonly #options: RecoveryOptions;
  readonly #concurrency: number;
  readonly #recovery: SessionRecovery;
  readonly #reporter = new RecoveryReporter();
  /** How many more sessions this pass may take. */
  #places = 0;

  constructor(
    engine: Engine,
    host: SessionHost,
    { handler, ...options }: RecoveryOptions & { readonly handler: RecoveryHandler },
  ) {
    const terms = parseRecoveryOptions(options);
    this.#engine = engine;
    this.#options = options;
    this.#concurrency = terms.concurrency;
    this.#recovery = new SessionRecovery(engine, host, { ...terms, handler });
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
    return this.#reporter.report();
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
      await this.#takeAll(fresh);
      if (fresh.length === 0 && due.length < limit) return;
      limit = PAGE + due.length - fresh.length; // those that could not be taken stay before the others
    }
  }

  #mayTake(): boolean {
    return this.#places > 0 && this.#options.signal?.aborted !== true;
  }

  async #takeAll(refs: readonly Ref[]): Promise<void> {
    const queue = refs.values();
    const worker = async (): Promise<void> => {
      for (let next = queue.next(); next.done !== true && this.#mayTake(); next = queue.next())
        await this.#take(next.value);
    };
    // All are awaited also when one fails: no handler may still run when the caller is told.
    const outcomes = await Promise.allSettled(Array.from({ length: this.#concurrency }, worker));
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }

  async #take(ref: Ref): Promise<void> {
    if (this.#options.isMine?.({ sessionId: ref.sessionId, branch: ref.name }) === false) return;
    this.#places--;
    const result = await this.#recovery.take(ref);
    if (result === undefined) this.#places++;
    else this.#reporter.add(result.end, result.outcome);
    if (result?.end === 'poisoned') this.#options.onPoisoned?.(result.outcome);
  }
}

function keyOf({ sessionId, name }: Ref): string {
  return JSON.stringify([sessionId, name]);
}

/** What became of a session that was due. */
export type RecoveryResult = { readonly end: RecoveryEnd; readonly outcome: RecoveryOutcome };

type Ended = { readonly end: RecoveryEnd; readonly attempt: number; readonly error?: unknown };

/** Recovers one session at a time: claims it, lets the handler go on with it, and says what becomes of it. */
export class SessionRecovery {
  readonly #engine: Engine;
  readonly #host: SessionHost;
  readonly #terms: RecoveryTerms & { readonly handler: RecoveryHandler };

  constructor(engine: Engine, host: SessionHost, terms: RecoveryTerms & { readonly handler: RecoveryHandler }) {
    this.#engine = engine;
    this.#host = host;
    this.#terms = terms;
  }

  /** Takes the session behind a `due` ref; undefined if another has it, or it is not due any more. Never rejects. */
  async take(ref: Ref): Promise<RecoveryResult | undefined> {
    const { sessionId, name: branch } = ref;
    let attempt = 0;
    try {
      attempt = parseDue(checkRef(ref).target).attempts;
      const found = await readLease(this.#engine, { sessionId, branch });
      const isDue = isLeft(found, await readClock(this.#engine), this.#terms.isEager);
      const ended = isDue ? await this.#claim(found) : undefined;
      if (ended === undefined) return undefined;
      const { end, ...rest } = ended;
      return { end, outcome: { sessionId, branch, ...rest } };
    } catch (error) {
      return { end: 'failed', outcome: { sessionId, branch, attempt, error } };
    }
  }

  async #claim(found: LeaseState): Promise<Ended | undefined> {
    if (found.attempts >= this.#terms.maxAttempts) return this.#poison(found);
    const attempts = found.attempts + 1;
    const lease = await claimLease(this.#engine, found, { ...this.#terms.lease, attempts });
    if (lease === undefined) return undefined;
    try {
      return { attempt: attempts, ...(await this.#run(found, lease, attempts)) };
    } catch (error) {
      return { end: 'failed', attempt: attempts, error };
    } finally {
      lease.letLapse(); // if it could not be ended, the next worker gets it after its time
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
    const session = await openSession(this.#host, { sessionId, lease }, { ...this.#terms.session, branch });
    try {
      await this.#terms.handler(session, { attempt, abandonedAtMs, previousOwner, lease });
    } finally {
      await session.close();
    }
  }

  /** A failed attempt comes up again later, unless it was the last. */
  async #giveBack(lease: HeldLease, attempt: number): Promise<RecoveryEnd> {
    const isLast = attempt >= this.#terms.maxAttempts;
    const dueAtMs = isLast ? NEVER : (await readClock(this.#engine)) + this.#terms.backoffMs(attempt);
    if (!(await lease.end({ dueAtMs, attempts: attempt }))) return 'lost';
    return isLast ? 'poisoned' : 'failed';
  }
}

const NEVER = Number.POSITIVE_INFINITY;
