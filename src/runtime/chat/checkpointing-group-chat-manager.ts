import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { parseName } from '../../core/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { EffectMode } from '../../manager/effect-log.ts';
import type { Session } from '../../manager/session.ts';
import { PERSON } from '../agent/chat-message.ts';
import { parseRunMemory } from '../agent/run-memory.ts';
import { type FilesOptions, openSessionFiles } from '../run/files/session-files.ts';
import { withSeat } from '../run/seat.ts';
import { type ChatRunOptions, type ChatRunResult, describeConversation, holdChat } from './chat-run.ts';
import type { GroupChat } from './group-chat.ts';

/** What a group is held with. */
export type GroupChatManagerOptions = ChatRunOptions & {
  readonly chat: GroupChat;
  readonly checkpoints: CheckpointManager;
  readonly sessionId: string;
  readonly branch?: string;
  readonly mode?: EffectMode;
} & FilesOptions;

/** Holds a group chat and checkpoints it at every message, so that it can be resumed, continued and forked from any of them. */
export class CheckpointingGroupChatManager {
  readonly #options: GroupChatManagerOptions;

  constructor(options: GroupChatManagerOptions) {
    parseRunMemory(options.memory, options.userId);
    this.#options = options;
  }

  get chat(): GroupChat {
    return this.#options.chat;
  }

  /** Begins the conversation with a problem. The session must be new. */
  async run(problem: {
    readonly message: string;
    readonly initiator?: string;
    readonly rounds?: number;
  }): Promise<ChatRunResult> {
    const initiator = parseName(problem.initiator ?? PERSON, 'The initiator');
    return this.#hold((session) => {
      if (session.head !== undefined) {
        throw new InvalidInputError(
          `Session "${session.id}" has a conversation already, at ${session.head.id}. Use resume() to go on with it, or another session.`,
          { details: { sessionId: session.id, headId: session.head.id } },
        );
      }
      this.#begin(problem.message, initiator);
      if (problem.rounds !== undefined) this.chat.reopen({ rounds: problem.rounds });
    });
  }

  /** Goes on where the session was left: after a crash, a stop, a failure, or with the answer it waited for. */
  async resume(): Promise<ChatRunResult> {
    return this.#hold((session) => this.#load(session));
  }

  /** Says something as the person, and lets the conversation go on from it; begins it if the session is new. */
  async prompt(message: string, { rounds }: { readonly rounds: number }): Promise<ChatRunResult> {
    return this.#hold((session) => {
      const { chat } = this.#options;
      if (session.head === undefined) {
        this.#begin(message, PERSON);
        chat.reopen({ rounds });
        return;
      }
      this.#load(session);
      chat.prompt(message, rounds);
    });
  }

  #begin(problem: string, initiator: string): void {
    const { stage, messages } = this.chat.record;
    if (problem.trim() === '') throw new InvalidInputError('The problem is empty. Say what the group is to do.');
    if (stage !== 'new') {
      throw new InvalidInputError(
        `This group has a conversation already, with ${messages.length} messages. Make a new group for a new session.`,
        { details: { messages: messages.length } },
      );
    }
    this.chat.change({ problem, initiator });
  }

  #load(session: Session): void {
    if (session.head === undefined) {
      throw new NotFoundError(`Session "${session.id}" has no conversation yet. Use run() to begin one.`, {
        details: { sessionId: session.id },
      });
    }
    const problems = this.#options.chat.loadState(session.state);
    if (problems.length === 0) return;
    throw new InvalidInputError(
      `The conversation cannot be resumed as it was: ${problems.map(({ problem }) => problem).join(' ')}`,
      { details: { problems } },
    );
  }

  async #hold(prepare: (session: Session) => void): Promise<ChatRunResult> {
    const { chat, checkpoints, sessionId, branch, mode, logs, checkpointFiles, ...options } = this.#options;
    return withSeat(checkpoints, { sessionId, branch, ...(mode !== undefined && { mode }) }, async (session) => {
      prepare(session);
      const files = await openSessionFiles({ checkpoints, sessionId }, { logs, checkpointFiles });
      // a killed run may have left the head without files
      if (session.head !== undefined) await files?.add(session.head, describeConversation(chat));
      return holdChat(chat, session, { ...options, files });
    });
  }
}
