import { expect, test } from 'vitest';
import { countingTool } from '../../../test/support/team.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { startModelServer } from '../../testing/model/model-server.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import type { LlmConfig } from '../model/llm-config.ts';
import { CheckpointRestorer } from './checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from './checkpointing-group-chat-manager.ts';
import { GroupChat } from './group-chat.ts';

const KEY = 'sk-this-must-never-be-stored-0123456789';

test.each<[string, (url: string) => LlmConfig, Record<string, string>]>([
  ['OpenAI', (baseUrl) => ({ provider: 'openai', model: 'gpt-x', baseUrl }), { OPENAI_API_KEY: KEY }],
  [
    'Azure',
    (baseUrl) => ({ provider: 'azure', model: 'gpt-x', baseUrl: baseUrl.replace(/\/v1$/, '/openai') }),
    { AZURE_OPENAI_API_KEY: KEY },
  ],
  ['a compatible server', (baseUrl) => ({ provider: 'vllm', model: 'llama', baseUrl }), {}],
])('[model.8] a conversation with %s streams, calls tools, and stores no key', async (_, configure, env) => {
  const calls: number[] = [];
  await using server = await startModelServer({
    answer: [{ toolCalls: [{ name: 'square', input: { n: 12 } }] }, 'It is 144. TERMINATE', 'Again. TERMINATE'],
  });
  const tool = countingTool((n) => calls.push(n));
  const registry = new AgentRegistry({ tools: [tool], env });
  const llmConfig = { ...configure(server.url), temperature: 0.5 };
  const agents = [new StandardAgent({ name: 'ann', llmConfig, tools: [tool] })];
  const chat = new GroupChat({ agents, registry, allowRepeatSpeaker: true });
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  let streamed = '';
  const team = new CheckpointingGroupChatManager({
    chat,
    manager,
    sessionId: 'team',
    logs: false,
    onText: (speaker, delta) => {
      streamed += speaker === 'ann' ? delta : '';
    },
  });
  const result = await team.run({ message: 'Square 12.' });
  expect(result).toMatchObject({
    status: 'ended',
    end: { signal: 'TERMINATE' },
    totals: { modelCalls: 2, toolCalls: 1 },
  });
  expect([streamed, calls]).toEqual(['It is 144. TERMINATE', [12]]);
  expect(result.totals.inputTokens).toBeGreaterThan(0);
  let exported = '';
  for await (const line of manager.exportSession('team')) exported += line;
  expect(exported).not.toContain(KEY);
  const restorer = new CheckpointRestorer({ manager, registry: new AgentRegistry({ tools: [tool], env }) });
  const more = await restorer.continue(result.checkpointId ?? '', { rounds: 1, stripSignal: true, logs: false });
  expect(more).toMatchObject({ newMessages: 1, end: { signal: 'TERMINATE' } });
});
