import { summarise } from '../measure.mjs';
import { formatBytes, formatMs } from '../report.mjs';
import { inArena } from './arena.mjs';

export const put = {
  id: 'langgraph-put',
  title: 'putWrites + put after every message, as the loop of LangGraph calls them',
  run: inArena(measureSaves),
};

const OFFICIAL = ['official memory', 'official SQLite', 'official SQLite, FULL', 'official PostgreSQL'];
const OURS = ['our memory', 'our SQLite, process-safe', 'our SQLite, power-safe', 'our PostgreSQL'];
/** Ours on the left; on the right the official saver that promises the same, first of all the one that promises nothing. */
const SAVE_PAIRS = [
  { ours: 'our SQLite, process-safe', theirs: 'official memory', atLeast: 15 },
  { ours: 'our SQLite, power-safe', theirs: 'official memory', atLeast: 10 },
  { ours: 'our SQLite, process-safe', theirs: 'official SQLite', atLeast: 10 },
  { ours: 'our SQLite, power-safe', theirs: 'official SQLite, FULL', atLeast: 10 },
  { ours: 'our memory', theirs: 'official memory' },
  { ours: 'our PostgreSQL', theirs: 'official PostgreSQL' },
];
const READ_PAIRS = [
  { ours: 'our SQLite, process-safe', theirs: 'official SQLite', isJudged: true },
  { ours: 'our PostgreSQL', theirs: 'official PostgreSQL', isJudged: false },
];
const READS = [
  { key: 'getTuple', what: 'getTuple(latest)', atLeast: 10 },
  { key: 'getTupleReopened', what: 'getTuple(latest), saver just opened', atLeast: 10 },
  { key: 'list', what: 'list(20)', atLeast: 20 },
  { key: 'listReopened', what: 'list(20), saver just opened', atLeast: 20 },
];
const SIZES = { short: 100, judged: 1_000, long: 5_000 };
const QUICK_SIZES = { short: 30, judged: 200, long: 500 };
/** Nobody waits longer than this for the saves of one measurement; at the long size all the official savers run into it. */
const LIMIT_MS = { judged: 240_000, long: 60_000 };
const MAX_STORED_BYTES = 3_500_000;

async function measureSaves({ arena, report, isQuick }) {
  const sizes = isQuick ? QUICK_SIZES : SIZES;
  const rounds = isQuick ? 1 : 3;
  const everyone = [...OFFICIAL, ...OURS];
  const atShort = await measure(arena, everyone, { count: sizes.short, rounds, limitMs: LIMIT_MS.judged });
  printTable(report, sizes.short, atShort);
  const atJudged = await measure(arena, everyone, { count: sizes.judged, rounds, limitMs: LIMIT_MS.judged });
  printTable(report, sizes.judged, atJudged);
  judge(report, sizes.judged, atJudged);
  const atLong = {
    ...(await measure(arena, OFFICIAL, { count: sizes.long, rounds: 1, limitMs: LIMIT_MS.long })),
    ...(await measure(arena, OURS, { count: sizes.long, rounds, limitMs: LIMIT_MS.long })),
  };
  printTable(report, sizes.long, atLong);
  report.heading('langgraph-put  how flat');
  judgeFlatness(report, { count: sizes.long, results: atLong, atMost: 4 });
}

/** The rounds of each contestant as one result: summaries over the rounds' medians. */
async function measure(arena, names, { count, rounds, limitMs }) {
  const jobs = names.map((name) => ({ name, count, limitMs }));
  const results = await arena.takeTurns({ script: 'put-child.mjs', jobs, rounds });
  return Object.fromEntries(Object.entries(results).map(([name, all]) => [name, mergeRounds(all)]));
}

