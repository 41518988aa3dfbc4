import { InvalidInputError } from '../../core/errors.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { HumanRequest } from '../agent/human.ts';
import { RequestAnswers, type RequestForm } from '../run/request-answers.ts';
import { type ChatState, parseChatState } from './chat-state.ts';
import { findName } from './speaker-selection.ts';

/** What a conversation asks a person now. Any text is an answer, but for the name of the next speaker. */
export type ChatRequest = HumanRequest & { readonly options: readonly string[] };

const FORM: RequestForm<ChatState, ChatRequest> = {
  parse: parseChatState,
  requestsOf: ({ chat: { pendingInput } }) =>
    pendingInput === null ? {} : { [pendingInput.id]: { ...pendingInput, options: [] } },
  answersOf: ({ chat: { answers = {} } }) => answers,
  withAnswer: (state, { id }, answer) => ({
    ...state,
    chat: { ...state.chat, pendingInput: null, answers: { ...state.chat.answers, [id]: answer } },
  }),
  check: ({ id, kind, choices = [] }, { answer }) => {
    if (kind !== 'speaker' || answer.trim() === '' || findName(answer, choices) !== undefined) return;
    throw new InvalidInputError(
      `Request "${id}" cannot be answered with "${answer}". It takes one of: ${choices.join(', ')}; nothing for nobody.`,
      { details: { requestId: id, options: choices } },
    );
  },
};

/** Where answers to what a conversation asks are left and found, once each. */
export class ChatAnswers extends RequestAnswers<ChatState, ChatRequest> {
  constructor(manager: CheckpointManager) {
    super(manager, FORM);
  }
}
