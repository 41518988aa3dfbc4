import { ToolMessage } from '@langchain/core/messages';
import { CheckpointManager, SqliteCheckpointStorage } from 'savestate';
import { langGraphClasses, SavestateSaver } from 'savestate/langgraph';
import { compileRefundGraph } from './refund-graph.mjs';

const thread = { configurable: { thread_id: 'order-1042' } };
const print = (line) => console.log(`     ${line}`);

/** What a CheckpointManager does with what a graph saved. */
export async function lookBack(path) {
  const storage = new SqliteCheckpointStorage({ path });
  const saver = new SavestateSaver(storage);
  const manager = new CheckpointManager({ storage, classes: langGraphClasses });

  console.log('4. The history, newest first:');
  const steps = new Map();
  for await (const checkpoint of saver.listMetadata(thread)) {
    const { messages = [] } = (await manager.load(checkpoint.id)).channel_values;
    print(`step ${checkpoint.metadata.step}: ${messages.length} messages`);
    steps.set(checkpoint.metadata.step, checkpoint);
  }

  console.log('5. What came with the yes of Ann:');
  const { added } = await manager.compare(steps.get(3).id, steps.get(4).id);
  for (const { path: where, newValue } of added) {
    if (newValue instanceof ToolMessage) print(`${where}: ${newValue.content}`);
  }

  console.log('6. What if the teapot had cost 45? We go back, edit what the tool found, and run on from there.');
  await runEdited(saver, steps.get(2).config);

  console.log('7. Both are kept, each with its own values:');
  const { sessionId } = await manager.get(steps.get(2).id);
  for (const { branch, headId } of await manager.branches(sessionId)) {
    const { messages } = (await manager.load(headId)).channel_values;
    print(`${branch}: ${messages[2].content}`);
  }

  const { status, checkpoints } = await manager.verify();
  console.log(`8. Verified: ${checkpoints} checkpoints, ${status}.`);
  await manager.close();
}

async function runEdited(saver, config) {
  const graph = compileRefundGraph({ checkpointer: saver, think: async () => undefined, tell: print });
  const { values } = await graph.getState(config);
  const { id, name, tool_call_id } = values.messages.at(-1);
  const edited = new ToolMessage({ id, name, tool_call_id, content: '{"item":"teapot","price":45}' });
  const fork = await graph.updateState(config, { messages: [edited] }, 'lookUp');
  const { __interrupt__: questions } = await graph.invoke(null, fork);
  print(`waits for a person: ${questions[0].value.question}`);
}
