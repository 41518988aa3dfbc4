import type { Checkpoint } from '../../core/checkpoint.ts';
import type { AgentState } from '../agent/agent-state.ts';
import type { ChatState } from '../chat/chat-state.ts';

/** What `checkpoints_metadata.json` says of one checkpoint. */
export type MetadataEntry = {
  readonly checkpoint_id: string;
  readonly file: string;
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

/** Where a checkpoint's file lies in the folder of its session. */
export function pathOf(file: string): string {
  return `checkpoints/${file}`;
}

/** One line of `checkpoints_metadata.json`. */
export function describeEntry(checkpoint: Checkpoint, file: string): MetadataEntry {
  const metadata = (checkpoint.metadata ?? {}) as Record<string, unknown>;
  return {
    checkpoint_id: checkpoint.id,
    file: pathOf(file),
    trigger: checkpoint.trigger ?? null,
    time: toTime(checkpoint),
    round: metadata.round ?? null,
    speaker: metadata.speaker ?? null,
    end_reason: metadata.endReason ?? null,
    signal: metadata.signal ?? null,
  };
}

/** The form of `chat_history.json`. */
export function describeConversation(sessionId: string, { chat }: ChatState): Record<string, unknown> {
  return {
    session_id: sessionId,
    problem: chat.problem,
    rounds: chat.round,
    messages: chat.messages.map(({ name, content, code, edited }, index) => ({
      index,
      role: name === chat.initiator ? 'user' : 'assistant',
      name,
      content,
      ...(code !== undefined && { code }),
      ...(edited !== undefined && { edited }),
    })),
    end: chat.end,
  };
}

/** The form of `session_metadata.json`: models, tools and settings, as they are now. */
export function describeSession(checkpoint: Checkpoint, { chat, agents, order }: ChatState): Record<string, unknown> {
  return {
    session_id: checkpoint.sessionId,
    branch: checkpoint.branch,
    last_checkpoint_id: checkpoint.id,
    runtime: chat.settings,
    termination: chat.end,
    agents: order.flatMap((name) => agents[name] ?? []).map(describeAgent),
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
