export type { AgentOverride, StandardAgentOptions } from './agent/agent-options.ts';
export type { AgentMaker, AgentRegistryOptions, EndPredicate, SpeakerSelector } from './agent/agent-registry.ts';
export { AgentRegistry } from './agent/agent-registry.ts';
export type { AgentState, AgentTotals } from './agent/agent-state.ts';
export type { AgentStatus } from './agent/agent-status.ts';
export type { ChatMessage } from './agent/chat-message.ts';
export type { AskHuman, HumanInputMode, HumanRequest } from './agent/human.ts';
export type { HeardMessage, ReplyContext, ReplyOptions, ReplyOutcome } from './agent/reply.ts';
export { StandardAgent } from './agent/standard-agent.ts';
export type { Tool, ToolContext } from './agent/tool.ts';
export { defineTool } from './agent/tool.ts';
export type { ChatEnd, EndReason, EndRules } from './chat/chat-end.ts';
export type { ChatRunOptions, ChatRunResult } from './chat/chat-run.ts';
export type { ChatRecord, ChatSettings, ChatState, SpeakerSelection } from './chat/chat-state.ts';
export type {
  ContinueOptions,
  ContinueResult,
  RestoreChatOptions,
  RestoredChat,
} from './chat/checkpoint-restorer.ts';
export { CheckpointRestorer } from './chat/checkpoint-restorer.ts';
export type { GroupChatManagerOptions, ResumeChatOptions } from './chat/checkpointing-group-chat-manager.ts';
export { CheckpointingGroupChatManager } from './chat/checkpointing-group-chat-manager.ts';
export type { GroupChatOptions } from './chat/group-chat.ts';
export { GroupChat } from './chat/group-chat.ts';
export type { CodeBlock, CodeExecutionConfig, CodeExecutor, CodeResult } from './code/code-executor.ts';
export { LocalCodeExecutor } from './code/local-code-executor.ts';
export { buildModel } from './model/build-model.ts';
export type {
  CallOptions,
  ChatModel,
  ModelMessage,
  ModelReply,
  ModelRequest,
  ModelSettings,
  ModelUsage,
  ToolCall,
  ToolSpec,
} from './model/chat-model.ts';
export { fromLanguageModel } from './model/from-language-model.ts';
export type { LlmConfig } from './model/llm-config.ts';
export { parseLlmConfig } from './model/llm-config.ts';
export type { ModelPrices } from './model/prices.ts';
export type { RetryPolicy } from './model/with-retries.ts';
export { withRetries } from './model/with-retries.ts';
export type { Difference, DifferenceOptions, DifferenceReport, OnDifference } from './run/differences.ts';
export type { CheckpointSource } from './run/team-restorer.ts';
