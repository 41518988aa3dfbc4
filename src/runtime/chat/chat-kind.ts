import { InvalidInputError } from '../../core/errors.ts';
import { findName } from '../agent/find-name.ts';
import type { HumanRequest } from '../agent/reply.ts';
import { checkNoValue, findOwn } from '../run/request-answers.ts';
import type { TeamKind } from '../run/team.ts';
import { adoptAgents, reopenAgents } from '../run/team-facts.ts';
import { type ChatEnd, type EndReason, findLimit } from './chat-end.ts';
import type { ChatTrigger } from './chat-loop.ts';
import { changeSettings, findMissingCode } from './chat-settings.ts';
import { type ChatSettings, type ChatState, parseChatState, totalsOf } from './chat-state.ts';
import { GroupChat } from './group-chat.ts';

/** What a conversation asks a person now. Any text is an answer, but for the name of the next speaker. */
export type ChatRequest = HumanRequest & { readonly options: readonly string[] };

export type ChatTypes = {
  readonly state: ChatState;
  readonly team: GroupChat;
  readonly settings: ChatSettings;
  readonly trigger: ChatTrigger;
  readonly end: ChatEnd;
  readonly question: HumanRequest;
  readonly request: ChatRequest;
  readonly answer: string;
};

/** How group chats are compared with their checkpoints, made of them, and run. */
export const CHAT: TeamKind<ChatTypes> = {
  noun: 'conversation',
  parse: parseChatState,
  settingsOf: ({ chat: { settings } }) => settings,
  adopt: adoptCode,
  findMissing: ({ chat: { settings } }, registry) => findMissingCode(settings, registry),
  make: (agents, registry) => new GroupChat({ agents, registry, speakerSelection: 'round_robin' }), // until its own settings are loaded
  override: (chat, settings) => {
    const names = chat.agents.map(({ name }) => name);
    chat.change({
      settings: changeSettings(chat.record.settings, settings, names),
      ...(settings.maxRounds !== undefined && { roundLimit: settings.maxRounds }),
      ...(settings.seed !== undefined && { randomState: settings.seed }),
    });
  },

  workOf: ({ record: { stage, messages, pendingReply, nextSpeaker } }) => {
    const move = pendingReply === null ? (nextSpeaker ?? 'next') : 'append';
    return stage === 'open' ? `message ${messages.length}: ${move}` : stage;
  },
  worksOf: (state) => (state as ChatState).works ?? [],
  describe: ({ record: { round, messages, pendingReply, lastSpeaker } }, end) => ({
    last: pendingReply?.message ?? messages.at(-1),
    place: {
      round,
      messages: messages.length,
      speaker: pendingReply?.speaker ?? lastSpeaker,
      ...(pendingReply !== null && { isPending: true }),
      ...(end !== undefined && { endReason: end.reason }),
      ...(end?.signal !== undefined && { signal: end.signal }),
    },
  }),
  situation: ({ record }) => ({ task: record.problem }),
  requested: () => [],
  isTaught: () => true,
  spoken: 'message_appended',

  requests: {
    parse: parseChatState,
    requestsOf: ({ chat: { pendingInput } }) =>
      pendingInput === null ? {} : { [pendingInput.id]: { ...pendingInput, options: [] } },
    answerOf: ({ chat: { answers = {} } }, id) => findOwn(answers, id),
    withAnswer: (state, { id }, answer) => ({
      ...state,
      chat: { ...state.chat, pendingInput: null, answers: { ...state.chat.answers, [id]: answer } },
    }),
    check: (request, given) => {
      const { id, kind, choices = [] } = request;
      const { answer } = given;
      checkNoValue(request, given, 'Say everything in the answer.');
      if (kind !== 'speaker' || answer.trim() === '' || findName(answer, choices) !== undefined) return;
      throw new InvalidInputError(
        `Request "${id}" cannot be answered with "${answer}". It takes one of: ${choices.join(', ')}; nothing for nobody.`,
        { details: { requestId: id, options: choices } },
      );
    },
  },
  announces: false,
  toRequest: (question) => ({ ...question, options: [] }),
  toAnswer: ({ answer }) => answer.trim(),
  asks: (chat, asked) => {
    const { options: _, ...request } = asked;
    chat.change({ pendingInput: request });
  },
  answered: (chat) => {
    if (chat.record.pendingInput !== null) chat.change({ pendingInput: null });
  },
};

function adoptCode(state: ChatState, code: ChatState): ChatState {
  const { settings: was, roundLimit, stage, messages, randomState } = state.chat;
  const { settings } = code.chat;
  const heard = { status: 'running', histories: { [settings.managerName]: messages } } as const;
  const newcomer = stage === 'open' ? heard : {};
  return withoutPassedLimit({
    ...state,
    ...adoptAgents(state, code, { newcomer, was: was.managerName, is: settings.managerName }),
    chat: {
      ...state.chat,
      settings,
      randomState: settings.seed === was.seed ? randomState : settings.seed,
      roundLimit: Math.max(0, roundLimit + settings.maxRounds - was.maxRounds),
    },
  });
}

/** What ended at a limit that is higher now goes on up to it. */
function withoutPassedLimit(state: ChatState): ChatState {
  const { end, settings, round, roundLimit, reopenings = 0 } = state.chat;
  const { inputTokens, outputTokens, costUsd } = totalsOf(state);
  const used = { round, totalTokens: inputTokens + outputTokens, costUsd };
  const limit = findLimit({ rules: settings.end, maxRounds: roundLimit, ...used });
  if (!LIMITS.some((reason) => reason === end?.reason) || limit !== undefined) return state;
  const chat = { ...state.chat, end: null, reopenings: reopenings + 1 };
  return { ...state, chat, agents: reopenAgents(state.agents) };
}

const LIMITS: readonly EndReason[] = ['max_rounds', 'token_budget', 'cost_budget'];
