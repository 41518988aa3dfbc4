import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import '../support/built.ts';
import { LATER } from '../support/later.ts';

const ROOT = resolve(import.meta.dirname, '../..');

/** What was said between two numbered headings. */
function part(lines: readonly string[], number: number): string[] {
  const begin = lines.findIndex((line) => line.startsWith(`${number}. `));
  const end = lines.findIndex((line) => line.startsWith(`${number + 1}. `));
  return lines.slice(begin + 1, end < 0 ? undefined : end).map((line) => line.trim());
}

test(
  '[run.6] the research fleet waits for people, is killed and resumed, gets unstuck, and takes another prompt',
  LATER,
  async () => {
    const program = join(ROOT, 'examples/fleet/research.mjs');
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [program]);
    const lines = stdout.trimEnd().split('\n');
    const answer = 'The Silver is the longest river, 1141 km longer than the Oldbrook.';
    expect(stderr).toBe('');
    expect(part(lines, 1)).toEqual(['waits (plan-1): Is this plan all right?']);
    expect(part(lines, 2)).toEqual([
      'Ann says approve to plan-1',
      'CONFLICT: Request "plan-1" was already answered by Ann: "approve".',
    ]);
    expect(part(lines, 3)).toContain('waits (plan-2): The last plan led nowhere. Is this one all right?');
    expect(part(lines, 4).slice(-2)).toEqual(['read_page {"page":"oldbrook"}', '(ended with SIGKILL)']);
    expect(part(lines, 5).filter((line) => line.startsWith('read_page'))).toEqual([
      'read_page {"page":"oldbrook"} (attempt 2)',
      'read_page {"page":"silver"}',
    ]);
    expect(part(lines, 5).at(-1)).toBe('waits (round-8-1): May writer call write_report (file_operations)?');
    expect(part(lines, 6)).toEqual([
      'Bo says approve to round-8-1',
      `write_report {"text":"${answer}"}`,
      'round 9: writer, Write the report.',
      `satisfied after 9 rounds and 1 resets: ${answer}`,
      '# Report',
      '',
      answer,
    ]);
    expect(part(lines, 7).at(-1)).toBe(`satisfied after 10 rounds and 1 resets: ${answer}`);
  },
);
