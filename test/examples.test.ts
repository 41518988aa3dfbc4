import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const ROOT = resolve(import.meta.dirname, '..');

/** Runs an example as its reader would, with the built library; rejects if it does not end with 0. */
async function run(example: string): Promise<string[]> {
  const { stdout } = await promisify(execFile)(process.execPath, [join(ROOT, 'examples', example)]);
  return stdout.trimEnd().split('\n');
}

/** What was said between two numbered headings. */
function part(lines: readonly string[], number: number): string[] {
  const begin = lines.findIndex((line) => line.startsWith(`${number}. `));
  const end = lines.findIndex((line) => line.startsWith(`${number + 1}. `));
  return lines.slice(begin + 1, end < 0 ? undefined : end).map((line) => line.trim());
}

test('a LangGraph graph is killed, goes on elsewhere, waits for a person, and is looked at afterwards', async () => {
  const lines = await run('langgraph/approval.mjs');
  expect(part(lines, 1)).toEqual([
    'agent runs: the model thinks',
    'lookUp runs: the tool reads order 1042',
    'agent runs: the model thinks',
    'the model does not answer',
    '(killed with SIGKILL)',
  ]);
  expect(part(lines, 2)).toEqual(['agent runs: the model thinks', 'waits for a person: Pay 39 back for order 1042?']);
  expect(part(lines, 3)).toEqual([
    'refund runs: Ann said yes',
    'agent runs: the model thinks',
    'done: You get 39 back.',
  ]);
  expect(part(lines, 4)).toHaveLength(7);
  expect(part(lines, 5)).toEqual(['$.channel_values.messages[4]: {"paid":39}']);
  expect(part(lines, 6).at(-1)).toBe('waits for a person: Pay 45 back for order 1042?');
  expect(part(lines, 7)).toEqual([
    expect.stringMatching(/^fork-.*: \{"item":"teapot","price":45\}$/),
    'main: {"item":"teapot","price":39}',
  ]);
  expect(lines.at(-1)).toMatch(/^8\. Verified: \d+ checkpoints, clean\.$/);
});
