import { digestText } from '../../core/chunk.ts';
import type { AgentState } from '../agent/agent-state.ts';
import type { ChatState } from './chat-state.ts';

/** What must be the same for a continuation to be one: prompts, models and tools, each by a short digest. */
export type ChatFingerprint = Readonly<Record<string, AgentFingerprint>>;

type AgentFingerprint = {
  /** Absent if it does not matter. */
  readonly prompt?: string;
  readonly model?: string;
  readonly tools: Readonly<Record<string, string>>;
};

/** The fingerprint of a conversation's agents. */
export function fingerprintChat({ agents }: Pick<ChatState, 'agents'>): ChatFingerprint {
  return Object.fromEntries(Object.entries(agents).map(([name, agent]) => [name, fingerprintAgent(agent)]));
}

function fingerprintAgent({ systemMessage, description, llmConfig, modelId, tools }: AgentState): AgentFingerprint {
  return {
    prompt: shortDigest([systemMessage, description]),
    model: modelId ?? shortDigest(llmConfig),
    tools,
  };
}

function shortDigest(value: unknown): string {
  return digestText(JSON.stringify(value)).slice(0, 16);
}

/** A fingerprint without the parts that are changed on purpose. */
export function withoutOverridden(
  fingerprint: ChatFingerprint,
  overrides: Readonly<Record<string, Partial<AgentState>>> = {},
): ChatFingerprint {
  const entries = Object.entries(fingerprint).map(([name, { prompt, model, tools }]) => {
    const { systemMessage, llmConfig, modelId } = overrides[name] ?? {};
    const isOtherModel = llmConfig !== undefined || modelId !== undefined;
    return [
      name,
      {
        tools,
        ...(systemMessage === undefined && prompt !== undefined && { prompt }),
        ...(!isOtherModel && model !== undefined && { model }),
      },
    ];
  });
  return Object.fromEntries(entries);
}

/** In words, how two fingerprints differ; empty if they do not. */
export function compareFingerprints(before: ChatFingerprint, after: ChatFingerprint): string[] {
  return Object.entries(before).flatMap(([name, then]) => {
    const now = after[name];
    return now === undefined ? [`The agent "${name}" is gone.`] : compareAgents(name, then, now);
  });
}

function compareAgents(name: string, before: AgentFingerprint, after: AgentFingerprint): string[] {
  const tools = new Set([...Object.keys(before.tools), ...Object.keys(after.tools)]);
  return [
    ...(isSame(before.prompt, after.prompt) ? [] : [`The prompt of "${name}" changed, or had secrets in it.`]),
    ...(isSame(before.model, after.model) ? [] : [`The model of "${name}" changed.`]),
    ...[...tools]
      .filter((tool) => before.tools[tool] !== after.tools[tool])
      .map((tool) => `The tool "${tool}" of "${name}" changed.`),
  ];
}

function isSame(before: string | undefined, after: string | undefined): boolean {
  return before === undefined || before === after;
}
