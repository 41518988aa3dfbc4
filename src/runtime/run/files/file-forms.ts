import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import type { AgentState } from '../../agent/agent-state.ts';
import { type ChatMessage, findToolCalls } from '../../agent/chat-message.ts';

/** A conversation as its files tell of it. */
export type Conversation = {
  readonly problem: string;
  /** Who stated the problem. */
  readonly initiator: string;
  readonly round: number;
  readonly messages: readonly ChatMessage[];
  readonly settings: unknown;
  readonly end: unknown;
  readonly agents: readonly AgentState[];
};

/** What `checkpoints_metadata.json` says of one checkpoint. */
export type MetadataEntry = {
  readonly checkpoint_id: string;
  /** Null if only the storage holds it. */
  readonly file: string | null;
  readonly trigger: string | null;
  readonly time: string;
  readonly round: unknown;
  readonly speaker: unknown;
  readonly end_reason: unknown;
  readonly signal: unknown;
};

/** When a checkpoint was saved, for people. */
export function toTime({ header }: Checkpoint): string {
  return new Date(header.timestampMs).toISOString();
}

/** One line of `checkpoints_metadata.json`. */
export function describeEntry(checkpoint: Checkpoint, file: string | null): MetadataEntry {
  const metadata = metadataOf(checkpoint);
  return {
    checkpoint_id: checkpoint.id,
    file,
    trigger: checkpoint.trigger ?? null,
    time: toTime(checkpoint),
    round: metadata.round ?? null,
    speaker: metadata.speaker ?? null,
    end_reason: metadata.endReason ?? null,
    signal: metadata.signal ?? null,
  };
}

/** One message of `chat_history.json`. */
export function describeMessage(message: ChatMessage, index: number, initiator: string): Record<string, unknown> {
  const { name, content, code, edited } = message;
  const calls = findToolCalls(message);
  return {
    index,
    role: name === initiator ? 'user' : 'assistant',
    name,
    content,
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(code !== undefined && { code }),
    ...(edited !== undefined && { edited }),
  };
}

/** The form of `session_metadata.json`: models, tools and settings, as they are now. */
export function describeSession(checkpoint: Checkpoint, { settings, end, agents }: Conversation) {
  return {
    session_id: checkpoint.sessionId,
    branch: checkpoint.branch,
    last_checkpoint_id: checkpoint.id,
    runtime: settings,
    termination: end,
    agents: agents.map(describeAgent),
  };
}

function describeAgent(agent: AgentState): Record<string, unknown> {
  return {
    name: agent.name,
    class: agent.agentType,
    model: agent.llmConfig ?? agent.modelId,
    tools: Object.keys(agent.tools),
    human_input_mode: agent.humanInputMode,
    code_execution: agent.codeExecution,
    totals: agent.totals,
  };
}

/** The message that a checkpoint was saved for, if it was saved for one. */
export function messageOf(checkpoint: Checkpoint, { messages }: Conversation): ChatMessage | undefined {
  const count = metadataOf(checkpoint).messages;
  return checkpoint.trigger === 'message_appended' && typeof count === 'number' ? messages[count - 1] : undefined;
}

/** What `console.log` says of a checkpoint: what it was saved for, and before that the tools that were called for it. */
export function formatLines(checkpoint: Checkpoint, said: ChatMessage | undefined): string {
  const { trigger, contextSummary = '' } = checkpoint;
  const time = toTime(checkpoint);
  const calls = said === undefined ? [] : findToolCalls(said);
  const lines = [
    ...calls.map(({ name, input, result }) => `${time} tool_call ${name}(${JSON.stringify(input)}): ${result}`),
    `${time} ${trigger} ${contextSummary}`,
  ];
  return lines.map((line) => `${line.replaceAll('\n', ' ').trimEnd()}\n`).join('');
}

function metadataOf({ metadata }: Checkpoint): Record<string, unknown> {
  return (metadata ?? {}) as Record<string, unknown>;
}
