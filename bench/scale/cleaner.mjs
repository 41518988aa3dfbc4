// Prunes and collects beside the writers until it is told to stop; says what that took.
import { CheckpointManager } from '../../dist/index.js';
import { PostgresCheckpointStorage } from '../../dist/storage/postgres/index.js';

const { url, schema } = JSON.parse(process.argv[2]);
const storage = new PostgresCheckpointStorage({
  connectionString: url,
  schema,
  maxConnections: 2,
  retryForMs: 900_000,
});
const manager = new CheckpointManager({ storage });
const runs = [];
let isOver = false;
process.once('message', () => {
  isOver = true;
});
while (!isOver) {
  const startedMs = performance.now();
  const { deleted } = await manager.prune({ policy: { keepLast: 1 } });
  const prunedMs = performance.now();
  const { chunks } = await manager.gc();
  runs.push({ deleted: deleted.length, pruneMs: prunedMs - startedMs, chunks, gcMs: performance.now() - prunedMs });
}
process.send({ runs }, () => manager.close().then(() => process.disconnect()));
