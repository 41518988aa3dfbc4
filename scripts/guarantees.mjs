// Puts the counts of a full run of the fault loops into docs/GUARANTEES.md.
//   npm run test:faults 2>&1 | tee faults.log; node scripts/guarantees.mjs faults.log --whole
//   npx vitest run --reporter=json --outputFile=cases.json && node scripts/guarantees.mjs cases.json
// The second fills the rows of promises that have no loop with the cases of the tests that they name.
// Reads the lines `FAULTS <what>: n=... failures=... bound95=...`. Rows that the log does not speak of stay, with the day they have; after
// `--whole` they go, because the log is of all loops: `node scripts/guarantees.mjs faults.log --whole`.
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const PAGE = join(resolve(import.meta.dirname, '..'), 'docs/GUARANTEES.md');
const LINE = /FAULTS (.+): n=(\d+) failures=(\d+) bound95=(\S+)/;
const HEAD = ['what', 'n', 'failures', 'rate below (95 %)', 'run of'];
const PROMISE_HEAD = ['promise', 'in short', 'the test that shows it', 'n, failures, rate below'];
/** Which loops count for a promise, by how their names begin. The others are shown by the cases of their tests, each run. */
const LOOPS = {
  D1: /^saves|^simulated/,
  D2: /^power cuts|^sync before/,
  D3: /^failed syncs/,
  D4: /^full disks/,
  D5: /^postgres synchronous/,
  D6: /^failing commits|^postgres connections|^simulated/,
  D7: /^writers stopped|^contenders|^simulated/,
  D8: /^clocks/,
  D9: /^random histories/,
  D10: /^random (edit histories|values)/,
  D11: /^writers, prune|^simulated/,
  D12: /^bit flips|^truncations|^swaps|^columns/,
  D14: /^steps|^workflow|^agents/,
  D15: /^simulated/,
  D16: /^soak/,
  S1: /^fuzz/,
  S2: /^fuzz/,
  S3: /^hostile filters/,
  S4: /^cross-tenant/,
  S5: /^planted secrets/,
  S6: /^changes below/,
  S7: /^saves encrypted/,
  S8: /^requests of other/,
  S11: /^hostile sizes/,
  S13: /^fuzz, mcp/,
  S14: /^changes to the chain/,
};
/** Their trials are of one run, so that no rate follows from them. */
const ONE_RUN = /^soak|^sync before|^writers, prune/;
const NO_RATE = 'none: of one run, not independent';
const CASES = ' cases of the tests, ';

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

/** How many cases each test file has, and how many of them failed, by the report of a run of the tests. */
export function readCases(report) {
  return report.testResults.map(({ name, assertionResults }) => {
    const count = (status) => assertionResults.filter((result) => result.status === status).length;
    return { file: name.replaceAll('\\', '/'), cases: count('passed') + count('failed'), failures: count('failed') };
  });
}

/** The page with the rows in its table of counts, in the order of their names, and what they add up to for each promise. */
export function replaceRows(page, rows, { cases = [], isWhole = false } = {}) {
  const before = isWhole ? [] : readTable(page, '## Counts of a full run', HEAD);
  const counts = new Map(before.map((row) => [row[0], row]));
  for (const [what, row] of rows) counts.set(what, withNote(row));
  const table = [...counts.values()].sort(([a], [b]) => (a < b ? -1 : 1));
  const promises = readTable(page, '## Promises by number', PROMISE_HEAD).map(([id, short, shown, before]) => [
    id,
    short,
    shown,
    id in LOOPS ? addUp(table.filter(([what]) => LOOPS[id].test(what))) : addUpCases(shown, cases, before),
  ]);
  const counted = writeTable(page, ['## Counts of a full run', HEAD], table);
  return writeTable(counted, ['## Promises by number', PROMISE_HEAD], promises);
}

function withNote(row) {
  return ONE_RUN.test(row[0]) && row[2] === '0' ? row.with(3, NO_RATE) : row;
}

/** Only if the run had all the files, but those of the fault loops: otherwise what was there stays. */
function addUpCases(shown, cases, before) {
  const named = [...shown.matchAll(/`([^`]+\.test\.ts)`/g)].map(([, file]) => file);
  const files = named.filter((file) => !file.startsWith('test/faults/'));
  const found = files.flatMap((file) => cases.filter((one) => one.file.endsWith(`/${file}`)));
  if (found.length < files.length || files.length === 0) return before;
  const sum = (key) => found.reduce((total, one) => total + one[key], 0);
  return `${sum('cases')}${CASES}${sum('failures')}`;
}

/** The bound is that of the loop with the fewest trials: loops differ, so that their trials do not make one number. */
function addUp(loops) {
  if (loops.length === 0) return 'at a tenth with each change; no full run yet';
  const sum = (at) => loops.reduce((total, row) => total + Number(row[at]), 0);
  const bounds = loops.map((row) => Number.parseFloat(row[3])).filter((bound) => bound > 0);
  const bound = bounds.length === 0 ? '' : `, ${Math.max(...bounds)}%`;
  return `${sum(1)} in ${loops.length} ${loops.length === 1 ? 'loop' : 'loops'}, ${sum(2)}${bound}`;
}

function placeOf(page, title, head) {
  const start = page.indexOf(`| ${head[0]}`, page.indexOf(title));
  const end = page.indexOf('\n\n', start);
  if (start < 0 || end < 0) throw new Error(`docs/GUARANTEES.md has no table below "${title}".`);
  return [start, end];
}

function readTable(page, title, head) {
  const cells = (line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim());
  return page
    .slice(...placeOf(page, title, head))
    .split('\n')
    .slice(2)
    .map(cells);
}

function writeTable(page, [title, head], rows) {
  const [start, end] = placeOf(page, title, head);
  const format = (row) => `| ${head.map((_, at) => row[at] ?? '').join(' | ')} |`;
  const lines = [format(head), format(head.map(() => '---')), ...rows.map(format)];
  return page.slice(0, start) + lines.join('\n') + page.slice(end);
}

const [, program, path, whole] = process.argv;
if (program === import.meta.filename) {
  if (path === undefined) throw new Error('Which log? node scripts/guarantees.mjs faults.log');
  const text = readFileSync(path, 'utf8');
  const cases = path.endsWith('.json') ? readCases(JSON.parse(text)) : [];
  const rows = readLog(cases.length === 0 ? text : '', new Date().toISOString().slice(0, 10));
  if (rows.size + cases.length === 0) throw new Error(`${path} has no line that begins with FAULTS, and no cases.`);
  writeFileSync(PAGE, replaceRows(readFileSync(PAGE, 'utf8'), rows, { cases, isWhole: whole === '--whole' }));
  console.log(`${rows.size} loops and ${cases.length} files of tests of docs/GUARANTEES.md are those of ${path}.`);
}
