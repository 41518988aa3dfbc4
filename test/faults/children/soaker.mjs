// Lives as users do, without end: agents that talk, fork, rewind and are forgotten, prune and gc, a server and those who look at it.
// The one that serves says now and then what it holds; the others are killed and started again.
import { readdirSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { createServer } from '../../../dist/server/index.js';
import { openManager, openStorage, say, told } from './common.mjs';

say({ ready: true });
const { storage: where, name, serves } = told();
const manager = openManager(openStorage(where));

const SESSIONS = 6;
const MESSAGES = 40;
const LIFETIME = 30;
const TURNS = 4;

/** A conversation that keeps its last messages, as agents with a window do. */
async function talk(round, at) {
  const session = await manager.session(`${name} ${at} ${Math.floor(round / LIFETIME)}`, {
    initial: { messages: [], round: 0 },
    onConflict: 'branch',
  });
  for (let turn = 0; turn < TURNS; turn++) {
    const reply = await session.step(`ask ${round}.${turn}`, () => ({ text: `reply ${round}.${turn} `.repeat(20) }));
    await session.update((state) => {
      state.messages.push({ role: 'user', content: `round ${round}` }, { role: 'assistant', content: reply.text });
      state.messages.splice(0, Math.max(0, state.messages.length - MESSAGES));
      state.round = round;
    });
  }
  if (round % 5 === at % 5) {
    await dropTries(session.id);
    const fork = await session.fork({ at: '@~1', branch: `try ${round}` });
    await fork.save({ ...fork.state, tried: round });
    await fork.close();
    await manager.deleteBranch(session.id, fork.branch);
  }
  await session.close();
}

/** A worker that was killed in the middle of a try left its branch; rounds begin at one again. */
async function dropTries(sessionId) {
  for (const { branch } of await manager.branches(sessionId))
    if (branch.startsWith('try ')) await manager.deleteBranch(sessionId, branch);
}

/** Ends what nobody goes on with, and gives the space back. */
async function clean(round) {
  const era = Math.floor(round / LIFETIME);
  for (let at = 0; round % LIFETIME === 0 && at < SESSIONS; at++)
    await manager.deleteSession(`${name} ${at} ${era - 1}`);
  await manager.prune({ policy: { keepLast: 10 } });
  await manager.dropRecordings();
  if (round % 3 === 0) await manager.gc();
}

/** Somebody who looks: at lists and states, and for a moment at what happens. */
async function look(url, token) {
  const headers = { authorization: `Bearer ${token}` };
  const get = (path, signal) =>
    fetch(`${url}${path}`, { headers, signal }).catch((cause) => {
      throw new Error(`GET ${path} was not answered`, { cause });
    });
  const { items } = await (await get('/v1/sessions?limit=20')).json();
  for (const { headId } of items.slice(0, 5))
    if (headId !== undefined) await (await get(`/v1/checkpoints/${headId}/state`)).text();
  const leaving = new AbortController();
  const events = await get('/v1/events', leaving.signal);
  const reader = events.body.getReader();
  await Promise.race([reader.read(), sleep(50)]);
  leaving.abort();
  await reader.cancel().catch(() => undefined);
}

function holds() {
  globalThis.gc();
  const folder = where.path.slice(0, where.path.lastIndexOf('/'));
  return {
    heapBytes: process.memoryUsage().heapUsed,
    handles: readdirSync('/proc/self/fd').length,
    timers: process.getActiveResourcesInfo().length,
    fileBytes: readdirSync(folder).reduce((sum, file) => sum + statSync(`${folder}/${file}`).size, 0),
  };
}

const server = serves ? createServer(manager) : undefined;
const { url } = (await server?.listen()) ?? {};
say({ open: true });
for (let round = 1; ; round++) {
  for (let at = 0; at < SESSIONS; at++) await talk(round, at);
  if (server !== undefined) {
    await clean(round);
    await Promise.all([look(url, server.token), look(url, server.token), look(url, server.token)]);
    if (round % 2 === 0) say({ round, ...holds() });
  } else say({ round });
}
