import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { DatabaseSync } from '@photostructure/sqlite';
import widthOf from 'string-width';
import { describe, expect, test } from 'vitest';
import { run } from './support/cli.ts';
import { DATABASE } from './support/fixture.ts';
import { copiesOf, newFolder } from './support/folder.ts';

/** Sessions of every kind, one of them with a damaged checkpoint. */
const gallery = copiesOf(async () => {
  const folder = newFolder();
  execFileSync(process.execPath, [join(import.meta.dirname, 'support/gallery.mjs'), folder]);
  const database = new DatabaseSync(join(folder, DATABASE));
  database.exec(
    `UPDATE checkpoint SET root_text = replace(root_text, 'second', 'secont') WHERE root_text LIKE '%second thing%'`,
  );
  database.close();
  return folder;
});

const SESSIONS = ['trip', 'lg/ann', 'rivers', 'refund-1042', 'clerk', 'サポート-42', 'empty', 'damaged'];

/** What the issue of the terminal names, on real data. */
const SCREENS: readonly (readonly string[])[] = [
  ['sessions'],
  ...SESSIONS.map((session) => ['log', '-s', session]),
  ['log', '-s', 'trip', '--graph'],
  ['log', '-s', 'clerk', '--oneline'],
  ...SESSIONS.map((session) => ['repl', '-s', session, '--eval', 'checkpoints']),
  ...SESSIONS.map((session) => ['show', '-s', session]),
  ['show', '-s', 'damaged', '@~1'],
  ['diff', '-s', 'trip', 'main', 'slower'],
  ['diff', '-s', 'lg/ann'],
  ['diff', '-s', 'rivers'],
  ['log', '-s', 'refund-1042', '--oneline'],
  ['diff', '-s', 'refund-1042', '@~3', '@~1'],
  ['diff', '-s', 'clerk', '@~3', '@~2'],
  ['diff', '-s', 'サポート-42', 'main', 'kinder'],
  ['diff', '-s', 'damaged'],
  ...SESSIONS.map((session) => ['drift', session]),
  ['grep', '-i', 'tram', '-s', 'trip'],
  ['blame', 'messages', '-s', 'サポート-42'],
  ['stats'],
];

/** Ids, times and sizes of files differ from one run to the next, and are as long. */
function normalise(text: string): string {
  return text
    .replaceAll(/(?<=\bchk_|\b)01[0-9a-hjkmnp-tv-z]{11}([0-9a-hjkmnp-tv-z]{9})?\b/g, (id) => '0'.repeat(id.length))
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '00000000-0000-0000-0000-000000000000')
    .replaceAll(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g, '2026-01-31 09:30:00')
    .replaceAll(/storage {2}sqlite:[\s\S]*?checkpoints\.db/g, 'storage  sqlite:…/checkpoints.db')
    .replaceAll(/\d[\d.]*(?= (B|kB|chunks)\b)/g, (size) => size.replaceAll(/\d/g, '0'));
}

describe.each([80, 120])('screens of %d columns', (columns) => {
  test('[cli.3] are as they were looked at, none wider, and the same with colours', { timeout: 120_000 }, async () => {
    const folder = await gallery();
    const shown: string[] = [];
    for (const args of SCREENS) {
      const env = { PAGER: 'cat', NO_COLOR: '1' };
      const { stdout, stderr, code } = await run(args, { folder, columns, env });
      const text = stdout + stderr;
      expect([args, text.split('\n').filter((line) => widthOf(line) > columns)]).toEqual([args, []]);
      shown.push(`$ savestate ${args.join(' ')}${code === 0 ? '' : `   (exits with ${code})`}\n${normalise(text)}`);
      if (columns !== 80) continue;
      const colored = await run([...args, '--progress', 'never'], { folder, columns, env: { PAGER: 'cat' } });
      expect(stripVTControlCharacters(colored.stdout + colored.stderr)).toBe(text);
    }
    await expect(shown.join('\n')).toMatchFileSnapshot(`./screens/${columns}.txt`);
  });
});
