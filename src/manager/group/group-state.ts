import { InvalidInputError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Digest } from '../../core/tree/chunk.ts';
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
