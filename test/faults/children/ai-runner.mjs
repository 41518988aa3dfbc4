// Runs an agent of the AI SDK with durable settings, and says what its tools do. The parent kills it and starts another.
import { z } from 'zod';
import { durable } from '../../../dist/adapter/ai-sdk/index.js';
import { CheckpointManager } from '../../../dist/index.js';
import { openAnyStorage, say, told } from './common.mjs';

say({ ready: true });
const { storage: place, calls } = told();
const { ToolLoopAgent } = await import('ai');
const { MockLanguageModelV3 } = await import('ai/test');
const session = await new CheckpointManager({ storage: await openAnyStorage(place) }).session('run');
const tokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0, text: 1, reasoning: 0 };
const model = new MockLanguageModelV3({
  doGenerate: async ({ prompt }) => {
    const done = prompt.filter(({ role }) => role === 'tool').length;
    say({ asked: done });
    const call = { type: 'tool-call', toolCallId: `call-${done}`, toolName: 'pay', input: JSON.stringify({ n: done }) };
    return {
      content: [done < calls ? call : { type: 'text', text: 'All paid.' }],
      finishReason: { unified: done < calls ? 'tool-calls' : 'stop', raw: undefined },
      usage: { inputTokens: tokens, outputTokens: tokens },
      warnings: [],
    };
  },
});
const pay = {
  description: 'Pays a part.',
  inputSchema: z.object({ n: z.number() }),
  execute: async ({ n }, { idempotencyKey }) => {
    say({ paid: n, key: idempotencyKey });
    return `paid ${n}`;
  },
};
// The process before may have died between saving the end and saying so: asked again, that would be another run.
if (session.state?.status !== 'done')
  await new ToolLoopAgent(durable({ model, tools: { pay } }, session)).generate({ prompt: 'Pay all' });
say({ isDone: true });
