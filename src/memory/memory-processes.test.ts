import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { LATER } from '../../test/support/later.ts';
import { builtFolder } from '../../test/support/on-demand.ts';
import { temporaryFolder } from '../../test/support/storages.ts';
import { Memory } from './index.ts';

/** Children run the compiled package, which `npm test` builds first. */
const DIST = pathToFileURL(`${builtFolder()}/`);

/** Runs a module in a process of its own; returns its exit code and what it said. */
async function run(script: string): Promise<{ code: unknown; said: string; complained: string }> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'pipe'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  let said = '';
  let complained = '';
  child.stdout.on('data', (part) => {
    said += String(part);
  });
  child.stderr.on('data', (part) => {
    complained += String(part);
  });
  const [code] = await once(child, 'close');
  return { code, said, complained };
}

test(
  '[memory.11] processes that add to one new file at once lose nothing, and a shared source is added once',
  LATER,
  async () => {
    const path = join(temporaryFolder(), 'history.db');
    const writer = (name: string) => `
    import { Memory } from '${DIST}memory/index.js';
    const memory = new Memory({ path: ${JSON.stringify(path)} });
    for (let n = 0; n < 60; n++) {
      await memory.add('${name} says ' + n, { userId: 'ann', infer: false });
      await memory.add('both say ' + n, { userId: 'ann', idempotencyKey: 'shared ' + n, infer: false });
    }
    await memory.close();`;
    const outcomes = await Promise.all(['one', 'two', 'three'].map((name) => run(writer(name))));
    expect(outcomes).toEqual(outcomes.map(() => ({ code: 0, said: '', complained: '' })));
    const memory = new Memory({ path });
    const all = await memory.getAll({ userId: 'ann' });
    const words = all.map((record) => record.memory);
    for (const name of ['one', 'two', 'three'])
      expect(words.filter((one) => one.startsWith(`${name} says`))).toHaveLength(60);
    expect(words.filter((one) => one.startsWith('both say'))).toHaveLength(60);
    expect(all.every(({ reinforcements }) => reinforcements === 0)).toBe(true);
    await memory.close();
  },
);

test('[memory.2] the same words that two add to one file at the same moment are one memory', async () => {
  const path = join(temporaryFolder(), 'history.db');
  await using one = new Memory({ path });
  await using other = new Memory({ path });
  const added = await Promise.all([one, other].map((memory) => memory.add('The lift is broken', { userId: 'ann' })));
  const events = added.flatMap(({ results }) => results.map(({ event }) => event));
  expect(events.sort()).toEqual(['ADD', 'REINFORCE']);
  expect(await one.getAll({ userId: 'ann' })).toHaveLength(1);
});

test('[memory.11] an open memory sees what another process adds', async () => {
  const path = join(temporaryFolder(), 'history.db');
  const memory = new Memory({ path });
  await memory.add('first words', { userId: 'ann' });
  expect(await memory.getAll({ userId: 'ann' })).toHaveLength(1);
  const { code } = await run(`
    import { Memory } from '${DIST}memory/index.js';
    const memory = new Memory({ path: ${JSON.stringify(path)} });
    await memory.add('second words', { userId: 'ann' });
    await memory.purge((await memory.search('first', { userId: 'ann' })).results[0].id);
    await memory.close();`);
  expect(code).toBe(0);
  const { results } = await memory.search('words', { userId: 'ann' });
  expect(results.map((hit) => hit.memory)).toEqual(['second words']);
  await memory.close();
});

/** Every way out of a process that Node has. */
const FORBID_SOCKETS = `
  import net from 'node:net';
  import dns from 'node:dns';
  import dgram from 'node:dgram';
  const forbidden = (what) => () => { process.stdout.write('TRIED ' + what + '\\n'); throw new Error(what + ' is forbidden'); };
  net.Socket.prototype.connect = forbidden('connect');
  net.connect = net.createConnection = forbidden('connect');
  dgram.createSocket = forbidden('dgram');
  for (const name of ['lookup', 'resolve', 'resolve4', 'resolve6']) {
    dns[name] = forbidden('dns');
    dns.promises[name] = forbidden('dns');
  }
  globalThis.fetch = forbidden('fetch');`;

test(
  '[memory.12] without a configured endpoint nothing is connected to, with the local model neither',
  LATER,
  async () => {
    const path = join(temporaryFolder(), 'history.db');
    const { code, said, complained } = await run(`${FORBID_SOCKETS}
    const { Memory, localEmbedder } = await import('${DIST}memory/index.js');
    const { CheckpointManager, InMemoryCheckpointStorage } = await import('${DIST}index.js');
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    for (const embedder of [undefined, localEmbedder()]) {
      const memory = new Memory({ path: ${JSON.stringify(path)}, manager, embedder });
      const session = await manager.session('s');
      await memory.add('I prefer tea to coffee.', { userId: 'ann', session });
      await session.save({ n: 1 });
      const { results, vectors } = await memory.search('Would tea be fine?', { userId: 'ann' });
      const { text } = await memory.render('Notes:\\n{memory}', { scope: { userId: 'ann' }, query: 'tea' });
      process.stdout.write(vectors + ' ' + results.length + ' ' + text.includes('I prefer tea') + '\\n');
      await memory.close();
    }
    process.exit(0);`);
    expect({ code, said, complained }).toEqual({ code: 0, said: 'none 1 true\nused 1 true\n', complained: '' });
  },
);

test('[memory.12] the test above would notice: a configured endpoint is connected to', async () => {
  const path = join(temporaryFolder(), 'history.db');
  const { said } = await run(`${FORBID_SOCKETS}
    const { Memory, endpointEmbedder } = await import('${DIST}memory/index.js');
    const embedder = endpointEmbedder({ baseUrl: 'http://127.0.0.1:9/v1', model: 'm' });
    const memory = new Memory({ path: ${JSON.stringify(path)}, embedder });
    const { vectors } = await memory.search('tea', { userId: 'ann' });
    process.stdout.write(vectors);
    process.exit(0);`);
  expect(said).toBe('TRIED fetch\nunavailable');
});
