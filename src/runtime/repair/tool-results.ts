import type { ChatMessage } from '../agent/chat-message.ts';
import type { ToolOutcome } from '../agent/tool.ts';
import type { ModelMessage } from '../model/chat-model.ts';

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
    return [{ callId: part.toolCallId, tool: part.toolName, outcome: readOutcome(part.output), round }];
  });
}

function readOutcome(output: { readonly type: string; readonly value?: unknown }): ToolOutcome {
  const text = typeof output.value === 'string' ? output.value : (JSON.stringify(output.value) ?? '');
  return { isError: output.type.startsWith('error'), text };
}
