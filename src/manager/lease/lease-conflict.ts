import { ConflictError, hasErrorCode, type SavestateError } from '../../core/errors.ts';
import type { RefKind } from '../../storage/contract.ts';
import { type LeaseHolder, type LeasePlace, type LeaseState, parseHolder } from './lease-refs.ts';

/** Whether a commit was refused because its writer does not hold the lease any more. Such a writer must stop. */
export function isLeaseConflict(error: unknown): error is SavestateError {
  const kind: RefKind = 'lease';
  return hasErrorCode(error, 'CONFLICT') && (error as SavestateError).details?.kind === kind;
}

/** Says who holds a lease, and until when. */
export function describeHeld({ sessionId, branch, epoch, owner, dueAtMs }: LeaseState): ConflictError {
  return new ConflictError(
    `Branch "${branch}" of session "${sessionId}" is leased by ${describeOwner(owner)} until ${formatTime(dueAtMs)} (epoch ${epoch}). Wait with waitMs, or try again later.`,
    { details: { ...detailsOf({ sessionId, branch }), epoch, owner: owner ?? null, expiresAtMs: dueAtMs } },
  );
}

/** Says who took a lease over. `found` is the target of its ref now. */
export function describeTakeover(ours: LeasePlace & LeaseHolder, found: unknown): ConflictError {
  const now = typeof found === 'string' ? parseHolder(found) : undefined;
  const details = { ...detailsOf(ours), epoch: now?.epoch ?? null, owner: now?.owner ?? null, ownEpoch: ours.epoch };
  return new ConflictError(`${tellWhatHappened(ours, now)} This writer had epoch ${ours.epoch} and must stop.`, {
    details,
  });
}

function tellWhatHappened(place: LeasePlace, now: LeaseHolder | undefined): string {
  if (now === undefined) return `The lease on ${describePlace(place)} is gone: the session was deleted.`;
  if (now.holder === '') return `The lease on ${describePlace(place)} was ended (epoch ${now.epoch}).`;
  return `The lease on ${describePlace(place)} was taken over by ${describeOwner(now.owner)} (epoch ${now.epoch}).`;
}

/** Says that a lease was not renewed in time. */
export function describeLapse(ours: LeasePlace & LeaseHolder, cause: unknown): ConflictError {
  return new ConflictError(
    `The lease on ${describePlace(ours)} (epoch ${ours.epoch}) lapsed: it could not be renewed in time. Open the session again and take a new lease.`,
    { details: { ...detailsOf(ours), ownEpoch: ours.epoch }, ...(cause !== undefined && { cause }) },
  );
}

function detailsOf({ sessionId, branch }: LeasePlace) {
  return { sessionId, kind: 'lease', name: branch };
}

function describePlace({ sessionId, branch }: LeasePlace): string {
  return `branch "${branch}" of session "${sessionId}"`;
}

function describeOwner(owner: string | undefined): string {
  return owner === undefined ? 'another writer' : `"${owner}"`;
}

function formatTime(timeMs: number): string {
  return new Date(timeMs).toISOString();
}
