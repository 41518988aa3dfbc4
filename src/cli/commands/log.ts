import type { Checkpoint } from '../../core/checkpoint.ts';
import type { SessionId } from '../../core/id.ts';
import { readSession } from '../../manager/lineage.ts';
import type { Command } from '../command.ts';
import type { CommandInput } from '../command-input.ts';
import type { Context } from '../context.ts';
import { parseTime } from '../revision/parse-time.ts';
import { parseRange, readLive, readRange, resolveRevision } from '../revision/resolve-revision.ts';
import {
  type CheckpointOutput,
  describeCheckpoint,
  formatDetails,
  formatLine,
  formatNames,
  readNames,
  toOutput,
} from '../state/checkpoint-text.ts';
import { Expression } from '../state/expression.ts';
import { formatGraph } from '../state/graph.ts';
import { formatSize, formatTime } from '../terminal/format.ts';
import { formatRows } from '../terminal/table.ts';
import type { Workspace } from '../workspace.ts';

/** Lists checkpoints. */
export const command: Command = {
  arguments: '[revision]',
  options: [
    ['-n <count>', 'how many at most; default all'],
    ['--oneline', 'one line for each, on a screen'],
    ['--long', 'everything that is known about each'],
    ['--graph', 'all branches, and how they hang together'],
    ['--all', 'all checkpoints of the session, also of other branches'],
    ['--branch <name>', 'the history of this branch'],
    ['--since <time>', 'saved since then: 2h, yesterday, 2026-01-31'],
    ['--until <time>', 'saved until then'],
    ['--where <expression>', 'for which this is true: its names are type, status, metadata, state, ...'],
  ],
  details: 'Without a revision: the current branch. A range a..b lists what came after a, up to b.',
  examples: [
    ['savestate log', 'the history of the current branch'],
    ['savestate log --graph -n 20', 'the last 20 of all branches, as a graph'],
    ['savestate log v1..@ --since 2h', 'since the tag v1, in the last two hours'],
    [`savestate log --where 'metadata.score < 3'`, 'by what was noted at the save'],
    [`savestate log --where 'state.messages.length > 10'`, 'by what was saved'],
    [`savestate log --where 'contains(state.messages[*].text, "refund")'`, 'by what was said'],
  ],
  run: async (context, input) => {
    const workspace = await context.workspace();
    const sessionId = await workspace.findSession();
    const checkpoints = sessionId === undefined ? [] : await list(context, workspace, input);
    const names = checkpoints[0] === undefined ? undefined : await readNames(workspace, checkpoints[0].sessionId);
    const outputs = checkpoints.map((checkpoint) => toOutput(checkpoint, names));
    await context.answer(outputs, () => format(context, input, outputs));
    if (outputs.length === 0) context.say('There are no such checkpoints.');
    return undefined;
  },
};

async function list(context: Context, workspace: Workspace, input: CommandInput): Promise<Checkpoint[]> {
  const limit = input.count('n') ?? Number.POSITIVE_INFINITY;
  const isWanted = createFilter(workspace, input);
  const found: Checkpoint[] = [];
  if (limit === 0) return found;
  const bar = context.progress({ noun: 'checkpoints', total: undefined });
  let seen = 0;
  for await (const checkpoint of await read(workspace, input)) {
    await context.checkStop();
    bar.show(++seen);
    if (await isWanted(checkpoint)) found.push(checkpoint);
    if (found.length >= limit) break;
  }
  bar.end();
  return found;
}

async function read(workspace: Workspace, input: CommandInput): Promise<AsyncIterable<Checkpoint> | Checkpoint[]> {
  const revision = input.word(0) ?? input.text('branch');
  if (revision === undefined && (input.flag('graph') || input.flag('all')))
    return readAll(workspace, await workspace.session());
  if (revision !== undefined && parseRange(revision) !== undefined)
    return (await readRange(workspace, revision)).reverse();
  return readLive(workspace, await resolveRevision(workspace, revision ?? '@'));
}

async function* readAll({ storage }: Workspace, sessionId: SessionId): AsyncGenerator<Checkpoint> {
  for await (const { checkpoint } of readSession(storage, sessionId)) if (checkpoint !== undefined) yield checkpoint;
}

function createFilter({ manager }: Workspace, input: CommandInput): (checkpoint: Checkpoint) => Promise<boolean> {
  const [since, until, where] = [input.text('since'), input.text('until'), input.text('where')];
  const from = since === undefined ? undefined : parseTime(since, Date.now());
  const to = until === undefined ? undefined : parseTime(until, Date.now());
  const expression = where === undefined ? undefined : new Expression(where);
  return async (checkpoint) => {
    if (from !== undefined && checkpoint.timestamp < from) return false;
    if (to !== undefined && checkpoint.timestamp > to) return false;
    return expression === undefined || (await expression.isTrue(manager, checkpoint));
  };
}

function format(context: Context, input: CommandInput, outputs: readonly CheckpointOutput[]): string {
  const { style } = context.terminal;
  if (input.flag('graph')) return formatGraph(outputs, (checkpoint) => formatLine(checkpoint, style), style);
  if (input.flag('long')) return outputs.map((checkpoint) => formatDetails(checkpoint, style)).join('\n');
  if (input.flag('oneline')) return outputs.map((checkpoint) => `${formatLine(checkpoint, style)}\n`).join('');
  const rows = outputs.map((checkpoint) => toRow(context, checkpoint));
  return formatRows(context.terminal, rows, {
    head: ['#', 'checkpoint', 'saved (UTC)', 'size', 'what'],
    right: [0, 3],
  });
}

function toRow({ terminal: { style } }: Context, checkpoint: CheckpointOutput): string[] {
  const what = [describeCheckpoint(checkpoint), formatNames(checkpoint, style)].filter((part) => part !== '').join(' ');
  const { sequence, id, savedAt, stateBytes } = checkpoint;
  return [String(sequence), style.cyan(id), formatTime(new Date(savedAt)), formatSize(stateBytes), what];
}
