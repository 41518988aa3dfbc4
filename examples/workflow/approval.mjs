// A refund that is killed, goes on in another process, waits for a person, and is paid once.
// node examples/workflow/approval.mjs
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointManager, SqliteCheckpointStorage } from 'savestate';
import { WorkflowExecutor } from 'savestate/workflow';
import { work } from './run.mjs';

const folder = mkdtempSync(join(tmpdir(), 'savestate-workflow-'));
const path = join(folder, 'refunds.db');
try {
  console.log('1. A process looks the order up, and is killed while the clerk thinks.');
  await work(path, 'refund', 'amount');

  console.log('2. Another process goes on, and asks.');
  await work(path, 'refund');

  console.log('3. Ann and Bo answer at the same time.');
  await answer();

  console.log('4. A third process pays, and is killed in the middle of it.');
  await work(path, 'refund', 'pay');

  console.log('5. A fourth one finishes. The bank sees the same key again.');
  await work(path, 'refund');
} finally {
  rmSync(folder, { recursive: true });
}

async function answer() {
  const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path }) });
  const executor = new WorkflowExecutor({ manager, registry: {} });
  const say = (by, word) => executor.answer({ sessionId: 'refund', requestId: 'approve', answer: word, by });
  const answers = await Promise.allSettled([say('Ann', 'approve'), say('Bo', 'reject')]);
  for (const { reason } of answers)
    console.log(reason === undefined ? 'heard' : reason.message.replace(/, at .*/, '.'));
  await manager.close();
}
