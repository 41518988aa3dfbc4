import type { ModelMessage } from '../model/chat-model.ts';
import type { ChatMessage } from './chat-message.ts';
import type { ToolOutcome } from './tool.ts';

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
    return [{ callId, tool, outcome: readOutcome(output as ToolOutput), round }];
  });
}

/** As the AI SDK declares it. */
type ToolOutput = { readonly type: string; readonly value?: unknown };

function readOutcome(output: ToolOutput): ToolOutcome {
  const text = typeof output.value === 'string' ? output.value : (JSON.stringify(output.value) ?? '');
  return { isError: output.type.startsWith('error'), text };
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
