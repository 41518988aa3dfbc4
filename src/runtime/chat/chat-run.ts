import { accepts, checkValue } from '../../core/options.ts';
import type { AskHuman, HumanRequest } from '../agent/reply.ts';
import type { FilesOptions } from '../run/files/session-files.ts';
import type { AnswersById } from '../run/request-answers.ts';
import { type Hold, holdTeam, type RunOptions, type RunResult } from '../run/team-run.ts';
import { CHAT, type ChatTypes } from './chat-kind.ts';
import { ChatLoop } from './chat-loop.ts';
import type { GroupChat } from './group-chat.ts';

/** What a run may use besides its conversation. */
export type ChatRunOptions = RunOptions<GroupChat> & {
  /** Asks the people behind agents. Without it, or without an answer, the run stops and waits. */
  readonly ask?: AskHuman;
  /** Answers to requests that an earlier run left pending, by their ids; an id that is not asked for is NOT_FOUND. */
  readonly answers?: AnswersById;
};

/** What came of a run. */
export type ChatRunResult = RunResult<ChatTypes['end'], HumanRequest> & {
  /** How many of the messages this run appended. */
  readonly newMessages: number;
  /** The folder of the session's files; undefined if they are switched off, or it could not be made. */
  readonly folder: string | undefined;
  /** Why files could not be written; the run goes on without them. */
  readonly fileProblems: readonly unknown[];
};

/** Where a conversation is held. */
export type ChatHold = Omit<Hold<ChatTypes>, 'kind' | 'team' | 'script' | 'ask'>;

/** Holds a conversation in a session: every move is saved, every outside call recorded. */
export async function holdChat(
  chat: GroupChat,
  hold: ChatHold,
  { ask, answers, ...options }: ChatRunOptions & FilesOptions = {},
): Promise<ChatRunResult> {
  const before = chat.messages.length;
  const result = await holdTeam<ChatTypes>(
    {
      ...hold,
      kind: CHAT,
      team: chat,
      script: (world) => new ChatLoop(chat, world),
      ask: ask && (async (request, { signal }) => toAnswer(await ask(request, { signal }))),
      answers: hold.answers ?? answers,
    },
    options,
  );
  const newMessages = chat.messages.length - before;
  return {
    ...result,
    newMessages,
    folder: hold.files?.isUsable ? hold.files.folder : undefined,
    fileProblems: hold.files?.problems ?? [],
  };
}

const spoken = accepts('a string, or undefined to wait', (said) => ['string', 'undefined'].includes(typeof said));

function toAnswer(said: string | undefined): { readonly answer: string } | undefined {
  checkValue(said, spoken, 'The answer of ask()');
  return said === undefined ? undefined : { answer: said };
}

/** A conversation as its files tell of it. */
export function describeConversation({ record, agents }: GroupChat) {
  return { ...record, agents: agents.map((agent) => agent.saveState()) };
}
