// Runs one of the example workflows; every call of its code is a line in a file outside.
import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Workers } from '../../../dist/manager/workers/index.js';
import { WorkflowExecutor } from '../../../dist/runtime/workflow/index.js';
import * as pipeline from '../../../examples/workflow/pipeline.mjs';
import * as refund from '../../../examples/workflow/refund.mjs';
import { openManager, openStorage, say, told } from './common.mjs';

say({ ready: true });
const { storage, example, side, paceMs, isFirst } = told();
const { workflow, createRegistry, input = { order: 1042, days: 3 } } = { refund, pipeline }[example];

const outside = ({ step, attempt, idempotencyKey: key }) =>
  appendFileSync(side, `${JSON.stringify({ step, attempt, key })}\n`);

const manager = openManager(openStorage(storage));
const executor = new WorkflowExecutor({
  manager,
  registry: createRegistry({ outside, paceMs }),
  lease: { ttlMs: 5_000, waitMs: 20_000 }, // long enough for a process that is held up on a busy machine,
});
await untilFree();
say({ open: true });
try {
  await finish();
} catch (error) {
  // On a busy machine this process may be held up for longer than its lease lasts; then it must stop, and the next one goes on.
  if (error.code !== 'CONFLICT' || error.details.kind !== 'lease') throw error;
  say({ lapsed: true });
}
await manager.close();

/** Waits until the lease of a process that was killed has lapsed, so that the next kill hits work and not waiting. */
async function untilFree() {
  for (let left = 50; left > 0 && !isFirst; left--) {
    if ((await new Workers(manager).abandoned()).length > 0) return;
    await sleep(10);
  }
}

async function finish() {
  let result = await executor.run({ workflow, input, sessionId: example });
  for (const { id: requestId } of result.pending.approvals) await answer(requestId);
  if (result.status === 'waiting') result = await executor.run({ workflow, sessionId: example });
  say({ finished: result.status, output: result.output });
}

async function answer(requestId) {
  try {
    await executor.answer({ sessionId: example, requestId, answer: 'approve', by: 'Ann' });
  } catch (error) {
    if (error.code !== 'CONFLICT') throw error; // an earlier process answered before it was killed
  }
}
