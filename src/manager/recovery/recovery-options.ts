import type { SessionId } from '../../core/record/id.ts';
import type { Lease } from '../lease/lease.ts';
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

/** How a recovery ended: done, to be tried again, given up, or taken over by another worker meanwhile. */
export type RecoveryEnd = 'recovered' | 'failed' | 'poisoned' | 'lost';

/** What was recovered and what was not: how many, and the last 100 of each, oldest first. */
export type RecoveryReport = {
  readonly counts: { readonly [End in RecoveryEnd]: number };
} & { readonly [End in RecoveryEnd]: readonly RecoveryOutcome[] };
