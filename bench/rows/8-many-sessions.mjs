import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { CheckpointManager, SqliteCheckpointStorage } from '../../dist/index.js';
import { collectYoungGarbage, createFsyncProbe, interleave } from '../measure.mjs';
import { createMessage, createMessages } from '../messages.mjs';
import { openRaw } from '../raw-sqlite.mjs';
import { formatBytes } from '../report.mjs';
import { appended, commitBytes, frozenState, recordCommits } from '../workbench.mjs';

export const row8 = {
  id: 'row8',
  title:
    '200 sessions saving at once, power-safe: checkpoints/s ÷ raw SQLite inserts of the same bytes in groups of 50',
  run,
};

const SESSIONS = 200;
/** A multiple of five, so that every round has the same share of long messages. */
const SAVES_A_ROUND = 5;
const SUSTAINED_SAVES = 20;
const GROUP = 50;
const START_MESSAGES = 20;
const RESOLUTION_MS = 1;
const NS_PER_MS = 1e6;

async function run(workbench) {
  const storage = new SqliteCheckpointStorage({ path: workbench.newPath() });
  const commits = recordCommits(storage);
  const manager = new CheckpointManager({ storage });
  const agents = await openAgents(manager);
  const raw = openRaw(workbench.newPath(), 'FULL');
  const probe = createFsyncProbe(workbench.folder);
  const prepare = () => {
    commits.length = 0;
    prepareStates(agents, SAVES_A_ROUND);
  };
  const ours = { prepare, run: () => Promise.all(agents.map(saveAll)) };
  const floor = { prepare: () => prepareGroups(commits.map(commitBytes)), run: (groups) => insertGroups(raw, groups) };
  const sides = await interleave(
    { '200 sessions': ours, 'groups of 50': floor, 'fsync probe': probe },
    { rounds: workbench.rounds(30), warmup: 2 },
  );
  const sizes = commits.map(commitBytes);
  reportRates(workbench.report, sides, sizes);
  await reportDelay(workbench.report, { agents, raw, sizes });
  await manager.close();
  raw.close();
  probe.close();
}

function reportRates(report, sides, sizes) {
  const { '200 sessions': ours, 'groups of 50': floor } = sides;
  const rate = ({ median }) => Math.round(((SESSIONS * SAVES_A_ROUND) / median) * 1000).toLocaleString('en');
  const averageBytes = sizes.reduce((sum, size) => sum + size, 0) / sizes.length;
  report.line({
    what: 'checkpoints/s ÷ raw rows/s',
    ratio: floor.median / ours.median,
    ratioP10: floor.p10 / ours.p10,
    target: { atLeast: 0.25 },
    sides,
    figures: [`${rate(ours)} checkpoints/s`, `${rate(floor)} rows/s of ${formatBytes(averageBytes)}`],
  });
}

/** One sustained stretch of each, because a histogram cannot be paused without counting the pause. */
async function reportDelay(report, { agents, raw, sizes }) {
  prepareStates(agents, SUSTAINED_SAVES);
  const ours = await measureDelay(() => Promise.all(agents.map(saveAll)));
  const groups = prepareGroups(Array.from({ length: SUSTAINED_SAVES / SAVES_A_ROUND }, () => sizes).flat());
  const floor = await measureDelay(async () => {
    for (const group of groups) {
      insertGroups(raw, [group]);
      await nextTurn();
    }
  });
  const format = ({ p50, p99, max }) => `p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)}, max ${max.toFixed(1)} ms`;
  report.line({
    what: 'event-loop delay p99 meanwhile',
    ratio: ours.p99,
    unit: ' ms',
    target: { atMost: 20 },
    figures: [
      `ours ${format(ours)}`,
      `groups of 50 with a turn between ${format(floor)}`,
      'the 1 ms of resolution taken off',
    ],
  });
}

async function measureDelay(work) {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  await work();
  delay.disable();
  const toMs = (ns) => Math.max(0, ns / NS_PER_MS - RESOLUTION_MS);
  return { p50: toMs(delay.percentile(50)), p99: toMs(delay.percentile(99)), max: toMs(delay.max) };
}

async function openAgents(manager) {
  const open = async (_, at) => {
    const session = await manager.session(`agent-${at}`);
    const state = frozenState(createMessages(START_MESSAGES, 1000 + at).map((message) => Object.freeze(message)));
    await session.save(state);
    return { session, seed: 1000 + at, last: state, states: [] };
  };
  return Promise.all(Array.from({ length: SESSIONS }, open));
}

/** The states of a round are made before it is timed. */
function prepareStates(agents, count) {
  for (const agent of agents) {
    agent.states = [];
    for (let at = 0; at < count; at++) {
      agent.last = appended(agent.last, createMessage(agent.last.messages.length, agent.seed));
      agent.states.push(agent.last);
    }
  }
  collectYoungGarbage();
}

async function saveAll({ session, states }) {
  for (const state of states) await session.save(state);
}

const WORDS = createMessages(GROUP, 8)
  .map(({ content }) => content.replace(/[^ -~]/g, '.'))
  .join(' ');

/** One text for each checkpoint, as long as all that was written for it, in groups. */
function prepareGroups(sizes) {
  const texts = sizes.map((size, at) => Buffer.from(WORDS.slice(at % 1000, (at % 1000) + size)).toString());
  collectYoungGarbage();
  return Array.from({ length: Math.ceil(texts.length / GROUP) }, (_, at) => texts.slice(at * GROUP, (at + 1) * GROUP));
}

function insertGroups({ db, insert }, groups) {
  for (const group of groups) {
    db.exec('BEGIN IMMEDIATE');
    for (const text of group) insert(text);
    db.exec('COMMIT');
  }
}
