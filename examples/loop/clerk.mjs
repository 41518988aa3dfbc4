// An agent in a process of its own, which is killed while it handles an order; its successor goes on, and books it once.
// node examples/loop/clerk.mjs
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CheckpointManager, SqliteCheckpointStorage } from 'savestate';
import { AgentLoop } from 'savestate/loop';
import { REFRESH, supervise } from './supervise.mjs';

const [path] = process.argv.slice(2);
if (path === undefined) await superviseClerk();
else await runClerk();

async function superviseClerk() {
  const folder = mkdtempSync(join(tmpdir(), 'savestate-clerk-'));
  const args = [fileURLToPath(import.meta.url), join(folder, 'clerk.db')];
  const onEvent = ({ why }) => console.log(`the process ended: ${why}`);
  const { ended } = supervise(process.execPath, args, { backoffMs: 10, onEvent });
  console.log(await ended);
  rmSync(folder, { recursive: true });
}

async function runClerk() {
  const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path }) });
  const createAgent = () => ({
    async handle({ body }, turn) {
      await turn.step('book', () => console.log(`books ${body}`));
      if (turn.attempt === 1) process.kill(process.pid, 'SIGKILL');
      turn.state.context.decisions.push(body);
    },
  });
  const loop = await AgentLoop.open({ manager, agentId: 'clerk', createAgent, heartbeatMs: 1000, refresh: 'exit' });
  loop.on((event) => process.send?.(event, () => undefined)); // the callback bears a supervisor that is gone
  loop.on(({ kind, status }) => kind === 'turn' && status === 'done' && void loop.stop());
  for (const signal of ['SIGTERM', 'SIGINT', 'disconnect']) process.on(signal, () => void loop.stop());
  await loop.deliver({ id: 'm1', body: 'order 17' }); // the same id again is the same message
  const ending = await loop.run();
  console.log(`has handled ${loop.state.context.decisions}`);
  await manager.close();
  process.exit(ending === 'refresh' ? REFRESH : 0);
}
