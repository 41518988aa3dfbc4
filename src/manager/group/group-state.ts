import { CorruptError, InvalidInputError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type CheckpointId, isCheckpointId, isName, type SessionId } from '../../core/record/id.ts';
import { type Digest, isDigest } from '../../core/tree/chunk.ts';
import { GROUP_TYPE } from '../engine/save-options.ts';
import { type Channels, findInFlight, type InFlightMessage } from './in-flight.ts';

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

/** Throws an InvalidInputError unless this is a group checkpoint, which only `saveGroup` makes. */
export function checkIsGroup({ id, type }: Checkpoint): void {
  if (type === GROUP_TYPE) return;
  throw new InvalidInputError(`Checkpoint ${id} is not a group checkpoint but of type "${type}". Use restore.`, {
    details: { id, type },
  });
}

/** Accepts the state of a group checkpoint, or throws a CorruptError that names what is not as `saveGroup` writes it. */
export function checkGroupState(state: unknown): GroupState {
  const { members, inFlight } = asFields(state);
  if (!Array.isArray(members)) throw otherState('members is no list');
  if (!Array.isArray(inFlight)) throw otherState('inFlight is no list');
  const member = members.findIndex((entry) => !isMember(asFields(entry)));
  if (member >= 0) throw otherState(`members[${member}] is no member`);
  const message = inFlight.findIndex((entry) => !isMessage(asFields(entry)));
  if (message >= 0) throw otherState(`inFlight[${message}] is no message`);
  return state as GroupState;
}

type Fields = { readonly [field: string]: unknown };

function otherState(found: string): CorruptError {
  return new CorruptError(`A group checkpoint has another state than groups have: ${found}. Run verify.`);
}

function asFields(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

function isMember({ name, sessionId, branch, checkpointId, digest, sent, received }: Fields): boolean {
  const areNames = [name, sessionId, branch].every(isName);
  const isPlaced = typeof checkpointId === 'string' && isCheckpointId(checkpointId) && isDigest(digest);
  return areNames && isPlaced && areCounts(sent) && areCounts(received);
}

function isMessage({ from, to, number }: Fields): boolean {
  return isName(from) && isName(to) && isCount(number);
}

function areCounts(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.values(value).every(isCount);
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
