// One process that works on a run: `node worker.mjs <database> refund|pipeline [killAt]`.
import { CheckpointManager, SqliteCheckpointStorage } from 'savestate';
import { WorkflowExecutor } from 'savestate/workflow';
import * as pipeline from './pipeline.mjs';
import * as refund from './refund.mjs';

const [path, name, killAt] = process.argv.slice(2);
const { workflow, createRegistry, input = { order: 1042, days: 3 } } = { refund, pipeline }[name];

const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path }) });
const registry = createRegistry({
  outside: ({ step, attempt }) => {
    console.log(`${step}${attempt === 1 ? '' : ` (attempt ${attempt})`}`);
    if (step === killAt) process.kill(process.pid, 'SIGKILL');
  },
});
// Another worker's lease lapses soon after it died; this one waits for that.
const executor = new WorkflowExecutor({ manager, registry, lease: { ttlMs: 2_000, waitMs: 10_000 } });
const result = await executor.run({ workflow, input, sessionId: name });
for (const { message } of result.pending.approvals) console.log(`waits for a person: ${message}`);
if (result.status === 'completed') console.log(`done: ${JSON.stringify(result.output)}`);
await manager.close();
