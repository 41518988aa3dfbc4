import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { BUILT } from '../support/built.ts';
import { temporaryFolder } from '../support/storages.ts';

/** The agent's process as the guide shows it, with what it leaves out put before it. */
function documentedAgent(path: string): string {
  const guide = readFileSync(new URL('../../docs/LOOP.md', import.meta.url), 'utf8');
  const [, agent = ''] = /\/\/ agent\.mjs\n(.*?)\n```/s.exec(guide) ?? [];
  const dist = pathToFileURL(`${BUILT}/`);
  return `
import { CheckpointManager, SqliteCheckpointStorage } from '${dist}index.js';
import { AgentLoop } from '${dist}runtime/loop/index.js';
const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: ${JSON.stringify(path)} }) });
const createAgent = () => ({
  async handle(message, turn) {
    const isAlone = new Promise((resolve) => process.once('disconnect', resolve));
    process.send({ kind: 'handling' });
    await isAlone;
    await turn.guard('write', () => undefined); // tells events, to nobody
    await new Promise((resolve) => setTimeout(resolve, 20)); // an error of those would come up now
    turn.state.memory.session.isDone = true;
  },
});
process.on('message', (message) => loop.deliver(message));
${agent}`;
}

test('[loop.14] the agent of the guide, whose supervisor dies during a turn, ends the turn, saves and exits', async () => {
  const folder = temporaryFolder();
  const path = join(folder, 'agent.db');
  writeFileSync(join(folder, 'agent.mjs'), documentedAgent(path));
  const child = fork(join(folder, 'agent.mjs'), { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
  let complaints = '';
  child.stderr?.on('data', (text: Buffer) => {
    complaints += text.toString();
  });
  const ended = once(child, 'exit');
  child.on('message', ({ kind }: { kind: string }) => {
    if (kind === 'started') child.send({ id: 'm1', body: null });
    if (kind === 'handling') child.disconnect();
  });
  const [code, signal] = await ended;
  expect({ code, signal, complaints }).toEqual({
    code: 0,
    signal: null,
    complaints: expect.not.stringContaining('ERR_IPC'),
  });

  const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path }) });
  const last = await manager.latest({ agentId: 'clerk-1' });
  expect(last).toMatchObject({ trigger: 'stopped' });
  const state = await manager.load(last?.id ?? '');
  expect(state).toMatchObject({ memory: { session: { isDone: true } }, mailbox: { processedCount: 1, pending: [] } });
  await manager.close();
});

test('[loop.14] stop ends a process whose handler never settles, after its grace and with a checkpoint', async () => {
  const path = join(temporaryFolder(), 'agent.db');
  const dist = pathToFileURL(`${BUILT}/`);
  const program = `
import { open } from '${dist}index.js';
import { AgentLoop } from '${dist}runtime/loop/index.js';
const manager = await open(${JSON.stringify(path)});
const createAgent = () => ({ handle: () => (setImmediate(() => loop.stop({ graceMs: 20 })), new Promise(() => {})) });
const loop = await AgentLoop.open({ manager, agentId: 'clerk-1', createAgent });
await loop.deliver({ id: 'm1', body: null });
await loop.run();
await manager.close();`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let complaints = '';
  child.stderr.on('data', (text: Buffer) => {
    complaints += text.toString();
  });
  const [code] = await once(child, 'exit');
  expect({ code, complaints }).toEqual({ code: 0, complaints: '' });
  const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path }) });
  expect(await manager.latest({ agentId: 'clerk-1' })).toMatchObject({ trigger: 'stopped' });
  await manager.close();
});
