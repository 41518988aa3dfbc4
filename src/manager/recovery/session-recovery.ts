import type { Ref } from '../../storage/contract.ts';
import { checkRef } from '../../storage/ref.ts';
import type { Engine } from '../engine/engine.ts';
import type { HeldLease } from '../lease/lease.ts';
import { claimLease } from '../lease/lease-acquisition.ts';
import { isLeft, type LeaseState, moveLease, parseDue, readClock, readLease } from '../lease/lease-refs.ts';
import type { SessionOpener } from '../session/session-opener.ts';
import type { RecoveryHandler, RecoveryOutcome, RecoveryTerms } from './recovery-options.ts';
import type { RecoveryEnd } from './recovery-report.ts';

/** What became of a session that was due. */
export type RecoveryResult = { readonly end: RecoveryEnd; readonly outcome: RecoveryOutcome };

type Ended = { readonly end: RecoveryEnd; readonly attempt: number; readonly error?: unknown };

/** Recovers one session at a time: claims it, lets the handler go on with it, and says what becomes of it. */
export class SessionRecovery {
  readonly #engine: Engine;
  readonly #sessions: SessionOpener;
  readonly #terms: RecoveryTerms & { readonly handler: RecoveryHandler };

  constructor(engine: Engine, sessions: SessionOpener, terms: RecoveryTerms & { readonly handler: RecoveryHandler }) {
    this.#engine = engine;
    this.#sessions = sessions;
    this.#terms = terms;
  }

  /** Takes the session behind a `due` ref; undefined if another has it, or it is not due any more. Never rejects. */
  async take(ref: Ref): Promise<RecoveryResult | undefined> {
    const { sessionId, name: branch } = ref;
    let attempt = 0;
    try {
      attempt = parseDue(checkRef(ref).target).attempts;
      const found = await readLease(this.#engine, { sessionId, branch });
      const isDue = isLeft(found, await readClock(this.#engine), this.#terms.isGone);
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
    const session = await this.#sessions.open(sessionId, { ...this.#terms.session, branch }, { lease });
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
