// Puts the counts of a full run of the fault loops into docs/GUARANTEES.md.
//   npm run test:faults 2>&1 | tee faults.log && node scripts/guarantees.mjs faults.log
// Reads the lines `FAULTS <what>: n=... failures=... bound95=...`. Rows that the log does not speak of stay, with the day they have.
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const PAGE = join(resolve(import.meta.dirname, '..'), 'docs/GUARANTEES.md');
const LINE = /FAULTS (.+): n=(\d+) failures=(\d+) bound95=(\S+)/;
const HEAD = ['what', 'n', 'failures', 'rate below (95 %)', 'run of'];

/** The rows of a log; of a loop that ran more than once in it, the last. */
export function readLog(log, day) {
  const rows = new Map();
  for (const line of log.split('\n')) {
    const [, what, n, failures, bound] = LINE.exec(line) ?? [];
    if (what !== undefined)
      rows.set(what, [what, n, failures, Number(failures) === 0 ? bound : 'see the failures', day]);
  }
  return rows;
}

/** The page with the rows in its table of counts, in the order of their names. */
export function replaceRows(page, rows) {
  const start = page.indexOf(`| ${HEAD[0]}`, page.indexOf('## Counts of a full run'));
  const end = page.indexOf('\n\n', start);
  if (start < 0 || end < 0) throw new Error('docs/GUARANTEES.md has no table of counts.');
  const cells = (line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim());
  const found = page.slice(start, end).split('\n').slice(2).map(cells);
  const merged = new Map([...found.map((row) => [row[0], row]), ...rows]);
  const table = [...merged.values()].sort(([a], [b]) => (a < b ? -1 : 1));
  const format = (row) => `| ${HEAD.map((_, at) => row[at] ?? '').join(' | ')} |`;
  const lines = [format(HEAD), format(HEAD.map(() => '---')), ...table.map(format)];
  return page.slice(0, start) + lines.join('\n') + page.slice(end);
}

const [, program, path] = process.argv;
if (program === import.meta.filename) {
  if (path === undefined) throw new Error('Which log? node scripts/guarantees.mjs faults.log');
  const rows = readLog(readFileSync(path, 'utf8'), new Date().toISOString().slice(0, 10));
  if (rows.size === 0) throw new Error(`${path} has no line that begins with FAULTS.`);
  writeFileSync(PAGE, replaceRows(readFileSync(PAGE, 'utf8'), rows));
  console.log(`${rows.size} rows of docs/GUARANTEES.md are those of ${path}.`);
}
