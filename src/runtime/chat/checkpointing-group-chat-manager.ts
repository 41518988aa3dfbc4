import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { checkOptions, checkValue, type OptionChecks, record, string } from '../../core/options.ts';
import { parseName } from '../../core/record/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { EffectMode } from '../../manager/effect/effect-log.ts';
import type { Recovery } from '../../manager/recovery/recovery-options.ts';
import type { Session } from '../../manager/session/session.ts';
import { PERSON } from '../agent/chat-message.ts';
import { parseRunMemory } from '../agent/run-memory.ts';
import { type DifferenceOptions, decide } from '../run/differences.ts';
import { type FilesOptions, openSessionFiles } from '../run/files/session-files.ts';
import type { GivenAnswer, RequestAnswer } from '../run/request-answers.ts';
import { CHAT_RUN, FILES, HELD, RESUME } from '../run/run-options.ts';
import { openOutcome, withSeat } from '../run/seat.ts';
import { type MadeTeam, madeOf, type Resumed, resumeTeam } from '../run/team.ts';
import { ChatAnswers, type ChatRequest } from './chat-answers.ts';
import { CHAT } from './chat-kind.ts';
import { type ChatHold, type ChatRunOptions, type ChatRunResult, describeConversation, holdChat } from './chat-run.ts';
import type { ChatState } from './chat-state.ts';
import type { GroupChat } from './group-chat.ts';

/** What a group is held with. */
export type GroupChatManagerOptions = ChatRunOptions &
  DifferenceOptions & {
    readonly chat: GroupChat;
    readonly checkpoints: CheckpointManager;
    readonly sessionId: string;
    readonly branch?: string;
    readonly mode?: EffectMode;
  } & FilesOptions;

const OPTIONS: OptionChecks<GroupChatManagerOptions> = { ...CHAT_RUN, ...HELD, ...FILES, chat: { required: record } };

/** What a conversation begins with. */
type Problem = { readonly message: string; readonly initiator?: string; readonly rounds?: number };

const PROBLEM: OptionChecks<Problem> = { message: { required: string }, initiator: string, rounds: RESUME.rounds };

/** How a conversation goes on. */
export type ResumeChatOptions = DifferenceOptions & {
  /** So many rounds from here; default: those that are left. */
  readonly rounds?: number;
  /** Answers to requests that are pending, by their ids; an id that is not asked for is NOT_FOUND. */
  readonly answers?: Readonly<Record<string, string>>;
};

type Loading = DifferenceOptions & { readonly rounds: number | undefined };

/** What a conversation goes on with. */
type Prepared = Pick<ChatHold, 'isChanged' | 'facts' | 'differences'>;

/** Holds a group chat and checkpoints it at every message, so that it can be resumed, continued and forked from any of them. */
export class CheckpointingGroupChatManager {
  readonly #options: GroupChatManagerOptions;
  readonly #made: MadeTeam<ChatState>;

  constructor(options: GroupChatManagerOptions) {
    checkOptions(options, OPTIONS, 'new CheckpointingGroupChatManager()');
    parseRunMemory(options.memory, options.userId);
    this.#options = options;
    this.#made = madeOf(CHAT, options.chat);
  }

  get chat(): GroupChat {
    return this.#options.chat;
  }

