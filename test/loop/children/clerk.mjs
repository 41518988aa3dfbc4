// An agent in a process of its own, on the built library: takes messages from its supervisor, and does what they say.
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';

const dist = new URL('../../../dist/', import.meta.url).href;
const { CheckpointManager, SqliteCheckpointStorage } = await import(`${dist}index.js`);
const { AgentLoop } = await import(`${dist}runtime/loop/index.js`);

const { path, side, ...options } = JSON.parse(process.argv[2]);

function writeOutside(line) {
  const file = openSync(side, 'a');
  writeSync(file, `${JSON.stringify(line)}\n`);
  fsyncSync(file);
  closeSync(file);
}

/** What goes wrong with a message, at the first attempt only. */
const TROUBLES = {
  kill: () => process.kill(process.pid, 'SIGKILL'),
  spin: () => {
    for (;;);
  },
  wait: () => new Promise(() => undefined),
};

const createAgent = () => ({
  tools: { look: { run: () => 'a wall' } },
  async handle({ id, body }, turn) {
    const { context, memory } = turn.state;
    await turn.step('before', ({ idempotencyKey: key }) => writeOutside({ id, part: 'before', key }));
    if (turn.attempt === 1) await TROUBLES[body]?.();
    if (body === 'storm') throw new Error('storm');
    if (body === 'maze') while (context.notes.length === 0) await turn.call('look', { at: 'the same place' });
    await turn.step('after', ({ idempotencyKey: key }) => writeOutside({ id, part: 'after', key }));
    memory.session.done = [...(memory.session.done ?? []), id];
    if (turn.state.task === null) turn.state.task = { id: 'count', status: 'active', progress: 0 };
  },
  async work(turn) {
    const round = await turn.step('round', () => 1);
    turn.state.task.progress = Math.min(1, turn.state.task.progress + round / 10);
    if (turn.state.task.progress === 1) turn.state.task.status = 'done';
  },
});

const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path }) });
const loop = await AgentLoop.open({ manager, agentId: 'clerk', createAgent, heartbeatMs: 200, ...options });
loop.on((event) => process.send(event));
for (const signal of ['SIGTERM', 'disconnect']) process.on(signal, () => void loop.stop());
process.on('message', async ({ deliver, report }) => {
  if (deliver !== undefined) {
    await loop.deliver(deliver);
    process.send({ kind: 'accepted', id: deliver.id });
  }
  if (report === true)
    process.send({ kind: 'report', state: JSON.parse(JSON.stringify(loop.state)), status: loop.status });
});
process.send({ kind: 'open' });
const ending = await loop.run();
await manager.close();
process.exit(ending === 'refresh' ? 75 : 0);
