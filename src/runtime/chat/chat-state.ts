import { z } from 'zod';
import { type AgentTotals, addTotals, checkTeamState, messageSchema, teamSchema } from '../agent/agent-state.ts';
import type { ChatMessage } from '../agent/chat-message.ts';
import type { HumanRequest } from '../agent/reply.ts';
import type { LlmConfig } from '../model/llm-config.ts';
import type { TeamState } from '../run/agent-team.ts';
import type { RequestAnswer } from '../run/request-answers.ts';
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
export type ChatState = TeamState<typeof CHAT_KIND> & { readonly chat: ChatRecord };

export const CHAT_KIND = 'group_chat';

const schema = teamSchema(CHAT_KIND, {
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
    messages: z.array(messageSchema),
    round: z.int().nonnegative(),
    roundLimit: z.int().nonnegative(),
    roundsFrom: z.int().nonnegative(),
    lastSpeaker: z.string().nullable(),
    nextSpeaker: z.string().nullable(),
    pendingReply: z.looseObject({ speaker: z.string(), message: messageSchema }).nullable(),
    pendingInput: z.looseObject({ id: z.string(), agent: z.string(), prompt: z.string() }).nullable(),
    randomState: z.number(),
    end: z.looseObject({ reason: z.string() }).nullable(),
  }),
});

/** Checks that a state is one of a conversation; throws an InvalidInputError that says what it is instead. */
export function parseChatState(value: unknown): ChatState {
  const advice = ': it was not saved by a group chat. Restore it with manager.restore().';
  checkTeamState(value, { kind: CHAT_KIND, schema, noun: 'conversation', advice });
  return value as ChatState;
}

/** Everything that was said, also what only its speaker knows yet. */
export function saidIn({ messages, pendingReply }: ChatRecord): readonly ChatMessage[] {
  return pendingReply === null ? messages : [...messages, pendingReply.message];
}

/** What everybody in a conversation had used. */
export function totalsOf({ chat, agents }: ChatState): AgentTotals {
  return Object.values(agents).reduce((sum, { totals }) => addTotals(sum, totals), chat.selectorTotals);
}
