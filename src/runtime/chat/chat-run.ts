import { hasErrorCode, messageOf } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { SaveOptions } from '../../manager/engine/save-options.ts';
import type { Session } from '../../manager/session/session.ts';
import type { AgentTotals } from '../agent/agent-state.ts';
import { type ChatMessage, PERSON } from '../agent/chat-message.ts';
import { SessionEffects } from '../agent/effects.ts';
import type { AskHuman } from '../agent/human.ts';
import {
  createRecall,
  type Lesson,
  learn,
  type MemoryOption,
  parseRunMemory,
  type RunMemory,
  unsavedLessons,
} from '../agent/run-memory.ts';
import type { Difference } from '../run/differences.ts';
import type { Conversation } from '../run/files/file-forms.ts';
import type { RequestPlace } from '../run/request-answers.ts';
import { fingerprintOf, type TeamFacts } from '../run/team-facts.ts';
import { ChatAnswers } from './chat-answers.ts';
import type { ChatEnd } from './chat-end.ts';
import { ChatLoop, type ChatStop, type ChatTrigger, type ConversationAnswers } from './chat-loop.ts';
import type { ChatState } from './chat-state.ts';
import type { GroupChat } from './group-chat.ts';

/** What a run may use besides its conversation. */
export type ChatRunOptions = {
  readonly userId?: string;
  /** Asks the people behind agents. Without it, or without an answer, the run stops and waits. */
  readonly ask?: AskHuman;
  /** Answers to requests that an earlier run left pending, by their ids; an id that is not asked for is NOT_FOUND. */
  readonly answers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly onText?: (speaker: string, delta: string) => void;
  readonly onMessage?: (message: ChatMessage) => void;
  /** Called when a checkpoint is durable. */
  readonly onCheckpoint?: (checkpoint: Checkpoint, chat: GroupChat) => void | Promise<void>;
  /** Long-term memory: fills `{memory}` in prompts, and learns what people and agents with the `store` flag say. */
  readonly memory?: MemoryOption;
  /** Said of every checkpoint of the run. */
  readonly metadata?: Readonly<Record<string, unknown>>;
};

/** Writes the files of a session beside its checkpoints. */
export type RunFiles = {
  readonly folder: string;
  readonly problems: readonly unknown[];
  add(checkpoint: Checkpoint, conversation: Conversation): Promise<void>;
  finish(result: { readonly failedSaves: readonly unknown[]; readonly error?: unknown }): Promise<void>;
};

/** What came of a run. */
export type ChatRunResult = ChatStop & {
  readonly sessionId: string;
  readonly branch: string;
  /** The last checkpoint; undefined if none could be stored. */
  readonly checkpointId: CheckpointId | undefined;
  readonly messages: readonly ChatMessage[];
  /** How many of them this run appended. */
  readonly newMessages: number;
  readonly totals: AgentTotals;
  /** How the code differs from the checkpoint that the run went on from. */
  readonly differences: readonly Difference[];
  /** Saves that failed. The run went on: what it did is in the next checkpoint. */
  readonly failedSaves: readonly unknown[];
  /** The folder of the session's files; undefined if they are switched off. */
  readonly folder: string | undefined;
  /** Files that could not be written. */
  readonly fileProblems: readonly unknown[];
};

