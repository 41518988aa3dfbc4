import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { installWithout } from './support/install-without.ts';
import { LATER } from './support/later.ts';

const ROOT = resolve(import.meta.dirname, '..');
const TEXT = readFileSync(join(ROOT, 'docs/TUTORIAL.md'), 'utf8');

const blocks = (kind: string) =>
  [...TEXT.matchAll(new RegExp(`^\`\`\`${kind}\\n([\\s\\S]*?)^\`\`\``, 'gm'))].map(([, code = '']) => code);
const linesOf = (text: string) => text.trim().split('\n');

/** The programs of the tutorial, by the names it says to save them under. */
function programs(): [name: string, code: string][] {
  const names = [...TEXT.matchAll(/Save this as `([^`]+)`/g)].map(([, name = '']) => name);
  return names.map((name, at) => [name, blocks('ts')[at] ?? '']);
}

/** A folder as the reader has it, with the programs as JavaScript: they must type-check for that. */
function createFolder(): string {
  const folder = installWithout('nothing');
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  for (const [name, code] of programs()) writeFileSync(join(folder, name), code.replace('sleep(1000)', 'sleep(1)'));
  const compilerOptions = { strict: true, module: 'nodenext', target: 'es2022', types: ['node'], skipLibCheck: true };
  const files = programs().map(([name]) => name);
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const { stdout } = spawnSync(process.execPath, [tsc, '-p', '.'], { cwd: folder, encoding: 'utf8' });
  expect(stdout).toBe('');
  return folder;
}

/** Kills the agent while it waits for its second answer, which never comes; returns what it had said. */
function killAtLunch(folder: string): string[] {
  const code = readFileSync(join(folder, 'agent.js'), 'utf8');
  writeFileSync(join(folder, 'slow.js'), code.replace('sleep(1)', "sleep(prompt.includes('lunch') ? 1e8 : 1)"));
  const [line = ''] = blocks('bash');
  const shell = line.replace('node --import tsx agent.ts', `'${process.execPath}' slow.js`);
  expect(shell).not.toBe(line);
  const { stdout } = spawnSync('bash', ['-c', shell], { cwd: folder, encoding: 'utf8' });
  return linesOf(stdout);
}

test('the tutorial: killed, resumed, looked at, forked, compared and replayed as it says', {
  ...LATER,
  timeout: 300_000,
}, () => {
  const [killed, resumed, forked, replayed] = blocks('text').map(linesOf);
  const folder = createFolder();
  const run = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8' });
    expect([status, stderr]).toEqual([0, '']);
    return linesOf(stdout);
  };
  expect(killAtLunch(folder)).toEqual(killed?.slice(0, -1));
  expect(run('agent.js')).toEqual(resumed);
  expect(run('agent.js')).toEqual(['resumed, notes so far: 4', 'done: 4 notes']);
  const cli = join(folder, 'node_modules/savestate/dist/cli/main.js');
  const [, looked = '', compared = '', listed = ''] = blocks('sh');
  const runAll = (lines: string) => {
    for (const line of linesOf(lines))
      expect(run(cli, ...line.replace('npx savestate ', '').split(' ')).length).toBeGreaterThan(1);
  };
  runAll(looked);
  expect(run('what-if.js')).toEqual(forked);
  runAll(compared);
  expect(run('report.js')).toHaveLength(3);
  expect(run('report.js')).toEqual(replayed);
  runAll(listed);
});
