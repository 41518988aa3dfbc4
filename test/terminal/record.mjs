// Records a session at the terminal and renders it as docs/terminal.svg: npm run record
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { spawn } from '@lydell/node-pty';
import { renderSvg } from './render-svg.mjs';

const ROOT = resolve(import.meta.dirname, '../..');
const MAIN = join(ROOT, 'dist/cli/main.js');
const [COLUMNS, ROWS] = [84, 16];

/** What is typed, and for how many seconds each screen stays. */
const SCENES = [
  ['savestate run -s trip -n 4 "Plan a day in Lisbon"', 5],
  ['savestate log', 4],
  [`savestate fork 'round 2' -b rest --switch --set 'agents.critic.systemMessage=You check plans. Be strict.'`, 4],
  ['savestate continue -n 3', 4],
  ['savestate log --graph', 6],
  ['savestate diff main rest', 6],
  ['savestate grep -i castle', 4],
];

/** Everything that a command shows on a terminal, with its colours. */
function show(command, folder) {
  const env = { ...process.env, HOME: folder, XDG_STATE_HOME: join(folder, '.state'), USER: 'ann', PAGER: 'cat' };
  const line = `savestate() { "${process.execPath}" "${MAIN}" "$@"; }; ${command}`;
  const terminal = spawn('bash', ['-c', line], {
    cwd: folder,
    env: { ...env, TERM: 'xterm-256color' },
    cols: COLUMNS,
    rows: 200,
  });
  let shown = '';
  terminal.onData((text) => {
    shown += text;
  });
  return new Promise((done) => {
    terminal.onExit(() => setImmediate(() => done(shown.replaceAll('\r', ''))));
  });
}

const folder = mkdtempSync(join(tmpdir(), 'savestate-recording-'));
writeFileSync(join(folder, 'savestate.yaml'), `team: ${join(ROOT, 'examples/team/team.yaml')}\n`);
const scenes = [];
for (const [command, seconds] of SCENES) scenes.push({ command, seconds, output: await show(command, folder) });
rmSync(folder, { recursive: true, force: true });
const file = process.argv[2] ?? join(ROOT, 'docs/terminal.svg');
writeFileSync(file, renderSvg(scenes, { columns: COLUMNS, rows: ROWS }));
console.log(`${file}: ${scenes.length} screens`);
