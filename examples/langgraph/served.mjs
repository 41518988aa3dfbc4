// LangGraph's own server on durable threads, asked by LangGraph's own client: `node examples/langgraph/served.mjs`
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@langchain/langgraph-sdk';

const folder = mkdtempSync(join(tmpdir(), 'savestate-served-'));
const path = join(folder, 'threads.db');
let server;
try {
  console.log('1. A server; a client makes a thread and runs the graph, which asks a person.');
  let client = await start();
  const { thread_id: id } = await client.threads.create({ metadata: { user: 'ann' } });
  await run(client, id, { input: { messages: [{ role: 'user', content: 'My teapot broke.' }] } });

  console.log('2. The server is killed. Another one has the thread, and what it waits for.');
  await stop();
  client = await start();
  const [thread] = await client.threads.search({ metadata: { user: 'ann' } });
  console.log(`     ${thread.status}: ${thread.values.messages.length} messages`);

  console.log('3. Ann says yes; the run goes on.');
  await run(client, id, { command: { resume: { isApproved: true, by: 'Ann' } } });

  console.log('4. From where the order was looked up once more; this time she says no. Both endings stay.');
  const history = await client.threads.getHistory(id);
  const { checkpoint } = history.find(({ values }) => values.messages.length === 3);
  await run(client, id, { checkpoint });
  await run(client, id, { command: { resume: { isApproved: false, by: 'Ann' } } });
  console.log(`     ${(await client.threads.getHistory(id, { limit: 100 })).length} checkpoints`);
} finally {
  await stop();
  rmSync(folder, { recursive: true });
}

async function start() {
  const program = join(import.meta.dirname, 'server.mjs');
  server = spawn(process.execPath, [program, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(server.stdout, 'data');
  return new Client({ apiUrl: String(line).trim() });
}

async function stop() {
  if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
  server.kill('SIGKILL');
  await once(server, 'close');
}

async function run(client, id, input) {
  for await (const part of client.runs.stream(id, 'refund', { ...input, streamMode: 'values' }))
    if (part.event === 'error') throw new Error(part.data.message);
  const { values, tasks } = await client.threads.getState(id);
  const [question] = tasks.flatMap(({ interrupts }) => interrupts);
  console.log(`     ${question ? `waits for a person: ${question.value.question}` : values.messages.at(-1).content}`);
}
