import { ConflictError, hasErrorCode, type SavestateError } from '../../core/errors.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { checkRecordsSteps } from '../../manager/effect/step-recordings.ts';
import type { Lease, LeaseOptions } from '../../manager/lease/lease.ts';
import { isLeaseConflict } from '../../manager/lease/lease-refs.ts';
import type { Session } from '../../manager/session/session.ts';
import type { SessionOptions } from '../../manager/write/session-options.ts';

/** Where a run takes place, and the terms of the lease that it is held under. */
export type SeatPlace = Pick<SessionOptions, 'mode' | 'replayBranch' | 'freeze'> & {
  readonly sessionId: string;
  readonly branch?: string | undefined;
  readonly lease?: Pick<LeaseOptions, 'owner' | 'ttlMs' | 'waitMs' | 'signal'>;
};

/**
 * Gives a run its session, alone: under a lease, which a second run of the branch is refused before it does anything. The lease of a
 * process of this machine that is not there any more is taken over at once; what a process elsewhere left lapses.
 */
export async function withSeat<Result>(
  manager: CheckpointManager,
  { lease: terms = {}, ...place }: SeatPlace,
  run: (session: Session, lease: Lease) => Promise<Result>,
): Promise<Result> {
  checkRecordsSteps(manager.engine, 'A run');
  const { session, lease } = await openLeased(manager, place, terms);
  try {
    return await run(session, lease);
  } finally {
    await leave(session);
  }
}

/** What came of the run counts, also if the storage cannot release the lease: that lapses, or is found to be left. */
async function leave(session: Session): Promise<void> {
  await session.close().catch((error: unknown) => {
    if (!hasErrorCode(error, 'STORAGE')) throw error;
  });
}

/** Opens a session and takes its lease. What was read before the lease was had may be old: then it is read again. */
export async function openLeased(
  manager: CheckpointManager,
  { sessionId, branch, ...rest }: SeatPlace,
  terms: LeaseOptions,
): Promise<{ readonly session: Session; readonly lease: Lease }> {
  for (;;) {
    const session = await manager.session(sessionId, { ...rest, ...(branch !== undefined && { branch }) });
    try {
      const lease = await takeLease(manager, session, terms);
      if (lease !== undefined) return { session, lease };
      await session.close();
    } catch (error) {
      await session.close();
      throw error;
    }
  }
}

/** Takes the lease of a session that was opened; undefined if what was read of it is old by now, so that it must be opened anew. */
async function takeLease(
  { engine }: CheckpointManager,
  session: Session,
  options: LeaseOptions,
): Promise<Lease | undefined> {
  const read = (kind: 'log' | 'branch') => engine.repository.readRef(session.id, kind, session.branch);
  const log = await read('log');
  if ((await read('branch')) !== session.head?.id) return undefined;
  try {
    const lease = await session.lease({ ...options, isEager: true });
    return (await read('log')) === log && (await read('branch')) === session.head?.id ? lease : undefined;
  } catch (error) {
    throw isLeaseConflict(error) ? underWay(error, session) : error;
  }
}

/** A refused lease as the run it stands for: which process has it, and until when. */
function underWay(error: SavestateError, { id, branch }: Pick<Session, 'id' | 'branch'>): SavestateError {
  const { by, expiresAtMs } = error.details ?? {};
  if (typeof expiresAtMs !== 'number') return error;
  return new ConflictError(
    `Session "${id}" is being worked on already, on branch "${branch}", by ${by}, whose lease lasts until ${new Date(expiresAtMs).toISOString()} unless it is renewed. Wait until that has ended, or continue from one of its checkpoints on a branch of its own.`,
    { cause: error, details: { ...error.details, sessionId: id, branch } },
  );
}
