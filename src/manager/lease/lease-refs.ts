import { ConflictError, CorruptError, hasErrorCode, isOutcomeUnknown, type SavestateError } from '../../core/errors.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { RefChange, RefKind } from '../../storage/contract.ts';
import { isProcessAlive, MACHINE, PROCESS_ID } from '../../storage/process-identity.ts';
import { tryCommit } from '../../storage/refusal.ts';
import type { Engine } from '../engine/engine.ts';

/** A branch that can be leased. */
export type LeasePlace = { readonly sessionId: SessionId; readonly branch: string };

/** Who may write. Nobody holds a lease without a `holder`; its epoch stays, so that epochs only ever rise. */
export type LeaseHolder = {
  readonly epoch: number;
  /** Unique to one acquisition, with the process that made it. */
  readonly holder: string;
  /** The readable name the holder gave itself. */
  readonly owner?: string | undefined;
};

/** When a lease lapses, or a failed recovery comes up again; `Infinity` once it is poisoned. */
export type LeaseDue = {
  readonly dueAtMs: number;
  /** How many recoveries were begun since the lease was last released. */
  readonly attempts: number;
};

/** The two refs of a leased branch: their targets as they were read, and what these say. */
export type LeaseState = LeasePlace &
  LeaseHolder &
  LeaseDue & { readonly leaseTarget: string | null; readonly dueTarget: string | null };

const NEVER_HELD: LeaseHolder = { epoch: 0, holder: '' };
const NOT_DUE: LeaseDue = { dueAtMs: 0, attempts: 0 };

/** So many digits that times sort as texts until the year 33,000. */
const TIME_DIGITS = 15;
/** Sorts after all digits, so that no time is ever late enough for it. */
const POISONED = 'poisoned';

/** The random part of an id. */
const RANDOM_CHARS = 12;

/** Names an acquisition by this process. */
export function nameHolder(id: string): string {
  return `${id.slice(-RANDOM_CHARS)}@${MACHINE}/${PROCESS_ID}`;
}

/** The machine and the process of a holder: its number and, if that is known and not 0, when it was started. */
function processOf(holder: string) {
  const [, machine, pid, startedAt] = /@(.*)\/(\d+)-(\d+)$/.exec(holder) ?? [];
  return { isHere: machine === MACHINE, machine, pid, startedAt };
}

/** Whether the process that holds a lease is of this machine, and is not there any more: then nobody will renew it. */
export function isHolderDead({ holder }: Pick<LeaseHolder, 'holder'>): boolean {
  const { isHere, pid, startedAt } = processOf(holder);
  // Without a start time a name alone does not tell two machines apart.
  return isHere && Number(startedAt) > 0 && !isProcessAlive(`${pid}-${startedAt}`);
}

/** The leases that this process keeps, by their holders. */
export const keptHere = new Set<string>();

/** Whether nobody will renew a lease for certain: its holder is dead, or it is of this process, which let go of it. */
export function isHolderGone({ holder }: Pick<LeaseHolder, 'holder'>): boolean {
  return isHolderDead({ holder }) || (holder.endsWith(`@${MACHINE}/${PROCESS_ID}`) && !keptHere.has(holder));
}

/** The target of a `lease` ref. */
export function formatHolder({ epoch, holder, owner }: LeaseHolder): string {
  return `${epoch}:${holder}${owner === undefined ? '' : `:${owner}`}`;
}

/** Reads the target of a `lease` ref. */
export function parseHolder(target: string): LeaseHolder {
  const [, epoch, holder, owner] = /^(\d+):([^:]*)(?::(.+))?$/s.exec(target) ?? [];
  if (epoch === undefined || holder === undefined) throw unreadable('lease', target);
  return { epoch: Number(epoch), holder, owner };
}

/** The target of a `due` ref: it sorts by time. */
export function formatDue({ dueAtMs, attempts }: LeaseDue): string {
  return `${dueAtMs === Number.POSITIVE_INFINITY ? POISONED : formatTime(dueAtMs)}:${attempts}`;
}

/** Reads the target of a `due` ref. */
export function parseDue(target: string): LeaseDue {
  const [, time, attempts] = /^(\d+|poisoned):(\d+)$/.exec(target) ?? [];
  if (time === undefined) throw unreadable('due', target);
  return { dueAtMs: time === POISONED ? Number.POSITIVE_INFINITY : Number(time), attempts: Number(attempts) };
}

/** The text before which the targets of everything that is due by this time sort; `isEager`: also of what holders may have left since. */
export function dueBefore(nowMs: number, isEager = false): string {
  return isEager ? POISONED : formatTime(nowMs + 1);
}

/** Whether nobody goes on with a branch that was leased: its lease lapsed, its next attempt is due, or, `isEager`, its holder is gone. */
export function isLeft({ holder, dueTarget, dueAtMs }: LeaseState, nowMs: number, isEager = false): boolean {
  return dueTarget !== null && (dueAtMs <= nowMs || (isEager && holder !== '' && isHolderGone({ holder })));
}

function formatTime(timeMs: number): string {
  return `${Math.ceil(timeMs)}`.padStart(TIME_DIGITS, '0');
}

function unreadable(kind: string, target: string): CorruptError {
  return new CorruptError(`"${target}" is not what a ${kind} says. It was written by another program, or is damaged.`, {
    details: { kind, target },
  });
}

