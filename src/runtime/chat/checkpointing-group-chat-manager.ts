import { InvalidInputError } from '../../core/errors.ts';
import { accepts, checkOptions, checkValue, having, type OptionChecks, string } from '../../core/options.ts';
import { parseName } from '../../core/record/id.ts';
import { formatSuggestion, suggest } from '../../core/suggestion.ts';
import type { Recovery } from '../../manager/recovery/recovery-options.ts';
import type { Session } from '../../manager/session/session.ts';
import { PERSON } from '../agent/chat-message.ts';
import type { DifferenceOptions } from '../run/differences.ts';
import { type FilesOptions, openSessionFiles } from '../run/files/session-files.ts';
import { type HeldOptions, type Prepared, RunHost } from '../run/host.ts';
import type { AnswersById, GivenAnswer, RequestAnswer } from '../run/request-answers.ts';
import { ANSWERS, CHAT_RUN, FILES, HELD, RESUME } from '../run/run-options.ts';
import { CHAT, type ChatRequest, type ChatTypes } from './chat-kind.ts';
import { type ChatRunOptions, type ChatRunResult, describeConversation, holdChat } from './chat-run.ts';
import type { GroupChat } from './group-chat.ts';

/** What a group is held with. */
export type GroupChatManagerOptions = ChatRunOptions & HeldOptions & FilesOptions & { readonly chat: GroupChat };

const groupChat = accepts(
  'a GroupChat: new GroupChat({ agents, ... })',
  (value) => having('append', 'appendReply', 'saveState')(value) === undefined,
);

const OPTIONS: OptionChecks<GroupChatManagerOptions> = {
  ...CHAT_RUN,
  ...HELD,
  ...FILES,
  chat: { required: groupChat },
};

type Problem = { readonly message: string; readonly initiator?: string; readonly rounds?: number };

const PROBLEM: OptionChecks<Problem> = { message: { required: string }, initiator: string, rounds: RESUME.rounds };

/** How a conversation goes on. */
export type ResumeChatOptions = DifferenceOptions & {
  /** So many rounds from here; default: those that are left. */
  readonly rounds?: number;
  /** Answers to requests that are pending, by their ids; an id that is not asked for is NOT_FOUND. */
  readonly answers?: AnswersById;
};

/** Holds a group chat and checkpoints it at every message, so that it can be resumed, continued and forked from any of them. */
export class CheckpointingGroupChatManager {
  readonly #options: GroupChatManagerOptions;
  readonly #host: RunHost<ChatTypes, ChatRunResult>;

