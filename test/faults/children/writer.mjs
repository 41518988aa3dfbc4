// One of several writers: saves picked messages into its own session and into one that all share, and logs what was acknowledged.
import { appendFileSync } from 'node:fs';
import { openManager, openStorage, say, told } from './common.mjs';
import { pickedState } from './states.mjs';

const POOL = 60;
const MOST = 14;

say({ ready: true });
const { storage: where, writer, log, seed } = told();
const manager = openManager(openStorage(where));
let random = seed >>> 0;
const below = (limit) => {
  random = (Math.imul(random, 1664525) + 1013904223) >>> 0;
  return Math.floor((random / 2 ** 32) * limit);
};

const open = (own) => manager.session(own ? `own-${writer}` : 'shared', own ? {} : { onConflict: 'branch' });
const sessions = { own: await open(true), shared: await open(false) };
say({ open: true });
for (;;) {
  const which = below(3) === 0 ? 'shared' : 'own';
  const session = sessions[which];
  // Messages of a small pool come and go: what was garbage a moment ago is wanted again.
  const picks = Array.from({ length: below(MOST) }, () => below(POOL));
  const sequence = (session.head?.sequence ?? 0) + 1;
  try {
    if (below(6) === 0) await session.step('call', () => ({ picks, text: 'x'.repeat(below(2) * 2000) }));
    const id = await session.save(pickedState({ writer, sequence, picks }));
    const isTagged = below(25) === 0 && (await manager.tag(id, `tag-${writer}-${sequence}`)) === id;
    appendFileSync(
      log,
      `${JSON.stringify({ id, session: session.id, branch: session.branch, sequence, picks, isTagged })}\n`,
    );
  } catch (error) {
    // The last own checkpoint was pruned after others had moved the branch, or a step met another writer: start anew at the head.
    if (error.code !== 'CONFLICT' && error.code !== 'NOT_FOUND') throw error;
    say({ conflict: error.message });
    sessions[which] = await open(which === 'own');
  }
}
