import type { MessageEdit } from '../../manager/branch/message-copies.ts';
import type { CodeResult } from '../code/code-executor.ts';
import type { ModelMessage } from '../model/chat-model.ts';
import type { ToolOutcome } from './tool.ts';

/** One message of a conversation, as everybody in it may see it. */
export type ChatMessage = {
  /** Who said it. */
  readonly name: string;
  readonly content: string;
  /** The speaker's own turn as its model needs it back, verbatim: tool calls, results, and what providers put on them. */
  readonly turn?: readonly ModelMessage[];
  /** What code the speaker ran, and what came of it. */
  readonly code?: readonly CodeResult[];
  /** Set if someone changed the message afterwards. */
  readonly edited?: MessageEdit;
};

/** Whoever has this name is the person at the other end: models see the words without a name before them. */
export const PERSON = 'user';

/** A conversation as the model of one of its speakers is told of it. */
export function toModelMessages(history: readonly ChatMessage[], self: string): readonly ModelMessage[] {
  return history.flatMap(({ name, content, turn }): readonly ModelMessage[] => {
    if (name === self) return turn ?? [{ role: 'assistant', content }];
    return [{ role: 'user', content: name === PERSON ? content : `${name}: ${content}` }];
  });
}

/** One answer of a tool in a speaker's turn. */
export type ToolResult = {
  readonly callId: string;
  readonly tool: string;
  readonly outcome: ToolOutcome;
  /** Which of the turn's rounds of calls it belongs to. */
  readonly round: number;
};

/** What the tools answered in the turn of a message, in order. */
export function findToolResults({ turn = [] }: ChatMessage): ToolResult[] {
  return turn.filter(({ role }) => role === 'tool').flatMap(readRound);
}

function readRound({ content }: ModelMessage, round: number): ToolResult[] {
  if (typeof content === 'string') return [];
  return content.flatMap((part) => {
    if (part.type !== 'tool-result') return [];
    const { toolCallId: callId = '', toolName: tool = '', output } = part;
    const { type, value } = output as { readonly type: string; readonly value?: unknown }; // as the AI SDK declares it
    const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
    return [{ callId, tool, outcome: { isError: type.startsWith('error'), text }, round }];
  });
}

/** A tool that was called in the turn of a message, for people to read. */
export type ToolCallNote = {
  readonly name: string;
  readonly input: unknown;
  readonly result: string;
  readonly is_error?: true;
};

/** The tools that were called in the turn of a message, with what they answered, in order. */
export function findToolCalls(message: ChatMessage): ToolCallNote[] {
  const results = new Map(findToolResults(message).map(({ callId, outcome }) => [callId, outcome]));
  return (message.turn ?? []).flatMap(({ role, content }) => {
    if (role !== 'assistant' || typeof content === 'string') return [];
    return content.flatMap((part) => {
      if (part.type !== 'tool-call') return [];
      const { toolCallId = '', toolName: name = '', input } = part;
      const { text: result = '', isError = false } = results.get(toolCallId) ?? {};
      return [{ name, input, result, ...(isError && { is_error: true as const }) }];
    });
  });
}
