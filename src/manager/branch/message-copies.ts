import { isDeepStrictEqual } from 'node:util';
import { withoutUndefined } from '../../core/defined.ts';
import { align } from '../../core/diff/align.ts';
import { InvalidInputError } from '../../core/errors.ts';
import { isRecord } from '../../core/options.ts';
import { formatPath } from '../../core/path.ts';
import { checkEditKeys } from './edit-keys.ts';

/** Who changed a message, and why. */
export type MessageEdit = { readonly reason?: string; readonly author?: string; readonly originalChars: number };

/** A message as teams keep it: in the transcript, and in the own history of everybody who heard it. */
export type SaidMessage = {
  readonly name: string;
  readonly content: string;
  readonly turn?: readonly { readonly role: string }[];
  readonly edited?: MessageEdit;
};

type Editor = { readonly reason?: string | undefined; readonly author?: string | undefined };

/** A message with other words. The speaker's own turn keeps what it did; only what it said at the end changes. */
export function editMessage<Said extends SaidMessage>(message: Said, content: string, editor: Editor): Said {
  const { reason, author } = editor;
  const edited = withoutUndefined({ reason, author, originalChars: message.content.length });
  const { turn } = message;
  if (turn === undefined) return { ...message, content, edited };
  const done = turn.at(-1)?.role === 'assistant' ? turn.slice(0, -1) : turn;
  return { ...message, content, turn: [...done, { role: 'assistant', content }], edited };
}

/**
 * Where each message of a transcript is in an agent's own history; absent if it did not hear it. Their order decides, not the words
 * alone: what was said twice is two messages, and what only the agent was told is none of them.
 */
export function findCopies(said: readonly SaidMessage[], history: readonly SaidMessage[]): ReadonlyMap<number, number> {
  const runs = align(said.map(wordsOf), history.map(wordsOf));
  return new Map(
    runs.flatMap(({ before, after, length }) =>
      Array.from({ length }, (_, at): [number, number] => [before + at, after + at]),
    ),
  );
}

function wordsOf({ name, content }: SaidMessage): string {
  return JSON.stringify([name, content]);
}

/** The state of a team as far as its conversation is concerned. */
type Conversation = {
  /** `chat` or `fleet`. */
  readonly key: string;
  readonly record: Readonly<Record<string, unknown>>;
  /** Everything that was said, also what only its speaker knows yet. */
  readonly said: readonly SaidMessage[];
  /** Under this name agents keep their copies. */
  readonly partner: string;
  readonly agents: Readonly<Record<string, unknown>>;
};

function readConversation(state: unknown): Conversation | undefined {
  if (!isRecord(state) || !isRecord(state.agents)) return undefined;
  const { kind, agents } = state;
  if (kind === 'group_chat') return readRecord('chat', state.chat, { partner: 'managerName', agents });
  return kind === 'fleet' ? readRecord('fleet', state.fleet, { partner: 'orchestratorName', agents }) : undefined;
}

function readRecord(
  key: string,
  record: unknown,
  { partner, agents }: Pick<Conversation, 'partner' | 'agents'>,
): Conversation | undefined {
  if (!isRecord(record) || !isRecord(record.settings) || !Array.isArray(record.messages)) return undefined;
  const { pendingReply, messages, settings } = record;
  const said: unknown[] = isRecord(pendingReply) ? [...messages, pendingReply.message] : messages;
  const name = settings[partner];
  return said.every(isSaid) && typeof name === 'string' ? { key, record, said, partner: name, agents } : undefined;
}

function isSaid(value: unknown): value is SaidMessage {
  return isRecord(value) && typeof value.name === 'string' && typeof value.content === 'string';
}

/** An edited state, and the paths of the copies that were changed in it with their messages. */
export type CarriedEdit = { readonly state: unknown; readonly copies: readonly string[] };

/** Changes the agents' own copies of the messages that an edit changed, except where it changed the copy, too. */
export function carryEdit(before: unknown, after: unknown, editor: Editor): CarriedEdit {
  const [was, is] = [readConversation(before), readConversation(after)];
  if (was !== undefined && Object(after).kind === Object(before).kind)
    checkEditKeys(was.key, Object(before), Object(after));
  if (was !== undefined && is === undefined) refuseBroken(was.key, before, after);
  if (was === undefined || is === undefined) return { state: after, copies: [] };
  const edits = findEdits(was, is, editor);
  if (edits.size === 0) return { state: after, copies: [] };
  const copies: string[] = [];
  const agents = Object.entries(is.agents).map(([name, agent]) => {
    const own = historyOf(agent, was.partner);
    const places = findUntouched(was, name, own).filter(([at]) => edits.has(at));
    if (!isRecord(agent) || own === undefined || places.length === 0) return [name, agent];
    const edited = new Map(places.map(([at, place]) => [place, edits.get(at)]));
    const history = own.map((message, place) => edited.get(place) ?? message);
    copies.push(...places.map(([, place]) => formatPath(['agents', name, 'histories', was.partner, place])));
    return [name, { ...agent, histories: { ...Object(agent.histories), [was.partner]: history } }];
  });
  const state = { ...Object(after), [is.key]: editRecord(is, edits), agents: Object.fromEntries(agents) };
  return { state, copies };
}

