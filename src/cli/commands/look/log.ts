import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import type { SessionId } from '../../../core/record/id.ts';
import { readSession } from '../../../manager/engine/records.ts';
import { parseTime } from '../../../manager/revision/parse-time.ts';
import { readLive } from '../../../manager/revision/rounds.ts';
import { type CheckpointOutput, readNames, toOutput } from '../../../view/checkpoint-output.ts';
import type { Command } from '../../base/command.ts';
import type { CommandInput } from '../../base/command-input.ts';
import type { Context } from '../../base/context.ts';
import type { OpenStorage } from '../../base/open-storage.ts';
import { parseRange, readRange, resolveRevision } from '../../revision/resolve-revision.ts';
import { describeCheckpoint, formatDetails, formatLine, formatNames } from '../../state/checkpoint-text.ts';
import { Expression } from '../../state/expression.ts';
import { type Cuts, formatGraph } from '../../state/graph.ts';
import { formatRows, formatSize, formatTime } from '../../terminal/format.ts';
import { formatStep, readThreadSteps, type ThreadStep } from '../../thread/thread-step.ts';

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
    const opened = await context.open();
    const sessionId = await opened.findSession();
    const checkpoints = sessionId === undefined ? [] : await list(context, opened, input);
    const names = checkpoints[0] === undefined ? undefined : await readNames(opened.manager, checkpoints[0].sessionId);
    const outputs = checkpoints.map((checkpoint) => toOutput(checkpoint, names));
    const steps = context.isJson ? new Map() : await readThreadSteps(context, checkpoints);
    const cuts = input.flag('graph') && sessionId !== undefined ? await readCuts(opened, sessionId) : new Map();
    await context.answer(outputs, () => format(context, input, { outputs, steps, cuts }));
    if (outputs.length === 0) context.say('There are no such checkpoints.');
  },
};

async function list(context: Context, opened: OpenStorage, input: CommandInput): Promise<Checkpoint[]> {
  const limit = input.count('n') ?? Number.POSITIVE_INFINITY;
  const isWanted = createFilter(opened, input);
  const found: Checkpoint[] = [];
  if (limit === 0) return found;
  const work = { noun: 'checkpoints', total: undefined };
  for await (const checkpoint of context.watch(await read(opened, input), work)) {
    if (await isWanted(checkpoint)) found.push(checkpoint);
    if (found.length >= limit) break;
  }
  return found;
}

async function read(opened: OpenStorage, input: CommandInput): Promise<AsyncIterable<Checkpoint> | Checkpoint[]> {
  const revision = input.word(0) ?? input.text('branch');
  if (revision === undefined && (input.flag('graph') || input.flag('all')))
    return readAll(opened, await opened.session());
  if (revision !== undefined && parseRange(revision) !== undefined)
    return (await readRange(opened, revision)).reverse();
  return readLive(opened.storage, await resolveRevision(opened, revision ?? '@'));
}

async function* readAll({ storage }: OpenStorage, sessionId: SessionId): AsyncGenerator<Checkpoint> {
  for await (const { checkpoint } of readSession(storage, sessionId)) if (checkpoint !== undefined) yield checkpoint;
}

/** What was deleted, and what came before it. */
async function readCuts({ storage }: OpenStorage, sessionId: SessionId): Promise<Cuts> {
  const cuts = new Map<string, string | undefined>();
  for await (const { id, parentId, tombstone } of readSession(storage, sessionId))
    if (tombstone !== undefined) cuts.set(id, parentId);
  return cuts;
}

function createFilter({ manager }: OpenStorage, input: CommandInput): (checkpoint: Checkpoint) => Promise<boolean> {
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

type Listed = {
  readonly outputs: readonly CheckpointOutput[];
  readonly steps: ReadonlyMap<string, ThreadStep>;
  readonly cuts: Cuts;
};

function format(context: Context, input: CommandInput, { outputs, steps, cuts }: Listed): string {
  const { style } = context.terminal;
  const toLine = (checkpoint: CheckpointOutput) => formatLine(checkpoint, style, formatStep(steps.get(checkpoint.id)));
  if (input.flag('graph')) return formatGraph(outputs, toLine, { style, cuts });
  if (input.flag('long')) return outputs.map((checkpoint) => formatDetails(checkpoint, style)).join('\n');
  if (input.flag('oneline')) return outputs.map((checkpoint) => `${toLine(checkpoint)}\n`).join('');
  if (context.terminal.isScreen && steps.size > 0) return formatSteps(context, outputs, steps);
  const rows = outputs.map((checkpoint) => toRow(context, checkpoint, steps.get(checkpoint.id)));
  return formatRows(context.terminal, rows, {
    head: ['#', 'checkpoint', 'saved (UTC)', 'size', 'what'],
    right: [0, 3],
  });
}

function toRow({ terminal: { style } }: Context, checkpoint: CheckpointOutput, step: ThreadStep | undefined): string[] {
  const about = formatStep(step) ?? describeCheckpoint(checkpoint);
  const what = [about, formatNames(checkpoint, style)].filter((part) => part !== '').join(' ');
  const { sequence, id, savedAt, stateBytes } = checkpoint;
  return [
    String(sequence),
    style.cyan(id),
    formatTime(step?.madeAt ?? new Date(savedAt)),
    formatSize(stateBytes),
    what,
  ];
}

/** The steps of a graph. A step is named by its number, so that its id need not take half of the screen. */
function formatSteps({ terminal }: Context, outputs: readonly CheckpointOutput[], steps: Listed['steps']): string {
  const rows = outputs.map((checkpoint) => {
    const { step = '', node = '', what = '', madeAt } = steps.get(checkpoint.id) ?? {};
    const time = formatTime(madeAt ?? new Date(checkpoint.savedAt));
    const about = node === '' ? describeCheckpoint(checkpoint) : what;
    const names = formatNames(checkpoint, terminal.style);
    return [String(checkpoint.sequence), time, step, node, [names, about].filter((part) => part !== '').join(' ')];
  });
  return formatRows(terminal, rows, { head: ['#', 'made (UTC)', 'step', 'node', 'what'], right: [0, 2] });
}