function mergeRounds(rounds) {
  const over = (pick) => summarise(rounds.map(pick));
  return {
    saved: Math.min(...rounds.map(({ saved }) => saved)),
    total: over(({ totalMs }) => totalMs),
    first: over(({ first }) => first.median),
    last: over(({ last }) => last.median),
    flatness: over(({ first, last }) => last.median / first.median),
    probe: { ...over(({ probe }) => probe.median), p10: Math.min(...rounds.map(({ probe }) => probe.p10)) },
    storedBytes: over(({ storedBytes }) => storedBytes).median,
    getTuple: over(({ open }) => open.getTuple.median),
    list: over(({ open }) => open.list.median),
    getTupleReopened: over(({ reopened }) => reopened.getTuple.median),
    listReopened: over(({ reopened }) => reopened.list.median),
  };
}

function printTable(report, count, results) {
  const columns = ['saves', 'one, first to last tenth', 'stored', 'getTuple, reopened', 'list(20), reopened'];
  report.heading(`langgraph-put  ${count.toLocaleString('en')} messages`);
  report.note(cells('', columns));
  for (const [name, result] of Object.entries(results)) report.note(cells(name, columnsOf(result, count)));
}

function columnsOf({ saved, total, first, last, storedBytes, ...reads }, count) {
  return [
    `${(total.median / 1000).toFixed(2)} s`,
    `${formatMs(first.median)} to ${formatMs(last.median)}`,
    formatBytes(storedBytes),
    `${formatMs(reads.getTuple.median)}, ${formatMs(reads.getTupleReopened.median)}`,
    `${formatMs(reads.list.median)}, ${formatMs(reads.listReopened.median)}`,
    ...(saved < count ? [`(got to ${saved.toLocaleString('en')})`] : []),
  ];
}

const WIDTHS = [9, 25, 10, 20, 20];

function cells(name, columns) {
  return `${name.padEnd(26)}${columns.map((text, at) => text.padStart(WIDTHS[at] ?? 0)).join('  ')}`;
}

function judge(report, count, results) {
  judgeSaves(report, results);
  judgeFlatness(report, { count, results, atMost: 2 });
  judgeBytes(report, results);
  for (const read of READS) judgeReads(report, results, read);
}

function judgeSaves(report, results) {
  report.heading('langgraph-put  how many times faster, how flat, how small');
  for (const { ours, theirs, atLeast } of SAVE_PAIRS) {
    const sides = { theirs: results[theirs].total, ours: results[ours].total };
    report.line({
      what: `all saves: ${theirs} ÷ ${ours}`,
      ...timesFaster(sides),
      ...(atLeast !== undefined && { target: { atLeast } }),
      sides: { ...sides, 'fsync probe beside theirs': results[theirs].probe, 'beside ours': results[ours].probe },
    });
  }
}

function judgeReads(report, results, { key, what, atLeast }) {
  for (const { ours, theirs, isJudged } of READ_PAIRS) {
    const sides = { theirs: results[theirs][key], ours: results[ours][key] };
    report.line({
      what: `${what}: ${theirs} ÷ ours`,
      ...timesFaster(sides),
      ...(isJudged && { target: { atLeast } }),
      sides,
    });
  }
}

function judgeFlatness(report, { count, results, atMost }) {
  for (const name of OURS) {
    const { flatness, first, last } = results[name];
    report.line({
      what: `${name}, ${count.toLocaleString('en')}: last tenth of saves ÷ first`,
      ratio: flatness.median,
      ratioP10: flatness.p10,
      target: { atMost },
      sides: { last, first },
    });
  }
}

function judgeBytes(report, results) {
  for (const name of ['our SQLite, process-safe', 'our SQLite, power-safe']) {
    const { storedBytes } = results[name];
    report.line({
      what: `${name}: stored`,
      ratio: storedBytes / 1_000_000,
      unit: ' MB',
      target: { atMost: MAX_STORED_BYTES / 1_000_000 },
      figures: [`official SQLite ${formatBytes(results['official SQLite'].storedBytes)}`],
    });
  }
}

function timesFaster({ theirs, ours }) {
  return { ratio: theirs.median / ours.median, ratioP10: theirs.p10 / ours.p10 };
}
