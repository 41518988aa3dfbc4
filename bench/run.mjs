import { fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { cpus, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeDocument } from './document.mjs';
import { createFsyncProbe, interleave } from './measure.mjs';
import { formatMs, Report } from './report.mjs';
import { ROWS } from './rows.mjs';
import { readWords } from './words.mjs';

const { isQuick, isReported, wanted, said, exitCode } = readWords(process.argv.slice(2), ROWS);
if (said !== undefined) {
  process.stdout.write(said);
  process.exit(exitCode);
}
const report = new Report();
const folder = mkdtempSync(join(tmpdir(), 'savestate-bench-'));
process.on('SIGINT', () => undefined); // the row is interrupted, too, and ends the run

try {
  const conditions = await readConditions();
  console.log(`savestate bench: ${conditions.join(', ')}`);
  console.log('what, target, measured ratio of medians (of tenth percentiles), verdict; below it the raw figures');
  const left = [...wanted];
  try {
    for (const id of wanted) {
      report.add(await runRow(id));
      left.shift();
    }
  } finally {
    report.summary();
    if (left.length > 0) conditions.push(`cut off: ${left.join(', ')} did not run`);
    if (isReported) writeDocument(join(import.meta.dirname, '../docs'), { report, conditions });
  }
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** A row has a process of its own, so that what one taught the engine about our code does not change the next. Returns what it found. */
async function runRow(id) {
  const job = JSON.stringify({ id, isQuick, folder });
  const child = fork(join(import.meta.dirname, 'row.mjs'), [job], { execArgv: ['--expose-gc'] });
  let found;
  child.once('message', (message) => {
    found = message;
  });
  const code = await new Promise((resolve) => child.once('close', resolve));
  if (code !== 0 || found === undefined) throw new Error(`The row ${id} ended with ${code}.`);
  return found;
}

/** The machine a run met. Its load counts the run itself, but not at the beginning. */
async function readConditions() {
  const probe = createFsyncProbe(folder);
  const { fsync } = await interleave({ fsync: probe }, { rounds: 30 });
  probe.close();
  return [
    isQuick ? 'a tenth of the rounds: do not quote these figures' : 'all rounds',
    `Node ${process.version}, ${process.platform}, ${cpus().length} cores`,
    `load ${loadavg()[0].toFixed(1)} at the beginning`,
    `fsync probe ${formatMs(fsync.median)} (p10 ${formatMs(fsync.p10)})`,
  ];
}
