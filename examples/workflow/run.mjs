import { spawn } from 'node:child_process';
import { join } from 'node:path';

/** Runs a worker to its end, or until it kills itself at a step; tells what it says. */
export async function work(path, name, killAt = '') {
  const worker = spawn(process.execPath, [join(import.meta.dirname, 'worker.mjs'), path, name, killAt], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const end = await new Promise((resolve) => worker.once('close', (code, signal) => resolve(signal ?? code)));
  if (end !== (killAt === '' ? 0 : 'SIGKILL')) throw new Error(`The worker ended with ${end}.`);
}
