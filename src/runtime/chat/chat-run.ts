import type { Checkpoint } from '../../core/checkpoint.ts';
import { hasErrorCode } from '../../core/errors.ts';
import type { CheckpointId } from '../../core/id.ts';
import type { SaveOptions } from '../../manager/save-options.ts';
import type { Session } from '../../manager/session.ts';
import type { AgentTotals } from '../agent/agent-state.ts';
import type { ChatMessage } from '../agent/chat-message.ts';
import type { AskHuman } from '../agent/human.ts';
import { SessionEffects } from '../effect/effects.ts';
import type { ChatEnd } from './chat-end.ts';
import { fingerprintChat } from './chat-fingerprint.ts';
import { ChatLoop, type ChatStop, type ChatTrigger } from './chat-loop.ts';
import type { GroupChat } from './group-chat.ts';

/** What a run may use besides its conversation. */
export type ChatRunOptions = {
  readonly userId?: string;
  /** Asks the people behind agents. Without it, or without an answer, the run stops and waits. */
  readonly ask?: AskHuman;
  /** Answers to questions that an earlier run left pending, by the question's id. */
  readonly answers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly onText?: (speaker: string, delta: string) => void;
  readonly onMessage?: (message: ChatMessage) => void;
  /** Called when a checkpoint is durable. */
  readonly onCheckpoint?: (checkpoint: Checkpoint, chat: GroupChat) => void | Promise<void>;
  /** Said of every checkpoint of the run. */
  readonly metadata?: Readonly<Record<string, unknown>>;
};

/** Writes the files of a session beside its checkpoints. */
export type RunFiles = {
  readonly folder: string;
  readonly problems: readonly unknown[];
  add(checkpoint: Checkpoint): Promise<void>;
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
  session: Session,
  options: ChatRunOptions & { readonly files?: RunFiles | undefined } = {},
): Promise<ChatRunResult> {
  const before = chat.messages.length;
  const failedSaves: unknown[] = [];
  const { ask, answers, signal, onText, onMessage, files } = options;
  const loop = new ChatLoop(chat, {
    effects: new SessionEffects(session),
    save: async (trigger, facts) => {
      try {
        await session.save(chat.saveState(), describeSave(chat, { trigger, ...facts }, options));
      } catch (error) {
        // The disk may be back at the next message; whoever lost the branch must stop.
        if (!hasErrorCode(error, 'STORAGE')) throw error;
        failedSaves.push(error);
        return;
      }
      if (session.head !== undefined) {
        await files?.add(session.head);
        await options.onCheckpoint?.(session.head, chat);
      }
    },
    ask,
    answers,
    signal,
    onText,
    onMessage,
  });
  const stop = await loop.run();
  await files?.finish({ ...stop, failedSaves });
  return {
    ...stop,
    sessionId: session.id,
    branch: session.branch,
    checkpointId: session.head?.id,
    messages: chat.messages,
    newMessages: chat.messages.length - before,
    totals: chat.totals,
    failedSaves,
    folder: files?.folder,
    fileProblems: files?.problems ?? [],
  };
}

type SaveFacts = { readonly trigger: ChatTrigger; readonly end?: ChatEnd; readonly error?: unknown };

const STATUS: Readonly<Record<ChatTrigger, string>> = {
  conversation_start: 'initializing',
  message_appended: 'running',
  speaker_reply_generated: 'running',
  waiting_for_input: 'waiting_for_input',
  run_failed: 'error',
  conversation_end: 'completed',
};

const SUMMARY_CHARS = 200;

function describeSave(chat: GroupChat, { trigger, end, error }: SaveFacts, options: ChatRunOptions): SaveOptions {
  return {
    type: trigger === 'run_failed' ? 'recovery' : 'auto',
    trigger,
    status: STATUS[trigger],
    ...(options.userId !== undefined && { userId: options.userId }),
    ...(error !== undefined && { reason: error instanceof Error ? error.message : String(error) }),
    ...summarise(chat),
    fingerprint: fingerprintChat(chat.saveState()),
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
