// Runs on a small disk of its own: fills it, looks at what was acknowledged, frees some space and goes on.
import { rmSync, writeFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { openManager, openStorage, say, told } from './common.mjs';
import { conversationOf } from './states.mjs';

const MOST_SAVES = 3000;

say({ ready: true });
const { storage: where, ballast, ballastBytes } = told();
writeFileSync(ballast, Buffer.alloc(ballastBytes, 'b'));

const acknowledged = [];
const wrong = [];

/** Looks at every checkpoint, or at every n-th and the last one. */
async function check(manager, when, step = 1) {
  for (const [at, id] of acknowledged.entries()) {
    if (at % step !== 0 && at !== acknowledged.length - 1) continue;
    const state = await manager.load(id).catch((error) => error);
    if (!isDeepStrictEqual(state, conversationOf(at + 1)))
      wrong.push(`${when}: checkpoint ${at + 1}: ${String(state)}`);
  }
}

async function fill(session) {
  for (let count = 1; count < MOST_SAVES; count++) {
    try {
      acknowledged.push(await session.save(conversationOf(count)));
    } catch (error) {
      return error;
    }
  }
  return undefined;
}

let manager;
let session;
let failure;
try {
  manager = openManager(openStorage(where));
  session = await manager.session('chat');
  failure = await fill(session);
} catch (error) {
  failure = error;
}
if (session !== undefined) await check(manager, 'while the disk is full', 7);
const count = acknowledged.length;
rmSync(ballast);
if (session === undefined) {
  manager = openManager(openStorage(where));
  session = await manager.session('chat');
}
acknowledged.push(await session.save(conversationOf(count + 1)));
await check(manager, 'after space was freed', 7);
await manager.close();
const again = openManager(openStorage(where));
await check(again, 'opened again');
const { status, findings } = await again.verify();
await again.close();
say({ failed: failure?.code ?? String(failure), message: failure?.message, count, wrong, status, findings });