/** The time that all who share the storage go by, as far as it has one. It decides when a lease lapses, never who may write. */
export async function readClock({ storage, ports }: Engine): Promise<number> {
  return (await storage.now?.()) ?? ports.now();
}

/** Reads the lease of a branch. */
export async function readLease({ repository }: Engine, place: LeasePlace): Promise<LeaseState> {
  const { sessionId, branch } = place;
  const leaseTarget = (await repository.readRef(sessionId, 'lease', branch)) ?? null;
  const dueTarget = (await repository.readRef(sessionId, 'due', branch)) ?? null;
  const holder = leaseTarget === null ? NEVER_HELD : parseHolder(leaseTarget);
  const due = dueTarget === null ? NOT_DUE : parseDue(dueTarget);
  return { sessionId, branch, leaseTarget, dueTarget, ...holder, ...due };
}

/** Ends a lease, whoever holds it: the branch does not come up for recovery, and the epoch is kept. */
export function endLease(branch: string, leaseTarget: string): RefChange[] {
  const ended = formatHolder({ epoch: parseHolder(leaseTarget).epoch, holder: '' });
  return [
    { kind: 'lease', name: branch, expect: leaseTarget, target: ended },
    { kind: 'due', name: branch, target: null },
  ];
}

/**
 * Changes a lease if its refs are as expected (a `dueTarget` that is absent may be anything); returns whether they were. Of several who
 * try, one succeeds. Without `due` the branch does not come up for recovery any more.
 */
export async function moveLease(
  { storage, repository }: Engine,
  {
    sessionId,
    branch,
    leaseTarget,
    dueTarget: expect,
  }: LeasePlace & Pick<LeaseState, 'leaseTarget'> & Partial<LeaseState>,
  { lease, due }: { readonly lease: LeaseHolder; readonly due?: LeaseDue | undefined },
): Promise<boolean> {
  const target = formatHolder(lease);
  const dueTarget = due === undefined ? null : formatDue(due);
  const refs: RefChange[] = [
    { kind: 'lease', name: branch, expect: leaseTarget, target },
    { kind: 'due', name: branch, target: dueTarget, ...(expect !== undefined && { expect }) },
  ];
  try {
    return await tryCommit(storage, { sessionId, refs });
  } catch (error) {
    // The answer got lost: the ref itself says whether it was stored.
    if (isOutcomeUnknown(error) && (await repository.readRef(sessionId, 'lease', branch)) === target) return true;
    throw error;
  }
}

/** Whether a commit was refused because its writer does not hold the lease any more. Such a writer must stop. */
export function isLeaseConflict(error: unknown): error is SavestateError {
  const kind: RefKind = 'lease';
  return hasErrorCode(error, 'CONFLICT') && (error as SavestateError).details?.kind === kind;
}

/** Says who holds a lease, and until when. */
export function describeHeld(found: LeaseState): ConflictError {
  const { sessionId, branch, epoch, owner, dueAtMs } = found;
  const by = describeHolder(found);
  return leaseConflict(
    found,
    `Branch "${branch}" of session "${sessionId}" is leased by ${by} until ${new Date(dueAtMs).toISOString()} (epoch ${epoch}). Wait with waitMs, or try again later.`,
    { epoch, owner: owner ?? null, by, expiresAtMs: dueAtMs },
  );
}

/** Who holds a lease, for people: the name it gave itself, and its process. */
function describeHolder({ holder, owner }: LeaseHolder): string {
  const { isHere, machine, pid } = processOf(holder);
  if (pid === undefined) return describeOwner(owner);
  const process = isHere ? `process ${pid}` : `process ${pid} of ${machine}`;
  return owner === undefined ? process : `"${owner}" (${process})`;
}

function describeOwner(owner: string | undefined): string {
  return owner === undefined ? 'another writer' : `"${owner}"`;
}

/** Says who took a lease over. `found` is the target of its ref now. */
export function describeTakeover(ours: LeasePlace & LeaseHolder, found: unknown): ConflictError {
  const now = typeof found === 'string' ? parseHolder(found) : undefined;
  const taken = now?.holder === '' ? 'ended' : `taken over by ${describeOwner(now?.owner)}`;
  const end = now === undefined ? 'gone: the session was deleted' : `${taken} (epoch ${now.epoch})`;
  return leaseConflict(
    ours,
    `The lease on branch "${ours.branch}" of session "${ours.sessionId}" is ${end}. This writer had epoch ${ours.epoch} and must stop.`,
    { epoch: now?.epoch ?? null, owner: now?.owner ?? null, ownEpoch: ours.epoch },
  );
}

/** Says that a lease was not renewed in time. */
export function describeLapse(ours: LeasePlace & LeaseHolder, cause: unknown): ConflictError {
  return leaseConflict(
    { ...ours, cause },
    `The lease on branch "${ours.branch}" of session "${ours.sessionId}" (epoch ${ours.epoch}) lapsed: it could not be renewed in time. Open the session again and take a new lease.`,
    { ownEpoch: ours.epoch },
  );
}

function leaseConflict(
  { sessionId, branch, cause }: LeasePlace & { readonly cause?: unknown },
  message: string,
  details: object,
): ConflictError {
  return new ConflictError(message, {
    details: { sessionId, kind: 'lease', name: branch, ...details },
    ...(cause !== undefined && { cause }),
  });
}
