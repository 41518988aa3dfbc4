// A graph that is killed, goes on in another process, waits for a person, and is looked at afterwards.
// node examples/langgraph/approval.mjs
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { lookBack } from './look-back.mjs';

const folder = mkdtempSync(join(tmpdir(), 'savestate-approval-'));
const path = join(folder, 'refunds.db');
try {
  console.log('1. A process starts the run. We kill it while the model thinks.');
  await work('start', { killAt: 'the model does not answer' });

  console.log('2. Another process goes on. What was finished is not run again.');
  await work('resume');

  console.log('3. Ann says yes, and a third process finishes.');
  await work('approve');

  await lookBack(path);
} finally {
  rmSync(folder, { recursive: true });
}

/** Runs a worker to its end, or kills it as soon as it says a certain line. */
async function work(task, { killAt } = {}) {
  const worker = spawn(process.execPath, [join(import.meta.dirname, 'worker.mjs'), path, task], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => worker.once('close', (code, signal) => resolve(signal ?? code)));
  for await (const line of createInterface(worker.stdout)) {
    console.log(`     ${line}`);
    if (line === killAt) worker.kill('SIGKILL');
  }
  const end = await ended;
  if (end !== (killAt === undefined ? 0 : 'SIGKILL')) throw new Error(`The worker ended with ${end}.`);
  if (killAt !== undefined) console.log('     (killed with SIGKILL)');
}
