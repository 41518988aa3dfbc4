// A fleet researches a question in several processes: it waits for people, is killed, gets stuck, plans anew, and takes another prompt.
// node examples/fleet/research.mjs
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const folder = mkdtempSync(join(tmpdir(), 'savestate-fleet-'));

/** Runs a process to its end, or until it kills itself. */
async function work(...args) {
  const worker = spawn(process.execPath, [join(import.meta.dirname, 'worker.mjs'), folder, ...args], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const end = await new Promise((resolve) => worker.once('close', (code, signal) => resolve(signal ?? code)));
  if (end !== 0) console.log(`  (ended with ${end})`);
}

try {
  console.log('1. A process makes a plan, and waits for a review.');
  await work('run');

  console.log('2. Two people answer, each in a process of their own: one is heard.');
  await work('answer', 'plan-1', 'approve', 'Ann');
  await work('answer', 'plan-1', 'reject', 'Bo');

  console.log('3. The plan leads nowhere. There is another one, to be reviewed again.');
  await work('resume');
  await work('answer', 'plan-2', 'approve', 'Ann');

  console.log('4. The work is killed while a page is read.');
  await work('resume', 'oldbrook');

  console.log('5. It goes on where it was, until a file is to be written.');
  await work('resume');

  console.log('6. That is allowed, and the report is there.');
  await work('answer', 'round-8-1', 'approve', 'Bo');
  await work('resume');
  console.log(readFileSync(join(folder, 'report.md'), 'utf8').trimEnd());

  console.log('7. Another prompt goes on with the same ledger.');
  await work('resume', '', 'Thank you. Say it once more.');
} finally {
  rmSync(folder, { recursive: true });
}
