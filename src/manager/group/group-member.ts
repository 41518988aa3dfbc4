import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import * as is from '../../core/options.ts';
import { checkOptions, checkValue, describeValue, type OptionCheck, type OptionChecks } from '../../core/options.ts';
import { name, parseName, type SessionId } from '../../core/record/id.ts';
import type { SavingSession } from '../agent/agent.ts';
import type { AgentSaving } from '../agent/agent-saving.ts';
import type { Engine } from '../engine/engine.ts';
import { SAVE_CHECKS, type SaveOptions } from '../engine/save-options.ts';
import type { MemberSave } from './cut.ts';
import type { Channels, SentMessages } from './group-state.ts';

/** What a member says about its messages at a cut; a member without channels says nothing. */
export type GivenChannels = {
  /** By the name of the member they went to. */
  readonly sent?: { readonly [to: string]: SentMessages } | undefined;
  /** The number of the last message that arrived, by the name of the member it came from. */
  readonly received?: { readonly [from: string]: number } | undefined;
};

/** What a member brings to a cut: its agent, or a state and the session it is saved in; and its messages. */
export type MemberState = GivenChannels &
  (
    | { readonly agent: unknown; readonly sessionId?: string }
    | { readonly session: SavingSession; readonly state: unknown }
  ) & {
    /** What its own checkpoint says besides; its type is `group_member` unless said otherwise. */
    readonly options?: SaveOptions | undefined;
  };

/** A member of this process with its state, or the name of one in another process, which takes part by `joinGroup`. */
export type GroupMember = string | (MemberState & { readonly name: string });

/** Any member; `checkMember` accepts those that are a `MemberState`. */
type GivenMember = GivenChannels & {
  readonly agent?: unknown;
  readonly sessionId?: string | undefined;
  readonly session?: SavingSession | undefined;
  readonly state?: unknown;
  readonly options?: SaveOptions | undefined;
};

/** Every member of a cut is saved, pinned and read at the same time as the others. */
const MAX_MEMBERS = 256;

const session: OptionCheck = (value) =>
  is.having('save', 'step', 'lease')(value) === undefined
    ? undefined
    : `must be a session, as manager.session() returns it; found ${describeValue(value)}`;

const messages = is.options({
  count: { required: is.wholeFrom(0) },
  unconfirmed: { required: is.listOf(is.anything) },
});

const sent: OptionCheck = (value) => {
  const problem = messages(value);
  if (problem !== undefined) return problem;
  const { count, unconfirmed } = value as SentMessages;
  return unconfirmed.length <= count ? undefined : `has ${unconfirmed.length} unconfirmed messages, and sent ${count}`;
};

const MEMBER: OptionChecks<GivenMember> = {
  agent: is.accepts('an agent or a state', (value) => value !== null),
  sessionId: name,
  session,
  state: is.anything,
  options: is.options(SAVE_CHECKS),
  sent: is.recordOf(sent),
  received: is.recordOf(is.wholeFrom(0)),
};

const NAMED_MEMBER: OptionChecks = { ...MEMBER, name: { required: name } };

const WAYS: ReadonlySet<string> = new Set(['agent', 'agent, sessionId', 'session, state']);

/** Accepts what a member brings to a cut: an agent, or a session and its state, and nothing that would be ignored. */
export function checkMember(member: GivenMember, of: string, checks: OptionChecks = MEMBER): void {
  checkOptions(member, checks, of);
  const parts = ['agent', 'session', 'sessionId', 'state'] as const;
  const found = parts.filter((part) => member[part] !== undefined).join(', ');
  if (!WAYS.has(found))
    throw new InvalidInputError(`The ${of} has ${found || 'nothing to save'}. Pass { agent } or { session, state }.`);
}

/** The names of a group's members, in order; throws unless they are members, and different ones. */
export function parseMembers(members: readonly GroupMember[], groupId: SessionId): string[] {
  const member = is.either('a name, or an object with a name and an agent, or a session and a state', name, is.record);
  checkValue(members, is.listOf(member), 'The members of saveGroup()');
  const names = members.map((member) => parseName(typeof member === 'string' ? member : member.name, 'A member name'));
  const double = names.find((name, at) => names.indexOf(name) !== at);
  if (double !== undefined) throw new InvalidInputError(`There are two members with the name "${double}".`);
  if (names.length < 1 || names.length > MAX_MEMBERS)
    throw new InvalidInputError(`A group has 1 to ${MAX_MEMBERS} members; found ${names.length}.`);
  const local = members.filter((member) => typeof member !== 'string');
  for (const member of local) checkMember(member, `member "${member.name}" of saveGroup()`, NAMED_MEMBER);
  checkDifferent(local);
  const own = local.find((given: GivenMember) => (given.session?.id ?? given.sessionId) === groupId);
  if (own !== undefined)
    throw new InvalidInputError(
      `The member "${own.name}" is saved in session "${groupId}", which cannot be the group's too. Choose another groupId.`,
      { details: { groupId } },
    );
  return names;
}

/** One agent, or session, under two names would be brought back twice, and only one of the two would go on. */
function checkDifferent(members: readonly (GivenMember & { readonly name: string })[]): void {
  const names = new Map<unknown, string>();
  for (const { name, agent, session = agent } of members) {
    const other = typeof session === 'object' ? names.get(session) : undefined;
    if (other !== undefined)
      throw new InvalidInputError(`The members "${other}" and "${name}" are one object. Give it one name.`);
    names.set(session, name);
  }
}

/** Saves a member for a cut. Its state and its messages are read before this first awaits. */
export async function saveMember(saving: AgentSaving, member: GivenMember): Promise<MemberSave> {
  const channels = captureChannels(saving.engine, member);
  const said = withoutUndefined(member.options ?? {});
  const options: SaveOptions = { type: 'group_member', trigger: 'group_cut', ...said };
  const { agent, sessionId, session, state } = member;
  const save = session === undefined ? saving.save(agent, { ...options, sessionId }) : session.save(state, options);
  return { checkpointId: await save, channels };
}

/** A copy of the messages without secrets: the caller may go on changing them. */
function captureChannels({ codec }: Engine, { sent = {}, received = {} }: GivenChannels): Channels {
  const copied = Object.entries(withoutUndefined(sent)).map(([to, { count, unconfirmed }]) => {
    return [to, { count, unconfirmed: codec.copy(unconfirmed) }] as const;
  });
  return { sent: new Map(copied), received: new Map(Object.entries(withoutUndefined(received))) };
}