  /** Begins the conversation with a problem. The session must be new. */
  async run(problem: Problem): Promise<ChatRunResult> {
    checkOptions(problem, PROBLEM, 'run()');
    const initiator = parseName(problem.initiator ?? PERSON, 'The initiator');
    return this.#hold({}, async (session) => {
      if (session.head !== undefined) {
        throw new InvalidInputError(
          `Session "${session.id}" has a conversation already, at ${session.head.id}. Use resume() to go on with it, or another session.`,
          { details: { sessionId: session.id, headId: session.head.id } },
        );
      }
      return this.#begin(problem.message, initiator, problem.rounds);
    });
  }

  /** Goes on where the session was left: after a crash, a stop, a failure, or with the answer it waited for. */
  async resume(options: ResumeChatOptions = {}): Promise<ChatRunResult> {
    checkOptions(options, { ...RESUME, answers: CHAT_RUN.answers }, 'resume()');
    const { rounds, answers, ...deciding } = options;
    const answering = answers === undefined ? {} : { answers };
    return this.#hold(answering, async (session) => {
      const resumed = await this.#load(session, { ...deciding, rounds });
      if (rounds !== undefined) this.chat.reopen({ rounds });
      return { ...resumed, isChanged: rounds !== undefined };
    });
  }

  /** Says something as the person, and lets the conversation go on from it; begins it if the session is new. */
  async prompt(message: string, options: Omit<ResumeChatOptions, 'answers'> = {}): Promise<ChatRunResult> {
    checkValue(message, string, 'The message of prompt()');
    checkOptions(options, RESUME, 'prompt()');
    const { maxRounds } = this.#made.code.chat.settings;
    const { rounds, ...deciding } = options;
    return this.#hold({}, async (session) => {
      if (session.head === undefined) return this.#begin(message, PERSON, rounds ?? maxRounds);
      const resumed = await this.#load(session, { ...deciding, rounds: rounds ?? maxRounds });
      // The limit of the conversation, unless the code has another one now.
      const limit = resumed.hasNewLimit ? maxRounds : this.chat.record.settings.maxRounds;
      this.chat.prompt(message, rounds ?? limit);
      return resumed;
    });
  }

  /** Goes on with a conversation whose process died; a handler for `manager.recoverAbandoned`. One that fails comes up again later. */
  async recover(session: Session, { lease }: Pick<Recovery, 'lease'>): Promise<ChatRunResult> {
    const { signal = lease.signal } = this.#options;
    const signals = { signal: AbortSignal.any([signal, lease.signal]) };
    return openOutcome(await this.#holdIn(session, await this.#load(session, { rounds: undefined }), signals));
  }

  /** What people are asked now. */
  async pending(): Promise<ChatRequest[]> {
    return this.#answers.pending(this.#place);
  }

  /** Answers a request, for whoever resumes the conversation, here or elsewhere. Of several answers the first is taken. */
  async answer(given: Omit<GivenAnswer, 'sessionId' | 'branch'>): Promise<RequestAnswer> {
    return this.#answers.give({ ...given, ...this.#place });
  }

  get #answers(): ChatAnswers {
    return new ChatAnswers(this.#options.checkpoints);
  }

  get #place() {
    const { sessionId, branch } = this.#options;
    return { sessionId, ...(branch !== undefined && { branch }) };
  }

  #begin(problem: string, initiator: string, rounds: number | undefined): Prepared {
    const { stage, messages } = this.chat.record;
    if (problem.trim() === '') throw new InvalidInputError('The problem is empty. Say what the group is to do.');
    if (stage !== 'new') {
      throw new InvalidInputError(
        `This group has a conversation already, with ${messages.length} messages. Make a new group for a new session.`,
        { details: { messages: messages.length } },
      );
    }
    this.chat.change({ problem, initiator });
    if (rounds !== undefined) this.chat.reopen({ rounds });
    return { facts: this.#made.facts };
  }

  async #load({ id, head, state }: Session, { rounds, ...deciding }: Loading): Promise<Resumed> {
    if (head === undefined) {
      throw new NotFoundError(`Session "${id}" has no conversation yet. Use run() to begin one.`, {
        details: { sessionId: id },
      });
    }
    const isGiven = (path: string): boolean => rounds !== undefined && path === '$.settings.maxRounds';
    const decision = decide({ ...this.#options, ...deciding });
    const made = { ...this.#made, team: this.chat, checkpoints: this.#options.checkpoints };
    return resumeTeam(CHAT, made, { head, state, isGiven, decision });
  }

  async #hold(
    answers: Pick<ChatRunOptions, 'answers'>,
    prepare: (session: Session) => Promise<Prepared>,
  ): Promise<ChatRunResult> {
    const { checkpoints, sessionId, branch, mode } = this.#options;
    const place = { sessionId, branch, ...(mode !== undefined && { mode }) };
    return withSeat(checkpoints, place, async (session) => this.#holdIn(session, await prepare(session), answers));
  }

  async #holdIn(
    session: Session,
    prepared: Prepared,
    more: Pick<ChatRunOptions, 'answers' | 'signal'>,
  ): Promise<ChatRunResult> {
    const { chat, checkpoints, sessionId, branch: _, mode: __, logs, checkpointFiles, ...options } = this.#options;
    const files = await openSessionFiles({ checkpoints, sessionId }, { logs, checkpointFiles });
    // a killed run may have left the head without files
    if (session.head !== undefined) await files?.add(session.head, describeConversation(chat));
    return holdChat(chat, { checkpoints, session, files, ...prepared }, { ...options, ...more });
  }
}