/** Refuses what still says that it is a conversation, and could not go on as one. */
function refuseBroken(key: string, before: unknown, after: unknown): void {
  if (!isRecord(after) || after.kind !== Object(before).kind) return;
  const { agents, [key]: record } = after;
  const messages = isRecord(record) && Array.isArray(record.messages) ? record.messages : undefined;
  const at = messages?.findIndex((message) => !isSaid(message)) ?? -1;
  const path = formatPath(isRecord(agents) ? [key, ...(at < 0 ? [] : ['messages', at])] : ['agents']);
  throw new InvalidInputError(
    `The edit leaves nothing to go on from: ${path} is not what a conversation has there. Messages have a name and a content, which are strings; agents, settings and the list of messages stay.`,
    { details: { path } },
  );
}

/** The messages that an edit changed, as they are to be, by their place. */
function findEdits(was: Conversation, is: Conversation, editor: Editor): ReadonlyMap<number, SaidMessage> {
  if (was.said.length !== is.said.length) {
    checkOwnCopies(was, is);
    return new Map();
  }
  const { problem } = is.record;
  const isRestated = problem !== was.record.problem && was.record.problem === was.said[0]?.content;
  const edits = was.said.map((old, at): [number, SaidMessage] => {
    const message = is.said[at] ?? old;
    if (at === 0 && isRestated && typeof problem === 'string' && message.content === old.content)
      return [at, editMessage(message, problem, editor)];
    const isReworded = message.content !== old.content && isDeepStrictEqual(message.turn, old.turn);
    return [
      at,
      isReworded ? { ...message, ...editMessage(old, message.content, editor), name: message.name } : message,
    ];
  });
  return new Map(edits.filter(([at, message]) => !isDeepStrictEqual(message, was.said[at])));
}

/** Whoever adds or takes away messages says what becomes of the copies. */
function checkOwnCopies(was: Conversation, is: Conversation): void {
  const names = Object.entries(is.agents).flatMap(([name, agent]) => {
    const own = historyOf(agent, was.partner);
    return isDeepStrictEqual(own, historyOf(was.agents[name], was.partner)) && own?.length ? [name] : [];
  });
  if (names.length === 0) return;
  throw new InvalidInputError(
    `The edit makes ${is.said.length} messages of ${was.said.length}, and ${names.join(', ')} would still have the old ones: each agent has its own copies, in agents.<name>.histories.${was.partner}. Change these in the same edit; or fork at an earlier checkpoint, or continue with a prompt.`,
    { details: { messages: is.said.length, found: was.said.length, agents: names } },
  );
}

function historyOf(agent: unknown, partner: string): readonly SaidMessage[] | undefined {
  const own = isRecord(agent) && isRecord(agent.histories) ? agent.histories[partner] : undefined;
  return Array.isArray(own) && own.every(isSaid) ? own : undefined;
}

/** The messages of which an agent has a copy that the edit left as it was, each with the place of that. */
function findUntouched(
  was: Conversation,
  name: string,
  own: readonly SaidMessage[] | undefined,
): (readonly [number, number])[] {
  const old = historyOf(was.agents[name], was.partner);
  if (old === undefined || own?.length !== old.length) return [];
  return [...findCopies(was.said, old)].filter(([, place]) => isDeepStrictEqual(own[place], old[place]));
}

function editRecord({ record, said }: Conversation, edits: ReadonlyMap<number, SaidMessage>): object {
  const all = said.map((message, at) => edits.get(at) ?? message);
  const isPending = isRecord(record.pendingReply);
  const messages = isPending ? all.slice(0, -1) : all;
  const isStated = record.problem !== undefined && edits.has(0);
  return {
    ...record,
    messages,
    ...(isPending && { pendingReply: { ...Object(record.pendingReply), message: all.at(-1) } }),
    ...(isStated && { problem: all[0]?.content }),
  };
}
