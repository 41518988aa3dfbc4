import { InvalidInputError } from '../../core/errors.ts';
import { anything, checkOptions, checkValue, givenOptions, listOf } from '../../core/options.ts';
import { parseName } from '../../core/record/id.ts';
import type { AgentSaving } from '../agent/agent-saving.ts';
import type { Engine } from '../engine/engine.ts';
import type { SaveOptions } from '../engine/save-options.ts';
import { SAVE_CHECKS } from '../engine/save-options.ts';
import type { Session } from '../session/session.ts';
import type { MemberSave } from './group-report.ts';
import { type Channels, type GivenChannels, parseChannels } from './in-flight.ts';

/** What a member brings to a cut: its agent, or a state and the session it is saved in; and its messages. */
export type MemberState = GivenChannels &
  (
    | { readonly agent: unknown; readonly sessionId?: string }
    | { readonly session: Session; readonly state: unknown }
  ) & {
    /** What its own checkpoint says besides; its type is `group_member` unless said otherwise. */
    readonly options?: SaveOptions | undefined;
  };

/** A member of this process with its state, or the name of one in another process, which takes part by `joinGroup`. */
export type GroupMember = string | (MemberState & { readonly name: string });

/** What saving members needs of the manager. */
export type MemberSaving = { readonly engine: Engine; readonly saving: AgentSaving };

/** Every member of a cut is saved, pinned and read at the same time as the others. */
const MAX_MEMBERS = 256;

/** The names of a group's members, in order; throws unless they are names, and different ones. */
export function parseMembers(members: readonly GroupMember[]): string[] {
  checkValue(members, listOf(anything), 'The members of saveGroup()');
  const names = members.map((member) => parseName(typeof member === 'string' ? member : member.name, 'A member name'));
  const double = names.find((name, at) => names.indexOf(name) !== at);
  if (double !== undefined) throw new InvalidInputError(`There are two members with the name "${double}".`);
  if (names.length >= 1 && names.length <= MAX_MEMBERS) return names;
  throw new InvalidInputError(`A group has 1 to ${MAX_MEMBERS} members; found ${names.length}.`);
}

/** Saves a member for a cut. Its state and its messages are read before this gives way. */
export async function saveMember(
  { engine, saving }: MemberSaving,
  name: string,
  member: MemberState,
): Promise<MemberSave> {
  const channels = captureChannels(engine, name, member);
  checkOptions(member.options ?? {}, SAVE_CHECKS, 'session.save()');
  const options: SaveOptions = { type: 'group_member', trigger: 'group_cut', ...givenOptions(member.options ?? {}) };
  const save =
    'session' in member
      ? member.session.save(member.state, options)
      : saving.save(member.agent, {
          ...options,
          ...(member.sessionId !== undefined && { sessionId: member.sessionId }),
        });
  return { checkpointId: await save, channels };
}

/** A copy of the messages without secrets: the caller may go on changing them. */
function captureChannels({ codec }: Engine, name: string, given: GivenChannels): Channels {
  const { sent, received } = parseChannels(name, given);
  const copy = <Value>(value: Value): Value => codec.decodeJson(codec.encodeJson(value)) as Value;
  return {
    sent: new Map([...sent].map(([to, { count, unconfirmed }]) => [to, { count, unconfirmed: copy(unconfirmed) }])),
    received,
  };
}
