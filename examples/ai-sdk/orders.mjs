// An agent of the AI SDK that is killed and goes on in another process, and a chat that is answered twice. No model is called.
// node examples/ai-sdk/orders.mjs
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { CheckpointManager, SqliteCheckpointStorage } from 'savestate';
import { chatStore } from 'savestate/ai-sdk';

const folder = mkdtempSync(join(tmpdir(), 'savestate-orders-'));
const path = join(folder, 'runs.db');
try {
  console.log('1. A process starts the agent. We kill it while the model answers.');
  await work({ killAt: 'the model does not go on' });

  console.log('2. Another process runs the same. What was finished is not done again.');
  await work();

  console.log('3. The run is a session.');
  const storage = new SqliteCheckpointStorage({ path });
  const manager = new CheckpointManager({ storage });
  const session = await manager.session('order-1042');
  for (const { trigger } of await session.history()) console.log(`   ${trigger}`);
  await session.close();

  console.log('4. A chat is answered twice.');
  const chats = chatStore(storage);
  const say = (id, role, text) => ({ id, role, parts: [{ type: 'text', text }] });
  await chats.save('chat', [say('u1', 'user', 'Where is it?'), say('a1', 'assistant', 'No idea.')]);
  const question = await chats.regenerateFrom('chat', 'a1');
  await chats.save('chat', [...question, say('a2', 'assistant', 'It left yesterday.')]);
  for (const { id, parts } of await chats.siblings('chat', 'a1')) console.log(`   ${id}: ${parts[0].text}`);
  await chats.setActiveLeaf('chat', 'a1');
  console.log(`   active: ${(await chats.load('chat')).map(({ id }) => id).join(', ')}`);

  const { findings } = await manager.verify();
  console.log(`5. Verified: ${findings.length === 0 ? 'clean' : 'damaged'}.`);
  await storage.close();
} finally {
  rmSync(folder, { recursive: true });
}

/** Runs a worker to its end, or kills it as soon as it says a certain line. */
async function work({ killAt } = {}) {
  const worker = spawn(process.execPath, [join(import.meta.dirname, 'worker.mjs'), path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => worker.once('close', (code, signal) => resolve(signal ?? code)));
  for await (const line of createInterface(worker.stdout)) {
    console.log(`   ${line}`);
    if (line === killAt) worker.kill('SIGKILL');
  }
  const end = await ended;
  if (end !== (killAt === undefined ? 0 : 'SIGKILL')) throw new Error(`The worker ended with ${end}.`);
  if (killAt !== undefined) console.log('   (killed with SIGKILL)');
}