/** Holds a conversation in a session: every move is saved, every outside call recorded. */
export async function holdChat(
  chat: GroupChat,
  { checkpoints, session, ...hold }: ChatHold,
  given: ChatRunOptions = {},
): Promise<ChatRunResult> {
  const before = chat.messages.length;
  const options = { ...given, ...hold };
  const place = { sessionId: session.id, branch: session.branch };
  const answers = await openAnswers(new ChatAnswers(checkpoints), place, given);
  const said = withUser(options, session.head);
  const memory = parseRunMemory(options.memory, said.userId);
  const keeper = new ChatKeeper(chat, session, { ...said, memory });
  const { ask, signal, onText, onMessage, files } = options;
  const { failedSaves } = keeper;
  await keeper.remember(); // a killed run may have saved a message without learning it
  if (options.isChanged === true && chat.record.end === null) await keeper.save('conversation_continued');
  const stop = await new ChatLoop(chat, {
    effects: new SessionEffects(session),
    save: (trigger, facts) => keeper.save(trigger, facts),
    ask,
    answers,
    signal,
    onText,
    onMessage,
    recall: createRecall(memory, session, () => ({ task: chat.record.problem })),
  })
    .run()
    .catch(async (error: unknown) => {
      await files?.finish({ failedSaves, error });
      throw error;
    });
  await files?.finish({ ...stop, failedSaves });
  return {
    ...stop,
    ...place,
    checkpointId: session.head?.id,
    messages: chat.messages,
    newMessages: chat.messages.length - before,
    totals: chat.totals,
    differences: options.differences ?? [],
    failedSaves,
    folder: files?.folder,
    fileProblems: files?.problems ?? [],
  };
}

/** Leaves the answers that the run was given, and finds those that are left meanwhile. */
async function openAnswers(
  inbox: ChatAnswers,
  place: RequestPlace,
  { answers = {}, userId: by = PERSON }: ChatRunOptions,
): Promise<ConversationAnswers> {
  await inbox.giveAll(place, answers, by);
  return {
    read: async (requestId) => (await inbox.read(place, requestId))?.answer,
    give: async (requestId, answer) => (await inbox.giveOrRead({ ...place, requestId, answer, by })).answer,
  };
}

/** What is done with a user's conversation is the user's, too: it is listed and forgotten with the rest. */
function withUser(options: HoldOptions, head: Checkpoint | undefined): HoldOptions {
  const userId = options.userId ?? head?.userId;
  return userId === undefined ? options : { ...options, userId };
}

/** Where a conversation is held. */
export type ChatHold = {
  readonly checkpoints: CheckpointManager;
  readonly session: Session;
  readonly files?: RunFiles | undefined;
  /** The conversation is not what the head says: it is saved before anything is done, or a crash would take the change with it. */
  readonly isChanged?: boolean;
  /** The code that it runs with. */
  readonly facts: TeamFacts;
  readonly differences?: readonly Difference[];
};

type HoldOptions = ChatRunOptions & Omit<ChatHold, 'checkpoints' | 'session'>;

type KeeperOptions = Omit<HoldOptions, 'memory'> & { readonly memory: RunMemory | undefined };

/** Saves a conversation, and tells those who follow it: the files, the memory, the caller. */
class ChatKeeper {
  readonly failedSaves: unknown[] = [];
  readonly #chat: GroupChat;
  readonly #session: Session;
  readonly #options: KeeperOptions;
  /** The conversation between two moves, as it was last. */
  #settled: ChatState;
  /** Messages that long-term memory was told. */
  #taught: number;

  constructor(chat: GroupChat, session: Session, options: KeeperOptions) {
    this.#chat = chat;
    this.#session = session;
    this.#options = options;
    this.#settled = chat.saveState();
    this.#taught = chat.messages.length;
  }

  async save(trigger: ChatTrigger, facts: Omit<SaveFacts, 'trigger'> = {}): Promise<void> {
    try {
      const described = describeSave(this.#chat, { trigger, ...facts }, this.#options);
      if (MID_MOVE.has(trigger)) await this.#session.save(this.#beforeMove(), { ...described, effects: 'of_parent' });
      else await this.#session.save(this.#settle(), described);
    } catch (error) {
      // The disk may be back at the next message; whoever lost the branch must stop.
      if (!hasErrorCode(error, 'STORAGE')) throw error;
      this.failedSaves.push(error);
      return;
    }
    await this.#tell();
  }

  #settle(): ChatState {
    this.#settled = this.#chat.saveState();
    return this.#settled;
  }

