import type { DriftHistory } from '../../../view/drift-history.ts';
import type { Command, CommandInput, Context } from '../../base/command.ts';
import { resolveRevision } from '../../revision/resolve-revision.ts';
import { formatSparkline, formatTable, formatTime } from '../../terminal/format.ts';

type DriftOutput = DriftHistory & { readonly sessionId: string; readonly branch: string };

const CHART_CHARS = 50;
/** How many reasons are worth reading. */
const SHOWN_REASONS = 5;

/** Shows whether agents went in circles, and since when. */
export const command: Command = {
  arguments: '[session]',
  options: [
    ['--from <revision>', 'the history up to this revision; default: the head of the current branch'],
    ['--goal <text>', 'the goal of the agents, if no message states it'],
  ],
  details: `Reads the messages of a conversation or a thread of LangGraph, or the calls and the recorded health of a loop, in order, and weighs signs of loops, stalls, failures and lost goals.
The chart shows their strength over time; a full bar is an alarm. Nothing runs again, and no model is called.`,
  examples: [
    ['savestate drift', 'the most recently used session'],
    ['savestate drift chat-42 --from v1', 'up to the tag v1'],
  ],
  run: async (context, input) => {
    const output = await measure(context, input);
    return context.answer(output, () => format(output));
  },
};

async function measure(context: Context, input: CommandInput): Promise<DriftOutput> {
  const { observeHistory } = await import('../../../view/drift-history.ts');
  const { parseSessionId } = await import('../../../core/record/id.ts');
  const opened = await context.open();
  const [session, goal] = [input.word(0), input.text('goal')];
  if (session !== undefined) opened.select(parseSessionId(session));
  const head = await resolveRevision(opened, input.text('from') ?? '@');
  const observed = await observeHistory(opened.manager, head, {
    watch: context.watchCheckpoints,
    ...(goal !== undefined && { goal }),
  });
  return { sessionId: head.sessionId, branch: head.branch, ...observed };
}

function format(output: DriftOutput): string {
  const { sessionId, branch, status, kinds, evidence, points } = output;
  if (points.length === 0)
    return 'Nothing to judge in this history: it has no messages and no recorded health of a loop.\n';
  const what = kinds.length === 0 ? status : `${status} (${kinds.join(', ')})`;
  const isNew = createOnce();
  const summary = describeCase(output, isNew);
  const reasons = evidence.slice(-SHOWN_REASONS).flatMap(({ signal, reason }) => {
    const fresh = isNew(reason);
    return fresh === '' ? [] : `  - ${signal}: ${fresh}\n`;
  });
  return `session ${sessionId}, branch ${branch}: ${what}\n${drawChart(points)}${summary}${reasons.join('')}`;
}

/** Each sentence is told once: incidents repeat what led to them. */
function createOnce(): (text: string) => string {
  const told = new Set<string>();
  return (text) => {
    const fresh = text.split(/(?<=[.!?]) /).filter((sentence) => !told.has(sentence));
    for (const sentence of fresh) told.add(sentence);
    return fresh.join(' ');
  };
}

function drawChart(points: DriftHistory['points']): string {
  const kinds = [...new Set(points.flatMap(({ scores }) => Object.keys(scores)))];
  const rows = kinds.map((kind) => {
    const scores = points.map((point) => point.scores[kind] ?? 0);
    const now = scores.at(-1) ?? 0;
    return [
      kind,
      formatSparkline(squeeze(scores), 1),
      `now ${now.toFixed(2)}`,
      `peak ${Math.max(...scores).toFixed(2)}`,
    ];
  });
  const ends = [points[0], points.at(-1)].flatMap((point) => point ?? []);
  const span = ends.map(({ sequence, savedAt }) => `#${sequence} ${formatTime(new Date(savedAt))}`).join(' to ');
  return `${kinds.length === 0 ? 'no signs of drift\n' : formatTable(rows)}${span} UTC; the alarm is at 1.00\n`;
}

function describeCase({ summary, onset, agent, points }: DriftOutput, isNew: (text: string) => string): string {
  const at = points.find(({ checkpointId }) => checkpointId === onset);
  const shown = at === undefined ? onset : `#${at.sequence} (${onset})`;
  const since = onset === null || agent === null ? '' : ` since ${shown}`;
  if (summary === '') return since === '' ? '' : `${agent}${since}\n`;
  return `${isNew(summary.replace(/(?<=drift \(\w+\))( since #\d+)?\./, `${since}.`))}\n`;
}

/** As many values as the chart is wide; where several fall together, the strongest stands for them. */
function squeeze(values: readonly number[]): number[] {
  if (values.length <= CHART_CHARS) return [...values];
  return Array.from({ length: CHART_CHARS }, (_, at) => {
    const from = Math.floor((at * values.length) / CHART_CHARS);
    const to = Math.floor(((at + 1) * values.length) / CHART_CHARS);
    return Math.max(...values.slice(from, to));
  });
}
