import { ConflictError, CorruptError, InvalidInputError, messageOf, SavestateError } from '../../core/errors.ts';
import { isCount, isId } from '../../core/record/check-header.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type CheckpointId, isName, type SessionId } from '../../core/record/id.ts';
import { type Digest, isDigest } from '../../core/tree/chunk.ts';
import { type Fields, fieldsOf } from '../revision/transcript.ts';

/** What a member sent to one other member. Messages of one direction are numbered from 1. */
export type SentMessages = {
  /** How many it ever sent there, which is the number of the last one. */
  readonly count: number;
  /** The last of them, in order, as far as they may not have arrived: the last one has the number `count`. */
  readonly unconfirmed: readonly unknown[];
};

/** The messages of a member, by the names of the others. As maps, because a name may be any text. */
export type Channels = {
  readonly sent: ReadonlyMap<string, SentMessages>;
  /** The numbers of the last messages that arrived. */
  readonly received: ReadonlyMap<string, number>;
};

/** A message that was sent before the cut and had not arrived by then. */
export type InFlightMessage = {
  readonly from: string;
  readonly to: string;
  readonly number: number;
  readonly message: unknown;
};

/** One member in the state of a group checkpoint: which checkpoint it was at, and how many messages it had exchanged. */
export type MemberEntry = {
  readonly name: string;
  readonly sessionId: SessionId;
  readonly branch: string;
  readonly checkpointId: CheckpointId;
  readonly digest: Digest;
  /** The number of the last message to each other member. */
  readonly sent: { readonly [to: string]: number };
  /** The number of the last message from each other member. */
  readonly received: { readonly [from: string]: number };
};

/** The state of a group checkpoint: plain data that refers to the members' own checkpoints. */
export type GroupState = {
  readonly members: readonly MemberEntry[];
  readonly inFlight: readonly InFlightMessage[];
};

/** A member that was saved for a cut. */
export type SavedMember = { readonly name: string; readonly checkpoint: Checkpoint; readonly channels: Channels };

/** Puts a group's state together; throws a ConflictError if the members do not make a consistent cut. */
export function createGroupState(members: readonly SavedMember[]): GroupState {
  return {
    members: members.map(toEntry),
    inFlight: findInFlight(new Map(members.map(({ name, channels }) => [name, channels]))),
  };
}

function toEntry({ name, checkpoint, channels }: SavedMember): MemberEntry {
  const { id: checkpointId, sessionId, branch, digest } = checkpoint;
  const sent = Object.fromEntries([...channels.sent].map(([to, { count }]) => [to, count]));
  return { name, sessionId, branch, checkpointId, digest, sent, received: Object.fromEntries(channels.received) };
}

/**
 * The messages that were under way when the members were cut: by sender, then by receiver, then in the order of sending.
 * Throws a ConflictError if the cut is not consistent, that is, if no moment of the group's life can have looked like it.
 */
export function findInFlight(members: ReadonlyMap<string, Channels>): InFlightMessage[] {
  const messages: InFlightMessage[] = [];
  for (const [from, { sent, received }] of members) {
    for (const other of [...sent.keys(), ...received.keys()]) checkIsMember(members, from, other);
    for (const [to, { received: arrived }] of members)
      messages.push(...findBetween({ from, to }, sent.get(to) ?? NOTHING, arrived.get(from) ?? 0));
  }
  return messages;
}

const NOTHING: SentMessages = { count: 0, unconfirmed: [] };

function checkIsMember(members: ReadonlyMap<string, Channels>, name: string, other: string): void {
  if (members.has(other)) return;
  throw new InvalidInputError(
    `Member "${name}" speaks of messages to or from "${other}", which is not a member of this cut (${[...members.keys()].join(', ')}).`,
    { details: { member: name, other } },
  );
}

function findBetween(
  { from, to }: Pick<InFlightMessage, 'from' | 'to'>,
  { count, unconfirmed }: SentMessages,
  received: number,
): InFlightMessage[] {
  const missing = count - received;
  if (missing < 0)
    throw inconsistent(
      { from, to, number: received },
      `"${to}" received message ${received} of "${from}", which had sent ${count} by then. Members must not send during a cut.`,
    );
  if (missing > unconfirmed.length)
    throw inconsistent(
      { from, to, number: received + 1 },
      `message ${received + 1} from "${from}" to "${to}" had not arrived, and "${from}" does not have it any more. Members must not confirm messages during a cut.`,
    );
  return unconfirmed
    .slice(unconfirmed.length - missing)
    .map((message, at) => ({ from, to, number: received + 1 + at, message }));
}

function inconsistent(details: Omit<InFlightMessage, 'message'>, found: string): ConflictError {
  return new ConflictError(`The cut is not consistent: ${found}`, { details });
}

/** Accepts the state of a group checkpoint, or throws a CorruptError that names what is not as `saveGroup` writes it. */
export function checkGroupState(state: unknown): GroupState {
  const { members, inFlight } = fieldsOf(state);
  const isWhole = areAll(members, isMember);
  if (isWhole && areAll(inFlight, isMessage)) return state as GroupState;
  const path = isWhole ? '$.inFlight' : '$.members';
  throw new CorruptError(`A group checkpoint has another state than groups have, at ${path}. Run verify.`);
}

function areAll(list: unknown, isItem: (fields: Fields) => boolean): boolean {
  return Array.isArray(list) && list.every((item) => isItem(fieldsOf(item)));
}

function isMember({ name, sessionId, branch, checkpointId, digest, sent, received }: Fields): boolean {
  const areNames = [name, sessionId, branch].every(isName);
  const isPlaced = isId(checkpointId) && isDigest(digest);
  return areNames && isPlaced && areCounts(sent) && areCounts(received);
}

function isMessage({ from, to, number }: Fields): boolean {
  return isName(from) && isName(to) && isCount(number);
}

function areCounts(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.values(value).every(isCount);
}

/** What went wrong with one member. */
type MemberFailure = { readonly name: string; readonly error: unknown };

/**
 * Does the same for every member at the same time, beginning before this first awaits. Waits for all of them; then throws one error
 * that names every member it failed for, after `what`.
 */
export async function forEachMember<Member extends { readonly name: string }, Result>(
  what: string,
  members: readonly Member[],
  work: (member: Member) => Promise<Result>,
): Promise<Result[]> {
  const results = await Promise.allSettled(members.map(work));
  const failures = members.flatMap(({ name }, at) => {
    const result = results[at];
    return result?.status === 'rejected' ? [{ name, error: result.reason as unknown }] : [];
  });
  if (failures.length > 0) throw memberError(what, failures);
  return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
}

/** One error for several members; its code is that of the first. */
export function memberError(what: string, failures: readonly MemberFailure[]): SavestateError {
  const cause = failures[0]?.error;
  const code = cause instanceof SavestateError ? cause.code : 'INVALID_INPUT';
  const members = failures.map(({ name }) => name);
  return new SavestateError(code, `${what} ${failures.map(tellFailure).join(' ')}`, { details: { members }, cause });
}

/** Says in words what went wrong with a member. */
export function tellFailure({ name, error }: MemberFailure): string {
  return `"${name}": ${messageOf(error)}`;
}
