import { z } from 'zod';
import { type AgentState, type AgentTotals, addTotals, checkTeamState } from '../agent/agent-state.ts';
import type { ChatMessage } from '../agent/chat-message.ts';
import type { HumanRequest } from '../agent/reply.ts';
import type { LlmConfig } from '../model/llm-config.ts';
import type { RequestAnswer } from '../run/request-answers.ts';
import type { OpenWork } from '../run/work.ts';
import type { ChatEnd, EndRules } from './chat-end.ts';

/** How the next speaker is found: by a model, in turn, by chance, by a person, or by a registered function. */
export type SpeakerSelection = 'auto' | 'round_robin' | 'random' | 'manual' | { readonly selector: string };

/** How a conversation is held; plain data. */
export type ChatSettings = {
  /** Under this name agents keep their copy of the group's conversation, and the group speaks to them. */
  readonly managerName: string;
  readonly speakerSelection: SpeakerSelection;
  /** Who may follow whom; null: anyone. */
  readonly allowedTransitions: Readonly<Record<string, readonly string[]>> | null;
  readonly allowRepeatSpeaker: boolean;
  readonly sendIntroductions: boolean;
  /** Where chance begins. */
  readonly seed: number;
  /** How many replies there may be after the problem was stated, and after each prompt, unless a run says how many. */
  readonly maxRounds: number;
  readonly end: EndRules;
  /** The model that selects speakers. */
  readonly selectorConfig: LlmConfig | null;
  readonly selectorModelId: string | null;
};

/** A reply that was generated and not appended yet: only its speaker knows it. */
export type PendingReply = {
  readonly speaker: string;
  readonly message: ChatMessage;
  /** A person prompts with it: that is no round. */
  readonly isPrompt?: boolean;
};

/** A conversation without its agents. */
export type ChatRecord = {
  readonly settings: ChatSettings;
  readonly problem: string;
  /** Who stated the problem. */
  readonly initiator: string;
  /** `started`: the first checkpoint was taken. `open`: the problem was stated. */
  readonly stage: 'new' | 'started' | 'open';
  readonly messages: readonly ChatMessage[];
  /** How many replies were appended; what a person prompts is none. */
  readonly round: number;
  /** The count at which it ends, and the one at which that was granted. */
  readonly roundLimit: number;
  readonly roundsFrom: number;
  readonly lastSpeaker: string | null;
  readonly nextSpeaker: string | null;
  readonly pendingReply: PendingReply | null;
  readonly pendingInput: HumanRequest | null;
  /** On the branch of an answer: what was answered. */
  readonly answers?: Readonly<Record<string, RequestAnswer>>;
  readonly randomState: number;
  /** What selecting speakers used. */
  readonly selectorTotals: AgentTotals;
  /** The conversation goes on although the message at this count would end it. */
  readonly endOverruledAt: number | null;
  readonly end: ChatEnd | null;
  /** How often it went on after an end: what was asked and answered before that is asked anew. */
  readonly reopenings?: number;
};

/** What a checkpoint of a group holds. */
export type ChatState = {
  readonly kind: typeof CHAT_KIND;
  readonly formatVersion: 1;
  readonly chat: ChatRecord;
  /** In the order in which they take turns. */
  readonly order: readonly string[];
  readonly agents: Readonly<Record<string, AgentState>>;
  /** What the move under way has called, if it was saved before it was over: it goes on from there. */
  readonly works?: readonly OpenWork[];
};

export const CHAT_KIND = 'group_chat';

const message = z.looseObject({ name: z.string(), content: z.string() });

const schema = z.looseObject({
  kind: z.literal(CHAT_KIND),
  formatVersion: z.literal(1),
  order: z.array(z.string()).min(1),
  agents: z.record(z.string(), z.unknown()),
  chat: z.looseObject({
    settings: z.looseObject({
      managerName: z.string(),
      maxRounds: z.number(),
      speakerSelection: z.union([z.string(), z.looseObject({ selector: z.string() })]).optional(),
      end: z.looseObject({}),
    }),
    problem: z.string(),
    initiator: z.string(),
    stage: z.enum(['new', 'started', 'open']),
    messages: z.array(message),
    round: z.int().nonnegative(),
    roundLimit: z.int().nonnegative().optional(),
    roundsFrom: z.int().nonnegative().optional(),
    lastSpeaker: z.string().nullable(),
    nextSpeaker: z.string().nullable(),
    pendingReply: z.looseObject({ speaker: z.string(), message }).nullable(),
    pendingInput: z.looseObject({ id: z.string(), agent: z.string(), prompt: z.string() }).nullable(),
    randomState: z.number(),
    end: z.looseObject({ reason: z.string() }).nullable(),
  }),
});

const FORM = {
  kind: CHAT_KIND,
  schema,
  noun: 'conversation',
  advice: ': it was not saved by a group chat. Restore it with manager.restore().',
} as const;

/** Checks that a state is one of a conversation; throws an InvalidInputError that says what it is instead. */
export function parseChatState(value: unknown): ChatState {
  checkTeamState(value, FORM);
  return withLimits(value as ChatState);
}

/** Older states had one number for what the code says and what a run grants. */
function withLimits(state: ChatState): ChatState {
  const { settings, roundLimit = settings.maxRounds, roundsFrom = 0 } = state.chat;
  return { ...state, chat: { ...state.chat, roundLimit, roundsFrom } };
}

/** What everybody in a conversation had used. */
export function totalsOf({ chat, agents }: ChatState): AgentTotals {
  return Object.values(agents).reduce((sum, { totals }) => addTotals(sum, totals), chat.selectorTotals);
}
