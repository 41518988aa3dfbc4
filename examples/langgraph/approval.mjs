// A graph that is killed, goes on in another process, waits for a person, and is looked at afterwards.
// node examples/langgraph/approval.mjs
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { work } from '../worker-process.mjs';
import { lookBack } from './look-back.mjs';

const folder = mkdtempSync(join(tmpdir(), 'savestate-approval-'));
const program = join(import.meta.dirname, 'worker.mjs');
const path = join(folder, 'refunds.db');
try {
  console.log('1. A process starts the run. We kill it while the model thinks.');
  await work([program, path, 'start'], { killAt: 'the model does not answer' });

  console.log('2. Another process goes on. What was finished is not run again.');
  await work([program, path, 'resume']);

  console.log('3. Ann says yes, and a third process finishes.');
  await work([program, path, 'approve']);

  await lookBack(path);
} finally {
  rmSync(folder, { recursive: true });
}