  /** A move that was cut short begins again, with what it had recorded; only the question it waits for is new. */
  #beforeMove(): ChatState {
    const { pendingInput } = this.#chat.record;
    return { ...this.#settled, chat: { ...this.#settled.chat, pendingInput } };
  }

  async #tell(): Promise<void> {
    const { head } = this.#session;
    if (head === undefined) return;
    await this.#options.files?.add(head, describeConversation(this.#chat));
    await this.#teach(this.#lessons(this.#taught), head);
    this.#taught = this.#settled.chat.messages.length;
    await this.#options.onCheckpoint?.(head, this.#chat);
  }

  /** Lets long-term memory learn what the head was saved with, if a killed run did not. */
  async remember(): Promise<void> {
    const { head, branch } = this.#session;
    const isForMessage = head?.trigger === 'message_appended';
    if (head?.branch !== branch || (!isForMessage && head.trigger !== 'conversation_end')) return;
    await this.#teach(unsavedLessons(this.#lessons(0), isForMessage), head);
  }

  /** What the settled conversation holds from a message on. */
  #lessons(from: number): Lesson[] {
    if (this.#options.memory === undefined) return [];
    const messages = this.#settled.chat.messages.slice(from);
    return messages.map((message) => ({ message, speaker: this.#chat.agent(message.name)?.saveState() }));
  }

  async #teach(lessons: readonly Lesson[], head: Checkpoint): Promise<void> {
    const { memory } = this.#options;
    if (memory === undefined) return;
    await learn(memory, lessons, head).catch((error: unknown) => this.failedSaves.push(error));
  }
}

/** A conversation as its files tell of it. */
export function describeConversation({ record, agents }: GroupChat): Conversation {
  return { ...record, agents: agents.map((agent) => agent.saveState()) };
}

type SaveFacts = { readonly trigger: ChatTrigger; readonly end?: ChatEnd; readonly error?: unknown };

const STATUS: Readonly<Record<ChatTrigger, string>> = {
  conversation_start: 'initializing',
  conversation_continued: 'running',
  message_appended: 'running',
  speaker_reply_generated: 'running',
  waiting_for_input: 'waiting_for_input',
  run_failed: 'error',
  conversation_end: 'completed',
};

/** Saved in the middle of a move. */
const MID_MOVE: ReadonlySet<ChatTrigger> = new Set(['waiting_for_input', 'run_failed']);

const SUMMARY_CHARS = 200;
/** The whole error is in the result and the error log; a header is read for every list entry. */
const REASON_CHARS = 2000;

function describeSave(
  chat: GroupChat,
  { trigger, end, error }: SaveFacts,
  options: Omit<KeeperOptions, 'memory'>,
): SaveOptions {
  return {
    type: trigger === 'run_failed' ? 'recovery' : 'auto',
    trigger,
    status: STATUS[trigger],
    ...(options.userId !== undefined && { userId: options.userId }),
    ...(error !== undefined && { reason: messageOf(error).slice(0, REASON_CHARS) }),
    ...summarise(chat),
    fingerprint: fingerprintOf(options.facts, chat.saveState()),
    metadata: { ...options.metadata, ...describePlace(chat), ...(end !== undefined && describeEnd(end)) },
  };
}

function summarise({ record }: GroupChat): { contextSummary?: string } {
  const last = record.pendingReply?.message ?? record.messages.at(-1);
  return last === undefined ? {} : { contextSummary: `${last.name}: ${last.content}`.slice(0, SUMMARY_CHARS) };
}

/** Where in the conversation a checkpoint stands, for lists. */
function describePlace({ record }: GroupChat): Record<string, unknown> {
  const { round, messages, pendingReply, lastSpeaker } = record;
  return { round, messages: messages.length, speaker: pendingReply?.speaker ?? lastSpeaker };
}

function describeEnd({ reason, signal }: ChatEnd): Record<string, unknown> {
  return { endReason: reason, ...(signal !== undefined && { signal }) };
}
