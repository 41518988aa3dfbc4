// One process of the example: node worker.mjs <database>
import { ToolLoopAgent, tool } from 'ai';
import { MockLanguageModelV3 } from 'ai/test';
import { CheckpointManager, SqliteCheckpointStorage } from 'savestate';
import { durable } from 'savestate/ai-sdk';
import { z } from 'zod';

const [path] = process.argv.slice(2);
const storage = new SqliteCheckpointStorage({ path });
const isFirst = (await storage.listSessions({ limit: 1 })).length === 0;
const session = await new CheckpointManager({ storage }).session('order-1042');

const finish = (unified) => ({
  type: 'finish',
  finishReason: { unified, raw: undefined },
  usage: {
    inputTokens: { total: 9, noCache: 9, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 9, text: 9, reasoning: 0 },
  },
});

/** Answers by what was said so far; in the first process its second answer stops in the middle. */
const model = new MockLanguageModelV3({
  doStream: async ({ prompt }) => {
    const isKnown = prompt.some(({ role }) => role === 'tool');
    console.log(isKnown ? 'the model is asked with the result' : 'the model is asked');
    const call = { type: 'tool-call', toolCallId: 'call-1', toolName: 'lookUp', input: '{"order":"1042"}' };
    const text = ['It left ', 'yesterday.'].map((delta) => ({ type: 'text-delta', id: 't', delta }));
    const parts = isKnown ? [{ type: 'text-start', id: 't' }, ...text, { type: 'text-end', id: 't' }] : [call];
    const stream = new ReadableStream({
      start(controller) {
        const isCut = isKnown && isFirst;
        const sent = isCut ? parts.slice(0, 2) : [...parts, finish(isKnown ? 'stop' : 'tool-calls')];
        for (const part of sent) controller.enqueue(part);
        if (!isCut) controller.close();
      },
    });
    return { stream };
  },
});

const lookUp = tool({
  description: 'Looks an order up.',
  inputSchema: z.object({ order: z.string() }),
  execute: async ({ order }) => {
    console.log(`the tool reads order ${order}`);
    return { item: 'teapot', left: 'yesterday' };
  },
});

// Without it Node would end: nothing else waits.
const waiting = setTimeout(() => undefined, 60_000);
const agent = new ToolLoopAgent(durable({ model, tools: { lookUp } }, session));
const result = await agent.stream({ prompt: 'Where is order 1042?' });
for await (const text of result.textStream) {
  console.log(`it says: ${text}`);
  if (isFirst) console.log('the model does not go on');
}
clearTimeout(waiting);
console.log(`done: ${await result.text}`);
await storage.close();
