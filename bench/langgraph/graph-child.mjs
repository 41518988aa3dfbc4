import { setTimeout as sleep } from 'node:timers/promises';
import {
  DeltaValue,
  END,
  MessagesAnnotation,
  MessagesDeltaValue,
  START,
  StateGraph,
  StateSchema,
} from '@langchain/langgraph';
import { createFsyncProbe, summarise } from '../measure.mjs';
import { openContestant } from './contestants.mjs';
import { createGraphMessage } from './conversation.mjs';
import { repeat, timeMs } from './timing.mjs';

const WARMUP_STEPS = 100;
const PROBES = { count: 30, limitMs: 1_000 };

/** One contestant, one run of a real graph, one process; the answer goes to the standard output as JSON. */
const { name, steps, waitMs, isDelta = false, durability = 'async', place, warmupPlace } = JSON.parse(process.argv[2]);
await runGraph(warmupPlace, WARMUP_STEPS, 2);
const probe = createFsyncProbe(warmupPlace.folder);
const probeMs = await repeat(PROBES, () => timeMs(probe.run));
probe.close();
process.stdout.write(JSON.stringify({ ...(await runGraph(place, steps, 1)), probe: summarise(probeMs) }));

/** A graph of one node that adds a message a step, with LangGraph's default durability: it saves while the next step runs. */
async function runGraph(where, length, seed) {
  const messages = Array.from({ length }, (_, at) => createGraphMessage(at, seed));
  const { saver, close } = await openContestant(name, where);
  const answer = (state) => ({ messages: [messages[state.messages.length]] });
  const ask = async (state) => {
    await sleep(waitMs);
    return answer(state);
  };
  const graph = new StateGraph(isDelta ? deltaMessages() : MessagesAnnotation)
    .addNode('agent', waitMs > 0 ? ask : answer)
    .addEdge(START, 'agent')
    .addConditionalEdges('agent', (state) => (state.messages.length < length ? 'agent' : END))
    .compile({ checkpointer: saver });
  const config = { configurable: { thread_id: 'thread' }, recursionLimit: length + 10, durability };
  const before = process.cpuUsage();
  const totalMs = await timeMs(() => graph.invoke({ messages: [] }, config));
  const { user, system } = process.cpuUsage(before);
  if (saver !== undefined && saver.savesNothing !== true) await checkSaved(graph, length);
  await close();
  return { totalMs, cpuMs: (user + system) / 1000 };
}

/** A channel of which a checkpoint holds what was written, and a snapshot now and then. */
function deltaMessages() {
  const { valueSchema, inputSchema, reducer } = MessagesDeltaValue;
  return new StateSchema({ messages: new DeltaValue(valueSchema, { inputSchema, reducer, snapshotFrequency: 1_000 }) });
}

async function checkSaved(graph, length) {
  const { values } = await graph.getState({ configurable: { thread_id: 'thread' } });
  if (values.messages.length !== length) throw new Error(`${name} saved ${values.messages.length} of ${length} steps.`);
}
