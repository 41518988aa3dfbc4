// One process that works on the thread: `node worker.mjs <database> start|resume|approve`.
import { setTimeout as sleep } from 'node:timers/promises';
import { HumanMessage } from '@langchain/core/messages';
import { Command } from '@langchain/langgraph';
import { SqliteCheckpointStorage } from 'savestate';
import { SavestateSaver } from 'savestate/langgraph';
import { compileRefundGraph } from './refund-graph.mjs';

const [path, task] = process.argv.slice(2);
const storage = new SqliteCheckpointStorage({ path });
const graph = compileRefundGraph({
  checkpointer: new SavestateSaver(storage), // the one line
  think: task === 'start' ? hangAfterLookUp : async () => undefined,
  tell: console.log,
});

const inputs = {
  start: { messages: [new HumanMessage('My teapot broke. I want my money back.')] },
  resume: null, // go on where the last checkpoint is
  approve: new Command({ resume: { isApproved: true, by: 'Ann' } }),
};
// "sync": a step is on disk before the next one begins. The default saves while the next one runs already.
const config = { configurable: { thread_id: 'order-1042' }, durability: 'sync' };
const { messages, __interrupt__: questions } = await graph.invoke(inputs[task], config);
console.log(questions ? `waits for a person: ${questions[0].value.question}` : `done: ${messages.at(-1).content}`);
await storage.close();

async function hangAfterLookUp(messages) {
  if (messages.length === 1) return;
  console.log('the model does not answer');
  await sleep(60_000);
}
