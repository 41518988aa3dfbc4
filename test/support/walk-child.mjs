// Counts the sources in the built package of which something runs during a save, a restore and so on: node walk-child.mjs <dist> <folder>
import { readFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const [dist = '', folder = ''] = process.argv.slice(2);
const load = (path) => import(join(dist, path));
const { open } = await load('index.js');
const { CheckpointingGroupChatManager, GroupChat, StandardAgent } = await load('runtime/index.js');
const { AgentLoop } = await load('runtime/loop/index.js');
const { runMain } = await load('cli/run-main.js');

const inspector = new Session();
inspector.connect();
await inspector.post('Profiler.enable');

/** The work is done twice, and counted the second time: loading a module is no step of a walk. */
async function filesOf(work) {
  await work();
  await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  await work();
  const { result } = await inspector.post('Profiler.takePreciseCoverage');
  await inspector.post('Profiler.stopPreciseCoverage');
  const ran = result
    .filter(({ url }) => url.includes('/dist/'))
    .flatMap(({ url, functions }) => {
      const sources = sourcesIn(fileURLToPath(url));
      return functions
        .filter(({ functionName, ranges }) => functionName !== '' && ranges[0].count > 0)
        .map(({ ranges }) => sources.findLast(({ from }) => from <= ranges[0].startOffset)?.path);
    });
  return [...new Set(ran)].filter((path) => path?.startsWith('src/') && !path.startsWith('src/testing/')).sort();
}

/** The build writes before each part of a file which source it comes from. */
function sourcesIn(file) {
  const marks = readFileSync(file, 'utf8').matchAll(/^\/\/ (\S+\.m?[jt]s)$/gm);
  return Array.from(marks, ({ 1: path, index: from }) => ({ path, from }));
}

const path = join(folder, 'walks.db');
const manager = await open(path);
const session = await manager.session('notes');
const state = { messages: ['one'] };
await session.save(state);

class Clerk {
  messages = ['hello'];
}
const saved = await manager.save(new Clerk(), { sessionId: 'clerk' });

let chats = 0;
async function chat() {
  const agents = ['ann', 'ben'].map((name) => new StandardAgent({ name, defaultReply: `I am ${name}.` }));
  const group = new GroupChat({ agents, maxRounds: 2, speakerSelection: 'round_robin' });
  await new CheckpointingGroupChatManager({ chat: group, manager, sessionId: `chat-${++chats}` }).run({
    message: 'Hi',
  });
}

let loops = 0;
async function driftAndRecover() {
  const createAgent = () => ({
    tools: { look: { run: () => 'nothing new' } },
    async handle(message, turn) {
      for (let call = 0; message.body === 'drift' && call < 60; call++)
        await turn.call('look', { at: 'the same place' });
    },
  });
  const loop = await AgentLoop.open({ manager, agentId: `loop-${++loops}`, createAgent });
  const restored = new Promise((resolve) => loop.on(({ kind }) => kind === 'restored' && resolve()));
  const run = loop.run();
  await loop.deliver({ id: 'm1', body: 'fine' });
  await loop.deliver({ id: 'm2', body: 'drift' });
  await restored;
  await loop.stop();
  await run;
}

const silent = { write: () => true, on: () => undefined, isTTY: false };
const host = {
  argv: ['node', 'savestate', 'log', '--storage', path, '--session', 'notes'],
  env: { PATH: process.env.PATH, HOME: folder },
  cwd: () => folder,
  on: () => undefined,
  exit: () => undefined,
  stdin: { isTTY: false },
  stdout: silent,
  stderr: silent,
};

const walks = {
  save: await filesOf(() => session.save({ messages: [...state.messages, String(Math.random())] })),
  restore: await filesOf(() => manager.restore(saved, { into: new Clerk() })),
  'chat message': await filesOf(chat),
  'drift recovery': await filesOf(driftAndRecover),
  'savestate log': await filesOf(() => runMain(host)),
};
await manager.close();
process.stdout.write(JSON.stringify(walks));
