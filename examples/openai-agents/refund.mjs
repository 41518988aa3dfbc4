// A run of the OpenAI Agents SDK that is killed, goes on in another process, waits for a person, and ends. No model is called.
// node examples/openai-agents/refund.mjs
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SqliteCheckpointStorage } from 'savestate';
import { SavestateSession } from 'savestate/openai-agents';
import { work } from '../worker-process.mjs';

const folder = mkdtempSync(join(tmpdir(), 'savestate-refund-'));
const program = join(import.meta.dirname, 'worker.mjs');
const path = join(folder, 'sessions.db');
try {
  console.log('1. A process starts the run. We kill it while the model thinks.');
  await work([program, path, 'start'], { killAt: 'the model does not answer' });

  console.log('2. Another process runs the same. What was finished is not done again.');
  await work([program, path, 'start']);

  console.log('3. Ann answers, without the code of the agent.');
  const storage = new SqliteCheckpointStorage({ path });
  const session = new SavestateSession(storage, 'order-1042');
  for (const { callId, tool, arguments: given } of await session.pending()) {
    console.log(`   ${tool} ${given}: yes`);
    await session.answer(callId, { approve: true, by: 'ann' });
  }
  await storage.close();

  console.log('4. A third process goes on.');
  await work([program, path, 'resume']);
} finally {
  rmSync(folder, { recursive: true });
}
