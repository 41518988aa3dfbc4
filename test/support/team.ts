import { z } from 'zod';
import { AgentRegistry } from '../../src/runtime/agent/agent-registry.ts';
import { StandardAgent } from '../../src/runtime/agent/standard-agent.ts';
import { defineTool, type Tool } from '../../src/runtime/agent/tool.ts';
import { GroupChat, type GroupChatOptions } from '../../src/runtime/chat/group-chat.ts';
import type { ModelRequest } from '../../src/runtime/model/chat-model.ts';
import type { Script } from '../../src/testing/model/scripted-answer.ts';
import { type ScriptedModel, scriptedModel } from '../../src/testing/model/scripted-model.ts';

/** Keeps a number, so that a restore of subclasses shows. */
export class CountingAgent extends StandardAgent {
  #heard = 0;

  override receive(...args: Parameters<StandardAgent['receive']>): void {
    this.#heard++;
    super.receive(...args);
  }

  override saveState() {
    return { ...super.saveState(), custom: { heard: this.#heard } };
  }

  override loadState(state: unknown) {
    const problems = super.loadState(state);
    this.#heard = (state as { custom: { heard: number } }).custom.heard;
    return problems;
  }
}

export type Team = {
  readonly chat: GroupChat;
  readonly registry: AgentRegistry;
  readonly model: ScriptedModel;
  /** What the tool was called with. */
  readonly calls: number[];
};

/** A tool that counts its calls. */
export function countingTool(onCall: (n: number) => void): Tool {
  return defineTool({
    name: 'square',
    description: 'Squares a number.',
    input: z.object({ n: z.number() }),
    run: ({ n }) => {
      onCall(n);
      return n * n;
    },
  });
}

/**
 * A scripted reply that depends on the request alone, so that it is the same in every process: the solver squares the number of messages
 * with its tool and says the result, the critic says how many messages there were.
 */
export function answerOf({ system = '', messages }: ModelRequest) {
  const last = messages.at(-1);
  if (last?.role === 'tool') return `The square is ${JSON.stringify(last.content).match(/"value":"(\d+)"/)?.[1]}.`;
  if (system.startsWith('You solve'))
    return { toolCalls: [{ id: `call_${messages.length}`, name: 'square', input: { n: messages.length } }] };
  return `I have seen ${messages.length} messages.`;
}

/** Code that both a new and a restored team need. */
export function createRegistry(
  onCall: (n: number) => void,
  script: Script<ModelRequest> = answerOf,
): { registry: AgentRegistry; model: ScriptedModel } {
  const model = scriptedModel(script, { id: 'scripted-team' });
  const registry = new AgentRegistry({
    tools: [countingTool(onCall)],
    models: { 'scripted-team': model },
    agents: {
      CountingAgent: ({ name, tools }) =>
        new CountingAgent({ name, tools: Object.keys(tools).flatMap((tool) => registry.tool(tool) ?? []) }),
    },
  });
  return { registry, model };
}

/** A solver with a tool and a critic that counts, who speak in turn. */
export function createTeam(options: Partial<GroupChatOptions> = {}, script?: Script<ModelRequest>): Team {
  const calls: number[] = [];
  const { registry, model } = createRegistry((n) => calls.push(n), script);
  const tool = registry.tool('square');
  const agents = [
    new StandardAgent({ name: 'solver', systemMessage: 'You solve problems.', model, tools: tool ? [tool] : [] }),
    new CountingAgent({ name: 'critic', systemMessage: 'You check solutions.', model, maxConsecutiveAutoReplies: 100 }),
  ];
  const chat = new GroupChat({
    agents,
    registry,
    speakerSelection: 'round_robin',
    sendIntroductions: true,
    maxRounds: 10,
    ...options,
  });
  return { chat, registry, model, calls };
}