  constructor(options: GroupChatManagerOptions) {
    checkOptions(options, OPTIONS, 'new CheckpointingGroupChatManager()');
    this.#options = options;
    this.#host = new RunHost(CHAT, {
      team: options.chat,
      options,
      limit: 'maxRounds',
      run: (session, prepared, signal) => this.#run(session, prepared, signal),
    });
  }

  get chat(): GroupChat {
    return this.#options.chat;
  }

  /** Begins the conversation with a problem. The session must be new. */
  async run(problem: Problem): Promise<ChatRunResult> {
    checkOptions(problem, PROBLEM, 'run()');
    const initiator = parseName(problem.initiator ?? PERSON, 'The initiator');
    this.#checkInitiator(initiator);
    return this.#host.begin(() => this.#begin({ ...problem, initiator }));
  }

  /** Goes on where the session was left: after a crash, a stop, a failure, or with the answer it waited for. */
  async resume(options: ResumeChatOptions = {}): Promise<ChatRunResult> {
    checkOptions(options, { ...RESUME, ...ANSWERS }, 'resume()');
    const { answers, ...deciding } = options;
    const { rounds } = options;
    return this.#host.hold(async (session) => {
      const resumed = await this.#host.load(session, deciding);
      if (rounds === undefined) return { ...resumed, answers };
      this.chat.reopen({ rounds });
      return { ...resumed, answers, first: 'conversation_continued' };
    });
  }

  /** Says something as the person, and lets the conversation go on from it; begins it if the session is new. */
  async prompt(message: string, options: Omit<ResumeChatOptions, 'answers'> = {}): Promise<ChatRunResult> {
    checkValue(message, string, 'The message of prompt()');
    checkOptions(options, RESUME, 'prompt()');
    const { made } = this.#host;
    const { maxRounds } = made.code.chat.settings;
    const { rounds = maxRounds, ...deciding } = options;
    return this.#host.hold(async (session) => {
      if (session.head === undefined) {
        this.#begin({ message, initiator: PERSON, rounds });
        return { facts: made.facts };
      }
      const resumed = await this.#host.load(session, { ...deciding, rounds });
      // The limit of the conversation, unless the code has another one now.
      const limit = resumed.hasNewLimit ? maxRounds : this.chat.record.settings.maxRounds;
      this.chat.prompt(message, options.rounds ?? limit);
      return resumed;
    });
  }

  /** Goes on with a conversation whose process died; a handler for `workers.recoverAbandoned`. One that fails comes up again later. */
  async recover(session: Session, recovery: Pick<Recovery, 'lease'>): Promise<ChatRunResult> {
    return this.#host.recover(session, recovery);
  }

  /** What people are asked now. */
  async pending(): Promise<ChatRequest[]> {
    return this.#host.pending();
  }

  /** Answers a request, for whoever resumes the conversation, here or elsewhere. Of several answers the first is taken. */
  async answer(given: Omit<GivenAnswer, 'sessionId' | 'branch'>): Promise<RequestAnswer> {
    return this.#host.answer(given);
  }

  /** Whose words the problem is: nobody else can be heard. */
  #checkInitiator(initiator: string): void {
    const known = [...this.chat.agents.map(({ name }) => name), PERSON];
    if (known.includes(initiator)) return;
    throw new InvalidInputError(
      `The initiator "${initiator}" is not in the group.${formatSuggestion(suggest(initiator, known))} It may be: ${known.join(', ')}.`,
      { details: { option: 'initiator', known } },
    );
  }

  #begin({ message, initiator = PERSON, rounds }: Problem): void {
    const { stage, messages } = this.chat.record;
    if (message.trim() === '') throw new InvalidInputError('The problem is empty. Say what the group is to do.');
    if (stage !== 'new') {
      throw new InvalidInputError(
        `This group has a conversation already, with ${messages.length} messages. Make a new group for a new session.`,
        { details: { messages: messages.length } },
      );
    }
    refuseReused(this.chat);
    this.chat.change({ problem: message, initiator });
    if (rounds !== undefined) this.chat.reopen({ rounds });
  }

  async #run(session: Session, prepared: Prepared<ChatTypes>, signal: AbortSignal | undefined): Promise<ChatRunResult> {
    const { chat, manager, sessionId, logs, checkpointFiles, ...options } = this.#options;
    const conversation = () => describeConversation(chat);
    const files = await openSessionFiles({ manager, sessionId, conversation }, { logs, checkpointFiles });
    // a killed run may have left the head without files
    if (session.head !== undefined) await files?.add(session.head);
    const signals = signal === undefined ? {} : { signal };
    return holdChat(chat, { manager, session, files, ...prepared }, { ...options, ...signals });
  }
}

/** An agent that was in another group would bring along what was said there, to the model and into the checkpoints. */
function refuseReused({ agents, messages, record }: GroupChat): void {
  const { managerName } = record.settings;
  const reused = agents.find((agent) => agent.history(managerName).some((heard) => !messages.includes(heard)));
  if (reused === undefined) return;
  throw new InvalidInputError(
    `Agent "${reused.name}" has a conversation of another group, which it would bring along. Make new agents for a new group.`,
    { details: { agent: reused.name, managerName } },
  );
}
