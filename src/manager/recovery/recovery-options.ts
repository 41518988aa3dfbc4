import { InvalidInputError } from '../../core/errors.ts';
import type { SessionId } from '../../core/record/id.ts';
import { backoff } from '../../core/time/backoff.ts';
import { type ClaimTerms, type Lease, toTerms } from '../lease/lease.ts';
import type { LeasePlace } from '../lease/lease-refs.ts';
import type { Session } from '../session/session.ts';
import type { SessionOptions } from '../write/session-options.ts';

/** What a recovery handler gets besides the session. */
export type Recovery = {
  /** 1 at the first recovery since the lease was last released; a worker that died counts too. */
  readonly attempt: number;
  /** When the lease lapsed, or when it was to come up again after a failure. */
  readonly abandonedAtMs: number;
  readonly previousOwner: string | undefined;
  /** Renewed while the handler runs. Pass `lease.signal` on: it aborts when someone else takes over. */
  readonly lease: Lease;
};

/** Goes on with the work of an abandoned session. When it resolves, the work is done; when it rejects, it is tried again later. */
export type RecoveryHandler = (session: Session, recovery: Recovery) => unknown;

/** One session that a recovery dealt with. */
export type RecoveryOutcome = {
  readonly sessionId: SessionId;
  readonly branch: string;
  /** How many attempts were begun, this one included. */
  readonly attempt: number;
  readonly error?: unknown;
};

/** How long a failed attempt waits for the next one: the first, by what it grows, and at most. */
export type Backoff = { readonly firstMs: number; readonly factor: number; readonly maxMs: number };

/** How abandoned sessions are recovered. */
export type RecoveryOptions = {
  /** How long a worker may be silent before the next one takes over; default 30 seconds. */
  readonly ttlMs?: number | undefined;
  /** So many attempts, failed or died, make a session poisoned: it does not come up again by itself. Default 5. */
  readonly maxAttempts?: number | undefined;
  /** Default: 1 second, doubled each time, at most 5 minutes. */
  readonly backoffMs?: Backoff | ((attempt: number) => number) | undefined;
  /** Handlers that run at the same time; default 1. */
  readonly concurrency?: number | undefined;
  /** At most this many sessions are recovered in one pass. */
  readonly limit?: number | undefined;
  /** A readable name of this worker. */
  readonly owner?: string | undefined;
  /** Looks again after this time, until `signal` aborts; without it there is one pass. */
  readonly everyMs?: number | undefined;
  /** Takes no more sessions; resolves when the handlers under way are done. */
  readonly signal?: AbortSignal | undefined;
  /** How sessions are opened, such as `{ replayFrom: 'start' }`. */
  readonly session?: Omit<SessionOptions, 'branch'> | undefined;
  /** Told of each session that has used up its attempts. */
  readonly onPoisoned?: ((outcome: RecoveryOutcome) => void) | undefined;
  /** Told when a pass could not look for sessions; the next one comes all the same. Without it that ends everything. */
  readonly onError?: ((error: unknown) => void) | undefined;
  /** @internal Whether what holders of this machine left for certain is taken at once. The fence decides if that was wrong. */
  readonly isEager?: boolean | undefined;
  /** @internal Whether a session is for this worker; others stay as they are. */
  readonly isMine?: ((place: LeasePlace) => boolean) | undefined;
};

/** What recovery goes by, checked and complete. */
export type RecoveryTerms = {
  readonly lease: Omit<ClaimTerms, 'attempts'>;
  readonly maxAttempts: number;
  readonly backoffMs: (attempt: number) => number;
  readonly concurrency: number;
  readonly session: Omit<SessionOptions, 'branch'>;
  readonly isEager: boolean | undefined;
};

const DEFAULT_MAX_ATTEMPTS = 5;
const DEFAULT_BACKOFF: Backoff = { firstMs: 1_000, factor: 2, maxMs: 300_000 };
/** About 30 years: what is meant to come up again must be a time. */
const MAX_BACKOFF_MS = 1e12;

/** Adds the defaults. */
export function parseRecoveryOptions(options: RecoveryOptions): RecoveryTerms {
  const { maxAttempts = DEFAULT_MAX_ATTEMPTS, backoffMs = DEFAULT_BACKOFF, concurrency = 1 } = options;
  return {
    lease: toTerms(options),
    maxAttempts,
    backoffMs: (attempt) =>
      checkDelay(typeof backoffMs === 'function' ? backoffMs(attempt) : backoff(attempt, backoffMs)),
    concurrency,
    session: options.session ?? {},
    isEager: options.isEager,
  };
}

function checkDelay(delayMs: number): number {
  if (delayMs >= 0 && delayMs <= MAX_BACKOFF_MS) return delayMs;
  throw new InvalidInputError(`backoffMs must give a number from 0 to ${MAX_BACKOFF_MS}; found ${String(delayMs)}.`, {
    details: { option: 'backoffMs' },
  });
}

/** How a recovery ended: done, to be tried again, given up, or taken over by another worker meanwhile. */
export type RecoveryEnd = 'recovered' | 'failed' | 'poisoned' | 'lost';

/** What was recovered and what was not: how many, and the last 100 of each, oldest first. */
export type RecoveryReport = {
  readonly counts: { readonly [End in RecoveryEnd]: number };
} & { readonly [End in RecoveryEnd]: readonly RecoveryOutcome[] };

/** A loop goes on for months; its report must not grow with it. */
const KEPT_OUTCOMES = 100;

/** Collects outcomes into a report of bounded size. */
export class RecoveryReporter {
  readonly #counts = { recovered: 0, failed: 0, poisoned: 0, lost: 0 };
  readonly #outcomes: { readonly [End in RecoveryEnd]: RecoveryOutcome[] } = {
    recovered: [],
    failed: [],
    poisoned: [],
    lost: [],
  };

  add(end: RecoveryEnd, outcome: RecoveryOutcome): void {
    this.#counts[end]++;
    const outcomes = this.#outcomes[end];
    outcomes.push(outcome);
    if (outcomes.length > KEPT_OUTCOMES) outcomes.shift();
  }

  report(): RecoveryReport {
    const { recovered, failed, poisoned, lost } = this.#outcomes;
    return { counts: { ...this.#counts }, recovered, failed, poisoned, lost };
  }
}
