import { InvalidInputError } from '../../core/errors.ts';
import {
  anything,
  checkOptions,
  checkValue,
  filledString,
  listOf,
  type OptionChecks,
  oneOf,
  record,
  string,
} from '../../core/options.ts';
import type { AgentRegistry } from './agent-registry.ts';
import { type ChatMessage, PERSON } from './chat-message.ts';
import type { Effects } from './effects.ts';
import type { Recall } from './run-memory.ts';

/** The world as an agent sees it while it replies. */
export type ReplyContext = {
  readonly effects: Effects;
  readonly registry: AgentRegistry;
  /** Whose conversation this is: one partner, or the manager of a group. */
  readonly partner: string;
  /** Asks the person behind this agent. */
  readonly ask: (prompt: string) => Promise<string>;
  readonly signal?: AbortSignal | undefined;
  readonly onText?: ((delta: string) => void) | undefined;
  /** Fills the `{memory}` blocks of its prompt; without it they become empty. */
  readonly recall?: Recall | undefined;
};

/** What is said to an agent, by the user unless it has a name. */
export type HeardMessage = { readonly name?: string; readonly role?: 'user'; readonly content: string };

/** How an agent is asked outside of a team. */
export type ReplyOptions = {
  /** Finds what the agent does not bring along itself: a model by its id, tools, keys in its `env`. */
  readonly registry?: AgentRegistry;
  /** Whose conversation this is; default: the user's. */
  readonly partner?: string;
  /** Whether the agent remembers what it was asked and said; default true. */
  readonly remembers?: boolean;
  /** The same for every attempt at one request: tools and models get keys made of it. */
  readonly idempotencyKey?: string;
  readonly signal?: AbortSignal | undefined;
  readonly onText?: ((delta: string) => void) | undefined;
};

/** What came of asking for a reply; without a message, why there is none. */
export type ReplyOutcome =
  | { readonly message: ChatMessage }
  | { readonly message?: undefined; readonly silence: 'exit' | 'limit' | 'nothing_to_say' };

/** What a message may have; of what another agent said, its turn, too. */
const MESSAGE: OptionChecks<HeardMessage & ChatMessage> = {
  name: string,
  role: string,
  content: string,
  turn: anything,
  code: anything,
  edited: anything,
};

/** What is said to an agent of this name, by the user unless it says by whom; throws if it is no message. */
export function parseMessage(message: string | HeardMessage, agent: string): ChatMessage {
  const { name, content } = toMessage(message, PERSON);
  if (typeof message !== 'string') checkOptions(message, MESSAGE, 'a message');
  if (name === agent)
    throw new InvalidInputError(
      `The message is from "${name}", which is the name of the agent itself. Give the agent another name, or say who speaks.`,
    );
  return Object.freeze({ name, content });
}

/** What was said, as a conversation holds it: by the sender, unless it has a name. Throws if it could not be restored. */
export function toMessage(said: string | HeardMessage | ChatMessage, sender: string): ChatMessage {
  if (typeof said === 'string') return { name: sender, content: said };
  checkValue(said, record, 'A message');
  const { role, name, ...rest }: Partial<ChatMessage> & HeardMessage = said;
  if (name === undefined && role !== undefined)
    checkValue(role, oneOf('user'), 'The role of a message without the name of who speaks');
  checkValue(name ?? sender, filledString, 'The name of who speaks');
  checkValue(rest.content, string, 'The content of a message');
  for (const part of ['turn', 'code'] as const)
    if (rest[part] !== undefined) checkValue(rest[part], parts, `"${part}" of a message`);
  return name === undefined ? { name: sender, ...rest } : (said as ChatMessage);
}

const parts = listOf(record);

/** When a person is asked: never; when the conversation would end or the agent has replied often enough; before every reply. */
export type HumanInputMode = 'NEVER' | 'TERMINATE' | 'ALWAYS';

/** A question to a person. It lives in the checkpoint until it is answered. */
export type HumanRequest = {
  /** The same however often the run is resumed. */
  readonly id: string;
  readonly agent: string;
  readonly kind: 'reply' | 'end' | 'speaker';
  readonly prompt: string;
  readonly choices?: readonly string[];
};

/** Asks a person; undefined if there is no answer now: then the run stops and can be continued with one. */
export type AskHuman = (
  request: HumanRequest,
  options: { readonly signal?: AbortSignal | undefined },
) => Promise<string | undefined>;

/** What a person types to end a conversation. */
export const EXIT = 'exit';
