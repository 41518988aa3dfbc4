import { withoutUndefined } from '../../core/defined.ts';
import { align } from '../../core/diff/align.ts';
import type { PathStep } from '../../core/path.ts';
import { digestText } from '../../core/tree/chunk.ts';
import { fieldsOf, listMessages } from '../../manager/revision/transcript.ts';
import { toJsonForm } from '../../view/json-form.ts';
import { parseStatePath } from '../../view/state-path.ts';
import { viewOf } from '../../view/state-view.ts';
import { modelOf } from '../../view/usage.ts';
import type { Call } from './call.ts';
import { toMessage } from './transcript.ts';

/** What the model of an agent is given from a state on. */
type ModelContext = {
  /** Whose context can be asked for; none where a state has one conversation only. */
  readonly agents: readonly string[];
  readonly agent?: string;
  readonly model?: string;
  readonly system?: string;
  readonly tools: readonly string[];
  readonly messages: readonly unknown[];
  /** Where they are in the state. */
  readonly path: readonly PathStep[];
  /** How many messages the conversation has: more than an agent is given, if some were dropped for it. */
  readonly conversation: number;
};

/** Reads the context of an agent: its own copy of the conversation where it has one, the conversation otherwise. */
export function contextOf(state: unknown, asked: string | undefined): ModelContext {
  const own = Object.entries(fieldsOf(fieldsOf(state).agents));
  const [agent, found] = own.find(([name]) => name === asked) ?? own[0] ?? [];
  const conversation = listMessages(state) ?? [];
  const [partner = '', history] = longest(fieldsOf(fieldsOf(found).histories));
  const place =
    history === undefined || agent === undefined
      ? { messages: conversation, path: parseStatePath(viewOf(state).transcript ?? '$.messages') }
      : { messages: history, path: ['agents', agent, 'histories', partner] };
  return {
    agents: own.map(([name]) => name),
    ...withoutUndefined({ agent }),
    ...settingsOf(fieldsOf(found)),
    ...place,
    conversation: conversation.length,
  };
}

function settingsOf(agent: Readonly<Record<string, unknown>>) {
  const { systemMessage, system = systemMessage, tools } = agent;
  return {
    ...withoutUndefined({ model: modelOf(agent), system: typeof system === 'string' ? system : undefined }),
    tools: Array.isArray(tools) ? tools.map(String) : Object.keys(fieldsOf(tools)),
  };
}

function longest(histories: Readonly<Record<string, unknown>>): [partner?: string, messages?: readonly unknown[]] {
  const lists = Object.entries(histories).filter((entry): entry is [string, unknown[]] => Array.isArray(entry[1]));
  return lists.sort((a, b) => b[1].length - a[1].length)[0] ?? [];
}

/** How one context differs from another: which of its messages are new, which of the other's are gone, and whether what is left changed places. */
type ContextChange = {
  readonly isNew: (index: number) => boolean;
  readonly dropped: readonly number[];
  readonly isReordered: boolean;
};

/** Compares two lists of messages by what they say. */
export function compareContexts(before: readonly unknown[], after: readonly unknown[]): ContextChange {
  const [old, fresh] = [before.map(nameOf), after.map(nameOf)];
  const same = new Set<number>();
  const kept = new Set<number>();
  for (const match of align(old, fresh))
    for (let n = 0; n < match.length; n++) {
      kept.add(match.before + n);
      same.add(match.after + n);
    }
  const known = new Set(fresh);
  const gone = [...old.keys()].filter((n) => !kept.has(n));
  return {
    isNew: (index) => !same.has(index),
    dropped: gone.filter((n) => !known.has(old[n] ?? '')),
    isReordered: gone.some((n) => known.has(old[n] ?? '')),
  };
}

/** States share their messages: each is named once. */
const names = new WeakMap<object, string>();

function nameOf(message: unknown): string {
  if (typeof message !== 'object' || message === null) return String(message);
  const known = names.get(message);
  if (known !== undefined) return known;
  const name = digestText(JSON.stringify(toJsonForm(message)) ?? '');
  names.set(message, name);
  return name;
}

const DEFAULT_MESSAGES = 200;
/** Of what is gone so many are shown. */
const MAX_DROPPED = 50;

/** What a model is given at a checkpoint, and how that differs from another. */
export async function describeContext({
  manager,
  states,
  params,
  query,
}: Call<'GET /v1/checkpoints/{checkpoint}/context'>) {
  const { parentId, header } = await manager.open(params.checkpoint);
  const { limit = DEFAULT_MESSAGES, before = parentId } = query;
  const speaker = header.metadata?.speaker;
  const asked = query.agent ?? (typeof speaker === 'string' ? speaker : undefined);
  const { messages, path, ...context } = contextOf(await states.load(params.checkpoint), asked);
  const other = before === undefined ? undefined : contextOf(await states.load(before), context.agent);
  const change = compareContexts(other?.messages ?? messages, messages);
  const from = Math.max(0, messages.length - limit);
  return {
    ...context,
    ...withoutUndefined({ before }),
    total: messages.length,
    items: messages
      .slice(from)
      .map((raw, at) => ({ ...toMessage(raw, from + at, { path }), isNew: change.isNew(from + at) })),
    droppedTotal: change.dropped.length,
    dropped: change.dropped
      .slice(-MAX_DROPPED)
      .map((at) => toMessage(other?.messages[at], at, { path: other?.path ?? path })),
    isReordered: change.isReordered,
    isSystemChanged: other !== undefined && other.system !== context.system,
  };
}
