import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { MemorySaver } from '@langchain/langgraph-checkpoint';
import { GrowingThread } from '../langgraph/conversation.mjs';
import { collectYoungGarbage, createFsyncProbe, interleave } from '../measure.mjs';
import { createMessage, createMessages, createState, jsonBytes, messageBytes } from '../messages.mjs';
import { openJsonFiles, openJsonRows } from '../naive.mjs';
import { openRaw } from '../raw-sqlite.mjs';
import { formatBytes, formatMs, formatNumber } from '../report.mjs';
import { fileBytes, openManager, reopenLong } from '../workbench.mjs';

export const naiveSaves = {
  id: 'naive',
  title: 'a growing conversation beside naive savers, an in-memory saver and a plain insert: save, bytes, cold start',
  run,
};

const SIZES = [100, 300, 1000, 5000];
const SAMPLES = 20;
const OURS = 'Savestate';
const FILES = 'JSON files';
const ROWS = 'JSON rows';
const IN_MEMORY = 'LangGraph in memory';
const FLOOR = 'SQLite insert';
const MESSAGES = 'messages alone';
const PARSE = 'read file, parse';

async function run(workbench) {
  for (const count of SIZES) {
    const { path, sides, bytes } = await compareSaves(workbench, count);
    print(workbench.report, { count, sides, bytes });
    await compareStarts(workbench, { path, count });
  }
  workbench.report.note(
    'The naive sides are sampled, not run: their bytes are the sum over all their checkpoints, of JSON for the files, and of JSON',
  );
  workbench.report.note(
    'times what SQLite or the in-memory saver added for the sampled ones. Ours is the real file after close.',
  );
}

/** One save at this length, power-safe but for the saver in memory. */
async function compareSaves(workbench, count) {
  const probe = createFsyncProbe(workbench.folder);
  const ours = await reopenLong(workbench, { durability: 'power', count, seed: 9 });
  const oursBytes = fileBytes(ours.path);
  const files = openJsonFiles(join(workbench.folder, `json-${count}`));
  const rows = openJsonRows(workbench.newPath());
  const rowsBefore = rows.bytes();
  const floor = openRaw(workbench.newPath(), 'FULL');
  const inMemory = await grownThread(count);
  let written = 0;
  const stateNow = () => {
    collectYoungGarbage();
    return ours.growing.state;
  };
  const sides = await interleave(
    {
      [OURS]: ours.growing.side,
      [FILES]: { prepare: stateNow, run: files.save },
      [ROWS]: {
        prepare: () => {
          const state = stateNow();
          written += jsonBytes(state);
          return state;
        },
        run: rows.save,
      },
      [IN_MEMORY]: { prepare: () => inMemory.thread.prepare(), run: (next) => inMemory.thread.save(next) },
      [FLOOR]: { prepare: (round) => JSON.stringify(createMessage(count + round, 9)), run: floor.insert },
      'fsync probe': probe,
    },
    { rounds: workbench.rounds(SAMPLES), warmup: 2 },
  );
  const history = wholeHistoryBytes(count);
  const bytes = {
    [OURS]: oursBytes,
    [FILES]: history,
    [ROWS]: (history * (rows.bytes() - rowsBefore)) / written,
    [IN_MEMORY]: history * inMemory.bytesOverJson(),
    [MESSAGES]: messageBytes(createMessages(count)),
  };
  rows.close();
  floor.close();
  probe.close();
  await ours.manager.close();
  return { path: ours.path, sides, bytes };
}

/** A thread of this length in LangGraph's own saver, and what that saver holds for a checkpoint, divided by the JSON of its messages. */
async function grownThread(count) {
  const saver = new MemorySaver();
  const thread = new GrowingThread(saver, 'thread', 9);
  await thread.begin();
  let next = thread.prepare();
  while (thread.length < count) next = thread.prepare();
  await thread.save(next);
  const bytesOverJson = () => {
    const checkpoints = Object.values(saver.storage.thread['']);
    const held = checkpoints.reduce((sum, parts) => sum + partBytes(parts), 0);
    return held / ((checkpoints.length - 1) * jsonBytes(createState(createMessages(count, 9))));
  };
  return { thread, bytesOverJson };
}

function partBytes(parts) {
  return parts.reduce((sum, part) => sum + (part instanceof Uint8Array ? part.byteLength : 0), 0);
}

/** From a closed file to the whole state in memory, in a process that is warm. */
async function compareStarts(workbench, { path, count }) {
  const state = await withState(path, (found) => JSON.stringify(found));
  const file = workbench.newPath('json');
  writeFileSync(file, state);
  const rowsPath = workbench.newPath();
  const rows = openRaw(rowsPath, 'FULL');
  rows.insert(state);
  rows.close();
  const sides = await interleave(
    {
      [OURS]: { prepare: collectYoungGarbage, run: () => withState(path, (found) => check(found, count)) },
      [ROWS]: { prepare: collectYoungGarbage, run: () => check(JSON.parse(lastRow(rowsPath)), count) },
      [PARSE]: { prepare: collectYoungGarbage, run: () => check(JSON.parse(readFileSync(file, 'utf8')), count) },
    },
    { rounds: workbench.rounds(SAMPLES), warmup: 2 },
  );
  const figures = Object.entries(sides).map(([name, { median }]) => {
    workbench.report.point('resume', name, [count, median]);
    return `${name} ${formatMs(median)}`;
  });
  workbench.report.note(`  cold start: ${figures.join(' · ')}`);
}

async function withState(path, use) {
  const manager = openManager(path);
  const used = use((await manager.session('long')).state);
  await manager.close();
  return used;
}

function lastRow(path) {
  const raw = openRaw(path, 'FULL');
  const { text } = raw.db.prepare('SELECT text FROM row ORDER BY n DESC LIMIT 1').get();
  raw.close();
  return text;
}

function check({ messages }, count) {
  if (messages.length < count) throw new Error(`Read ${messages.length} messages instead of ${count}.`);
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
  const ours = sides[OURS];
  const { 'fsync probe': probe, ...savers } = sides;
  report.note(
    `${count.toLocaleString('en')} messages (fsync probe ${formatMs(probe.median)}, p10 ${formatMs(probe.p10)})`,
  );
  for (const [name, { median, p10 }] of Object.entries(savers)) {
    report.point('save', name, [count, median]);
    const stored = bytes[name] === undefined ? '' : ` · stored ${formatBytes(bytes[name])}`;
    const ratio = name === OURS ? '' : ` · ours takes ${formatNumber(ours.median / median)} of the time`;
    const share =
      name === OURS || bytes[name] === undefined ? '' : `, ${formatNumber(bytes[OURS] / bytes[name])} of the bytes`;
    report.note(`  ${name.padEnd(20)} save ${formatMs(median)} (p10 ${formatMs(p10)})${stored}${ratio}${share}`);
  }
  for (const [name, size] of Object.entries(bytes)) report.point('bytes', name, [count, size]);
}
