import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { plot } from './plot.mjs';

const PLOTS = [
  {
    key: 'save',
    title: 'One durable save, by length of the conversation',
    format: (ms) => tick(ms * 1000, ['µs', 'ms', 's']),
  },
  {
    key: 'bytes',
    title: 'Bytes stored after one checkpoint for each message',
    format: (bytes) => tick(bytes, ['B', 'kB', 'MB', 'GB']),
  },
  {
    key: 'resume',
    title: 'Cold start until the whole state is in memory',
    format: (ms) => tick(ms * 1000, ['µs', 'ms', 's']),
  },
];

/** Writes what a run found into a folder of documents: BENCHMARKS.md and its plots. */
export function writeDocument(folder, { report, conditions }) {
  mkdirSync(join(folder, 'benchmarks'), { recursive: true });
  for (const { key, title, format } of PLOTS.filter((one) => one.key in report.plots))
    writeFileSync(
      join(folder, 'benchmarks', `${key}.svg`),
      plot({ title, xTitle: 'messages', series: report.plots[key], format }),
    );
  writeFileSync(join(folder, 'BENCHMARKS.md'), documentOf({ report, conditions }));
}

/** A power of ten in the unit that keeps it short. */
function tick(value, units) {
  const at = Math.min(units.length - 1, Math.floor(Math.log10(value) / 3 + 1e-9));
  return `${Math.round(value / 1000 ** at)} ${units[at]}`;
}

function documentOf({ report, conditions }) {
  return `# Benchmarks

\`npm run bench -- --report\` writes this page; do not edit it. Each figure is a ratio of two sides that took turns in one run: what Savestate
takes, divided by what the named floor or peer takes. "p10" is the ratio of the tenth percentiles: what a quieter machine would show. How
it measures is in \`bench/README.md\` of the repository.

${conditions.map((line) => `- ${line}`).join('\n')}

${PLOTS.map(({ key, title }) => `![${title}](benchmarks/${key}.svg)`).join('\n\n')}

Every save is durable against power loss, except LangGraph's in-memory saver. "SQLite insert" is the floor: one plain insert of the new message alone. The JSON sides
write the whole state for each checkpoint, as most hand-written savers do. Their bytes and those of the in-memory saver are computed from sampled
saves; ours are the file's.

## Targets

${report.met} of ${report.met + report.missed.length} targets met.${report.missed.length === 0 ? '' : ' Missed:'}

${report.missed.map((line) => `- ${line}`).join('\n')}

## All figures
${report.sections.map(sectionOf).join('')}`;
}

function sectionOf({ title, lines, notes }) {
  const rows = lines.map(({ what, target, measured, verdict }) => `| ${what} | ${target} | ${measured} | ${verdict} |`);
  const table = rows.length === 0 ? [] : ['', '| what | target | measured | |', '| --- | --- | --- | --- |', ...rows];
  const text = notes.length === 0 ? [] : ['', '```text', ...notes, '```'];
  return `\n### ${title}\n${[...table, ...text].join('\n')}\n`;
}
