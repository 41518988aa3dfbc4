import { createFsyncProbe, interleave } from '../measure.mjs';
import { installPeers } from '../peers.mjs';
import { formatMs, Report } from '../report.mjs';
import { Workbench } from '../workbench.mjs';
import { Arena } from './arena.mjs';
import { graph } from './graph.mjs';
import { limits } from './limits.mjs';
import { put } from './put.mjs';

const MODES = [put, limits, graph];

const words = process.argv.slice(2);
const isQuick = words.includes('--quick');
const wanted = words.filter((word) => !word.startsWith('--'));
installPeers(import.meta.dirname);
const report = new Report();
const workbench = new Workbench({ isQuick, report });
const arena = new Arena(workbench.folder);

process.once('SIGINT', async () => {
  await arena.stop();
  workbench.remove();
  process.exit(130);
});

try {
  await printConditions();
  await arena.start();
  for (const { id, title, run, parts = [] } of MODES) {
    if (wanted.length > 0 && ![id, ...parts].some((word) => wanted.includes(word))) continue;
    report.heading(`${id}  ${title}`);
    const start = performance.now();
    await run({ arena, report, isQuick, wanted });
    report.note(`(${((performance.now() - start) / 1000).toFixed(0)} s)`);
  }
  report.summary();
} finally {
  await arena.stop();
  workbench.remove();
}

async function printConditions() {
  const probe = createFsyncProbe(workbench.folder);
  const { fsync } = await interleave({ fsync: probe }, { rounds: 30 });
  probe.close();
  const size = isQuick ? 'few messages, one round; do not quote these figures' : 'full';
  console.log(
    `savestate bench of LangGraph checkpointers (${size}): Node ${process.version}, ${process.platform}, fsync probe ${formatMs(fsync.median)} (p10 ${formatMs(fsync.p10)})`,
  );
  console.log('what, target, measured ratio of medians (of the best rounds), verdict; below it the raw figures');
}
