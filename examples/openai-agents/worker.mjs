// One process of the example: node worker.mjs <database> start|resume
import { Agent, Runner, tool } from '@openai/agents-core';
import { assistantMessage, functionCall, modelResponder, ScriptedModel } from '@openai/agents-core/testing';
import { SqliteCheckpointStorage } from 'savestate';
import { SavestateSession } from 'savestate/openai-agents';
import { z } from 'zod';

const [path, task] = process.argv.slice(2);
const storage = new SqliteCheckpointStorage({ path });
const session = new SavestateSession(storage, 'order-1042');
const isFirst = (await storage.listSessions({ limit: 1 })).length === 0;

/** Answers by what was said so far; the first process waits for it in vain the second time. */
const answer = modelResponder(({ request }) => {
  const results = request.input.filter(({ type }) => type === 'function_call_result').length;
  console.log('the model thinks');
  if (results === 0) return [functionCall('look_up', { order: '1042' }, { callId: 'call-1' })];
  if (results > 1) return [assistantMessage('You get 39 back.')];
  if (!isFirst) return [functionCall('refund', { order: '1042', amount: 39 }, { callId: 'call-2' })];
  console.log('the model does not answer');
  return new Promise((resolve) => setTimeout(resolve, 60_000));
});

const lookUp = tool({
  name: 'look_up',
  description: 'Looks an order up.',
  parameters: z.object({ order: z.string() }),
  execute: ({ order }) => {
    console.log(`the tool reads order ${order}`);
    return JSON.stringify({ item: 'teapot', price: 39 });
  },
});
const refund = tool({
  name: 'refund',
  description: 'Pays money back.',
  parameters: z.object({ order: z.string(), amount: z.number() }),
  needsApproval: true,
  execute: ({ amount }) => {
    console.log(`the tool pays ${amount} back`);
    return 'paid';
  },
});

const agent = new Agent({
  name: 'desk',
  model: session.recordedModel(new ScriptedModel([answer, answer, answer])),
  tools: [session.recordedTool(lookUp), session.recordedTool(refund)],
});
const runner = new Runner({ tracingDisabled: true });
const input = task === 'resume' ? await session.resume(agent) : 'The teapot is broken.';
const result = await runner.run(agent, input, { session });
if (result.interruptions.length > 0) {
  await session.suspend(result.state);
  console.log('waits for a person');
} else console.log(`done: ${result.finalOutput}`);
await storage.close();
