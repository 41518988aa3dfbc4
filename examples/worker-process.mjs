import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

/** Runs a worker of an example to its end, or kills it as soon as it says a certain line. */
export async function work([program, ...args], { killAt } = {}) {
  const worker = spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => worker.once('close', (code, signal) => resolve(signal ?? code)));
  for await (const line of createInterface(worker.stdout)) {
    console.log(`     ${line}`);
    if (line === killAt) worker.kill('SIGKILL');
  }
  const end = await ended;
  if (end !== (killAt === undefined ? 0 : 'SIGKILL')) throw new Error(`The worker ended with ${end}.`);
  if (killAt !== undefined) console.log('     (killed with SIGKILL)');
}
