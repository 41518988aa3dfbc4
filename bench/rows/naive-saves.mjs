import { join } from 'node:path';
import { collectYoungGarbage, createFsyncProbe, interleave } from '../measure.mjs';
import { createMessages, createState, jsonBytes } from '../messages.mjs';
import { openJsonFiles, openJsonRows } from '../naive.mjs';
import { formatBytes, formatMs, formatNumber } from '../report.mjs';
import { fileBytes, reopenLong } from '../workbench.mjs';

export const naiveSaves = {
  id: 'naive',
  title: 'beside naive implementations, power-safe: save time and bytes on disk',
  run,
};

const SIZES = [100, 1000, 5000];
const SAMPLES = 20;

async function run(workbench) {
  for (const count of SIZES) await compareAt(workbench, count);
  workbench.report.note(
    'The naive sides are sampled, not run: their bytes on disk are the sum over all their checkpoints, of JSON for the files,',
  );
  workbench.report.note('and of JSON times what SQLite added to the sampled rows. Ours is the real file after close.');
}

async function compareAt(workbench, count) {
  const probe = createFsyncProbe(workbench.folder);
  const ours = await reopenLong(workbench, { durability: 'power', count, seed: 9 });
  const bytes = { ours: fileBytes(ours.path) };
  const files = openJsonFiles(join(workbench.folder, `json-${count}`));
  const rows = openJsonRows(workbench.newPath());
  const rowsBefore = rows.bytes();
  let written = 0;
  const stateNow = () => {
    collectYoungGarbage();
    return ours.growing.state;
  };
  const sides = await interleave(
    {
      ours: ours.growing.side,
      'JSON files': { prepare: stateNow, run: files.save },
      'JSON rows': {
        prepare: () => {
          const state = stateNow();
          written += jsonBytes(state);
          return state;
        },
        run: rows.save,
      },
      'fsync probe': probe,
    },
    { rounds: workbench.rounds(SAMPLES), warmup: 2 },
  );
  bytes['JSON files'] = wholeHistoryBytes(count);
  bytes['JSON rows'] = (bytes['JSON files'] * (rows.bytes() - rowsBefore)) / written;
  rows.close();
  await ours.manager.close();
  probe.close();
  print(workbench.report, { count, sides, bytes });
}

/** What all checkpoints of a conversation take if each holds everything so far. */
function wholeHistoryBytes(count) {
  let stateBytes = jsonBytes(createState([]));
  let total = 0;
  for (const message of createMessages(count)) {
    stateBytes += jsonBytes(message) + 1;
    total += stateBytes;
  }
  return total;
}

function print(report, { count, sides, bytes }) {
  const ours = sides.ours;
  const probe = sides['fsync probe'];
  report.note(
    `${count.toLocaleString('en')} messages (fsync probe ${formatMs(probe.median)}, p10 ${formatMs(probe.p10)})`,
  );
  for (const name of ['ours', 'JSON files', 'JSON rows']) {
    const { median, p10 } = sides[name];
    const ratios =
      name === 'ours'
        ? ''
        : ` · ours takes ${formatNumber(ours.median / median)} of the time, ${formatNumber(bytes.ours / bytes[name])} of the bytes`;
    report.note(
      `  ${name.padEnd(11)} save ${formatMs(median)} (p10 ${formatMs(p10)}) · on disk ${formatBytes(bytes[name])}${ratios}`,
    );
  }
}
