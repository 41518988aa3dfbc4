import { spawn } from 'node:child_process';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { interleave, ratioOf } from '../measure.mjs';
import { openManager } from '../workbench.mjs';

export const commandLine = { id: 'cli', title: 'command line: start-up, and log -n 20 on a long history', run };

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
const MANY = 100_000;
const FEW = 1_000;
const START_MS = 150;

async function run(workbench) {
  await startUp(workbench);
  await log(workbench);
}

/** Beside `node -e 0`, which is what no program can be below. */
async function startUp(workbench) {
  const { folder } = workbench;
  const sides = await interleave(
    {
      'node -e 0': { run: () => start(['-e', '0'], folder) },
      '--version': { run: () => start([MAIN, '--version'], folder) },
      '--help': { run: () => start([MAIN, '--help'], folder) },
    },
    { rounds: workbench.rounds(40), warmup: workbench.warmup(3) },
  );
  for (const name of ['--version', '--help']) {
    workbench.report.line({
      what: `savestate ${name}`,
      ratio: sides[name].median,
      ratioP10: sides[name].p10,
      unit: ' ms',
      target: { atMost: START_MS },
      sides: { 'node -e 0': sides['node -e 0'] },
    });
  }
}

async function log(workbench) {
  const count = workbench.isQuick ? MANY / 10 : MANY;
  const paths = { many: await build(workbench, count), few: await build(workbench, FEW) };
  const side = (path, ...args) => ({
    run: () => start([MAIN, 'log', '-n', '20', ...args, '--storage', path], workbench.folder),
  });
  const sides = await interleave(
    {
      many: side(paths.many),
      few: side(paths.few),
      'graph many': side(paths.many, '--graph'),
      'graph few': side(paths.few, '--graph'),
    },
    { rounds: workbench.rounds(40), warmup: workbench.warmup(3) },
  );
  const label = `${count.toLocaleString('en')} ÷ ${FEW.toLocaleString('en')} checkpoints`;
  for (const kind of ['', 'graph ']) {
    const [many, few] = [sides[`${kind}many`], sides[`${kind}few`]];
    workbench.report.line({
      what: `log -n 20${kind === '' ? '' : ' --graph'}, ${label}`,
      ...ratioOf(many, few),
      target: { atMost: 1.5 },
      sides: { many, few },
    });
  }
}

async function build(workbench, count) {
  const path = workbench.newPath();
  const manager = openManager(path, { durability: 'process' });
  const session = await manager.session('history');
  for (let turn = 1; turn <= count; turn++) await session.save({ turn });
  await manager.close();
  return path;
}

/** Runs a program to its end in a process of its own; what the person has set does not come in. */
function start(args, folder) {
  const env = { PATH: dirname(process.execPath), HOME: folder, XDG_STATE_HOME: folder };
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { cwd: folder, env, stdio: ['ignore', 'ignore', 'inherit'] });
    child.once('error', reject);
    child.once('close', (code) => (code === 0 ? resolve() : reject(new Error(`${args.join(' ')} ended with ${code}`))));
  });
}
