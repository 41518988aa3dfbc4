import { writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { collectYoungGarbage, interleave, ratioOf } from '../measure.mjs';
import { LONG, longState, openManager } from '../workbench.mjs';

export const row5 = {
  id: 'row5',
  title: 'restore(latest) ÷ reading and JSON.parse of the same state from one file, 5,000 messages',
  run,
};

async function run(workbench) {
  const path = await workbench.copyOfDatabase();
  const file = workbench.newPath('json');
  writeFileSync(file, JSON.stringify(longState()));
  const managers = [];
  /** A manager that has read nothing yet; opening it is not timed. */
  const fresh = () => {
    managers.push(openManager(path));
    collectYoungGarbage();
    return managers.at(-1);
  };
  const sides = await interleave(
    {
      restore: {
        prepare: fresh,
        run: async (manager) => check(await manager.restore((await manager.latest({ sessionId: 'long' })).id)),
      },
      load: {
        prepare: fresh,
        run: async (manager) => check(await manager.load((await manager.latest({ sessionId: 'long' })).id)),
      },
      'session open': { prepare: fresh, run: async (manager) => check((await manager.session('long')).state) },
      'open file + restore': { prepare: collectYoungGarbage, run: () => openAndRestore(path, managers) },
      'file + JSON.parse': {
        prepare: collectYoungGarbage,
        run: async () => check(JSON.parse(await readFile(file, 'utf8'))),
      },
    },
    { rounds: workbench.rounds(25), warmup: 3 },
  );
  for (const manager of managers) await manager.close();
  const { 'file + JSON.parse': parse, ...ours } = sides;
  for (const [name, side] of Object.entries(ours)) {
    const target = name === 'restore' ? { target: { atMost: 1.5 } } : {};
    const what = `${name}${name === 'restore' ? '(latest)' : ''} ÷ readFile + JSON.parse`;
    workbench.report.line({
      what,
      ...ratioOf(side, parse),
      ...target,
      sides: { [name]: side, 'file + JSON.parse': parse },
    });
  }
}

async function openAndRestore(path, managers) {
  const manager = openManager(path);
  managers.push(manager);
  check(await manager.restore((await manager.latest({ sessionId: 'long' })).id));
}

function check(state) {
  if (state.messages.length !== LONG) throw new Error(`Restored ${state.messages.length} messages instead of ${LONG}.`);
}
