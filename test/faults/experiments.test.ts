import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import '../support/built.ts';

const ROOT = resolve(import.meta.dirname, '../..');

async function run(name: string, ...args: string[]): Promise<string[]> {
  const program = join(ROOT, 'examples/experiments', `${name}.mjs`);
  const { stdout } = await promisify(execFile)(process.execPath, [program, ...args]);
  return stdout.trimEnd().split('\n');
}

test('the experiments come out as docs/EXPERIMENTS.md says', async () => {
  const document = readFileSync(join(ROOT, 'docs/EXPERIMENTS.md'), 'utf8').replace(/[ ,*`]+/g, '');
  const rows = async (name: string, ...args: string[]): Promise<string[][]> =>
    (await run(name, ...args)).slice(1).map((line) => line.split(' | '));
  const cost = await rows('save-cost', '100');
  for (const [messages, state, , , written] of cost.slice(0, 2))
    expect(document).toMatch(new RegExp(`\\|${messages}\\|${state}kB\\|[^|]*\\|${written}kB\\|`));
  expect(cost.at(-1)).toEqual(['100 checkpoints can be loaded; verify: clean.']);
  for (const [, ...cells] of (await rows('what-if')).slice(1, 3))
    expect(document).toContain(`|${cells.join('|').replaceAll(' ', '')}|`);
  for (const cells of await rows('drift'))
    expect(document).toContain(`|${cells.join('|').replaceAll(' ', '').replaceAll('.0', '')}|`);
  const crash = Object.fromEntries((await run('crash', '3')).map((line) => line.split(': ')));
  expect(crash).toMatchObject({ paidTwice: '0', lost: '0', damaged: '0' });
});
