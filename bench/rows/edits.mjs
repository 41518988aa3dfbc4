import { join } from 'node:path';
import { CheckpointManager, SqliteCheckpointStorage } from '../../dist/index.js';
import { collectYoungGarbage, createFsyncProbe, interleave, summarise } from '../measure.mjs';
import { createMessage, jsonBytes } from '../messages.mjs';
import { openJsonFiles, openJsonRows } from '../naive.mjs';
import { formatBytes, formatMs, formatNumber } from '../report.mjs';
import { commitBytes, edited, fileBytes, LONG, longState, openManager, recordCommits } from '../workbench.mjs';

export const edits = {
  id: 'edits',
  title: 'edits of a 5,000-message state, power-safe: save time and new bytes per save, ours beside naive',
  run,
};

const ROUNDS = 20;
const TRIMMED = 10;

/** Each makes the next state from the last one; `again` says that every round starts from the same state, saved in between. */
const EDITS = [
  { name: 'one message appended', edit: (draft, message) => void draft.messages.push(message) },
  {
    name: 'one message in the middle rewritten',
    edit: (draft, message, round) => rewrite(draft.messages[2500 + round], message),
  },
  {
    name: 'one message inserted in the middle',
    edit: (draft, message, round) => void draft.messages.splice(2000 + 7 * round, 0, message),
  },
  { name: 'ten dropped at the front, one appended', edit: trim },
  {
    name: 'first half replaced by a summary',
    edit: (draft, message) => void draft.messages.splice(0, LONG / 2, message),
    again: true,
  },
  {
    name: 'plain mutable state: one message pushed',
    edit: (state, message) => void state.messages.push(message),
    isMutable: true,
  },
];

function rewrite(old, message) {
  old.content = message.content;
}

function trim(draft, message) {
  draft.messages.splice(0, TRIMMED);
  draft.messages.push(message);
}

async function run(workbench) {
  for (const [at, edit] of EDITS.entries()) await compareEdit(workbench, edit, at);
}

async function compareEdit(workbench, { name, edit, again = false, isMutable = false }, at) {
  const start = isMutable ? structuredClone(longState()) : longState();
  const path = workbench.newPath();
  const bytesBefore = await saveOnce(path, start);
  const storage = new SqliteCheckpointStorage({ path });
  const commits = recordCommits(storage);
  const manager = new CheckpointManager({ storage });
  const session = await manager.session('edited');
  const history = { state: start };
  const prepare = async (round) => {
    if (again) await session.save(start);
    const message = createMessage(round, 500 + at);
    const from = again ? start : history.state;
    if (isMutable) edit(from, message, round);
    else history.state = edited(from, (draft) => edit(draft, message, round));
    return history.state;
  };
  const save = (state) => session.save(state);
  const sides = await timeEdit(workbench, { at, prepare, save, history, weigh: () => commitBytes(commits.at(-1)) });
  const saves = session.head.sequence - 1;
  await manager.close();
  print(workbench.report, name, { ...sides, growth: (fileBytes(path) - bytesBefore) / saves });
}

/** The file of a session with one checkpoint, closed; answers its size. */
async function saveOnce(path, state) {
  const manager = openManager(path);
  await (await manager.session('edited')).save(state);
  await manager.close();
  return fileBytes(path);
}

async function timeEdit(workbench, { at, prepare, save, history, weigh }) {
  const files = openJsonFiles(join(workbench.folder, `edit-${at}`));
  const rows = openJsonRows(workbench.newPath());
  const probe = createFsyncProbe(workbench.folder);
  const weights = [];
  const stateNow = () => {
    collectYoungGarbage();
    return history.state;
  };
  const probeAndWeigh = { prepare: () => void weights.push(weigh()), run: probe.run };
  const sides = await interleave(
    {
      ours: { prepare, run: save },
      'JSON files': { prepare: stateNow, run: files.save },
      'JSON rows': { prepare: stateNow, run: rows.save },
      probe: probeAndWeigh,
    },
    { rounds: workbench.rounds(ROUNDS), warmup: workbench.warmup(2) },
  );
  rows.close();
  probe.close();
  return { ...sides, bytes: summarise(weights).median, naiveBytes: jsonBytes(history.state) };
}

function print(report, name, { ours, probe, bytes, naiveBytes, growth, ...sides }) {
  report.note(`${name} (fsync probe ${formatMs(probe.median)}, p10 ${formatMs(probe.p10)})`);
  report.note(
    `  ours        save ${formatMs(ours.median)} (p10 ${formatMs(ours.p10)}) · ${formatBytes(bytes)} given to the storage, file grows by ${formatBytes(growth)}, ${formatNumber(growth / naiveBytes)} of the state's JSON`,
  );
  for (const [side, { median, p10 }] of Object.entries(sides)) {
    report.note(
      `  ${side.padEnd(11)} save ${formatMs(median)} (p10 ${formatMs(p10)}) · ${formatBytes(naiveBytes)} · ours takes ${formatNumber(ours.median / median)} of the time`,
    );
  }
}
