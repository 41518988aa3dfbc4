// Runs an agent of the OpenAI Agents SDK on a recorded model and tools, and says what its tools do. The parent kills it and starts another.
import { z } from 'zod';
import { SavestateSession } from '../../../dist/adapter/openai-agents/index.js';
import { openAnyStorage, say, told } from './common.mjs';

say({ ready: true });
const { storage: place, calls } = told();
// The SDK looks at standard input, which cannot be waited for afterwards.
const { Agent, Runner, tool } = await import('@openai/agents-core');
const { assistantMessage, functionCall, modelResponder, ScriptedModel } = await import('@openai/agents-core/testing');
const session = new SavestateSession(await openAnyStorage(place), 'run');
const answer = modelResponder(({ request }) => {
  const done = request.input.filter(({ type }) => type === 'function_call_result').length;
  say({ asked: done });
  return done < calls
    ? [functionCall('pay', { n: done }, { callId: `call-${done}` })]
    : [assistantMessage('All paid.')];
});
const pay = tool({
  name: 'pay',
  description: 'Pays a part.',
  parameters: z.object({ n: z.number() }),
  execute: ({ n }, _, { idempotencyKey }) => {
    say({ paid: n, key: idempotencyKey });
    return `paid ${n}`;
  },
});
const agent = new Agent({
  name: 'payer',
  model: session.recordedModel(new ScriptedModel(Array.from({ length: calls + 1 }, () => answer))),
  tools: [session.recordedTool(pay)],
});
// The process before may have died between saving the outcome and saying so: asked again, that would be another turn.
const isOver = (await session.getItems(1)).some(({ role }) => role === 'assistant');
const runner = new Runner({ tracingDisabled: true });
if (!isOver) await runner.run(agent, 'Pay all', { session, maxTurns: calls + 2 });
say({ isDone: true });
