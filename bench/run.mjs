import { cpus, loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { writeDocument } from './document.mjs';
import { createFsyncProbe, interleave } from './measure.mjs';
import { recall } from './memory/recall.mjs';
import { formatMs, Report } from './report.mjs';
import { row1 } from './rows/1-flat-saves.mjs';
import { row2 } from './rows/2-unchanged-walk.mjs';
import { row3 } from './rows/3-save-over-insert.mjs';
import { row4 } from './rows/4-bytes-on-disk.mjs';
import { row5 } from './rows/5-restore.mjs';
import { row6 } from './rows/6-compare.mjs';
import { row7 } from './rows/7-fork.mjs';
import { row8 } from './rows/8-many-sessions.mjs';
import { adapters } from './rows/adapters.mjs';
import { commandLine } from './rows/command-line.mjs';
import { documents } from './rows/documents.mjs';
import { edits } from './rows/edits.mjs';
import { encryption } from './rows/encryption.mjs';
import { imports } from './rows/imports.mjs';
import { memory } from './rows/memory.mjs';
import { naiveSaves } from './rows/naive-saves.mjs';
import { postgres } from './rows/postgres.mjs';
import { studio } from './rows/studio.mjs';
import { workflowSteps } from './rows/workflow.mjs';
import { readWords } from './words.mjs';
import { Workbench } from './workbench.mjs';

const ROWS = [
  row1,
  row2,
  row3,
  row4,
  row5,
  row6,
  row7,
  row8,
  naiveSaves,
  documents,
  edits,
  encryption,
  memory,
  postgres,
  recall,
  workflowSteps,
  adapters,
  commandLine,
  imports,
  studio,
];

const ids = ROWS.map(({ id }) => id);
const { isQuick, isReported, wanted, said, exitCode } = readWords(process.argv.slice(2), ids);
if (said !== undefined) {
  process.stdout.write(said);
  process.exit(exitCode);
}
const report = new Report();
const workbench = new Workbench({ isQuick, report });
process.once('SIGINT', () => {
  workbench.remove();
  process.exit(130);
});

try {
  const conditions = await readConditions();
  console.log(`savestate bench: ${conditions.join(', ')}`);
  console.log('what, target, measured ratio of medians (of tenth percentiles), verdict; below it the raw figures');
  for (const { id, title, run } of ROWS) {
    if (wanted.length > 0 && !wanted.some((word) => id.includes(word))) continue;
    report.heading(`${id}  ${title}`);
    const start = performance.now();
    await run(workbench);
    report.note(`(${((performance.now() - start) / 1000).toFixed(1)} s)`);
  }
  report.summary();
  if (isReported) writeDocument(fileURLToPath(new URL('../docs', import.meta.url)), { report, conditions });
} finally {
  workbench.remove();
}

/** The machine a run met. Its load counts the run itself, but not at the beginning. */
async function readConditions() {
  const probe = createFsyncProbe(workbench.folder);
  const { fsync } = await interleave({ fsync: probe }, { rounds: 30 });
  probe.close();
  return [
    isQuick ? 'a tenth of the rounds: do not quote these figures' : 'all rounds',
    `Node ${process.version}, ${process.platform}, ${cpus().length} cores`,
    `load ${loadavg()[0].toFixed(1)} at the beginning`,
    `fsync probe ${formatMs(fsync.median)} (p10 ${formatMs(fsync.p10)})`,
  ];
}
