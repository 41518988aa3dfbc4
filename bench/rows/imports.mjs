import { spawn } from 'node:child_process';
import { dirname, join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { interleave } from '../measure.mjs';
import { openManager } from '../workbench.mjs';

export const imports = { id: 'imports', title: 'processor time until a program can begin, above an empty module', run };

const ROOT = resolve(import.meta.dirname, '../..');
const PEERS = [
  '@langchain/core/documents',
  '@langchain/core/messages',
  '@langchain/langgraph',
  '@langchain/langgraph-checkpoint',
];
/** Says on a pipe of its own, when the process ends, how much processor time it took. */
const METER = `data:text/javascript,${encodeURIComponent(`
  import { writeSync } from 'node:fs';
  process.on('exit', () => writeSync(3, JSON.stringify(process.cpuUsage())));
`)}`;

async function run(workbench) {
  const path = workbench.newPath();
  const manager = openManager(path, { durability: 'process' });
  const session = await manager.session('history');
  for (let turn = 0; turn < 100; turn++) await session.save({ turn });
  await manager.close();
  const importing = (...names) => ({
    measure: () => start(['--input-type=module', '-e', names.map((name) => `import '${name}';`).join('')], workbench),
  });
  const log = [join(ROOT, 'dist/cli/main.js'), 'log', '-n', '20', '--storage', path];
  const sides = await interleave(
    {
      empty: importing(),
      savestate: importing('savestate'),
      peers: importing(...PEERS),
      langgraph: importing('savestate/langgraph'),
      log: { measure: () => start(log, workbench) },
    },
    { rounds: workbench.rounds(30), warmup: workbench.warmup(2) },
  );
  const line = (what, [side, floor], atMost) =>
    workbench.report.line({
      what,
      ratio: side.median - floor.median,
      ratioP10: side.p10 - floor.p10,
      unit: ' ms',
      target: { atMost },
      sides: { side, floor },
    });
  line("import 'savestate', above an empty module", [sides.savestate, sides.empty], 60);
  line("import 'savestate/langgraph', above its peers alone", [sides.langgraph, sides.peers], 100);
  line('savestate log -n 20, above an empty module', [sides.log, sides.empty], 120);
}

/** Runs a program to its end; returns the milliseconds of processor time it took. */
async function start(args, { folder }) {
  const env = { PATH: dirname(process.execPath), HOME: folder, XDG_STATE_HOME: folder };
  const stdio = ['ignore', 'ignore', 'inherit', 'pipe'];
  const child = spawn(process.execPath, ['--import', METER, ...args], { cwd: ROOT, env, stdio });
  const ended = new Promise((done, fail) => child.once('error', fail).once('close', done));
  const [said, code] = await Promise.all([text(child.stdio[3]), ended]);
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`);
  const { user, system } = JSON.parse(said);
  return (user + system) / 1_000;
}
