import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import type { CheckpointId, SessionId } from '../../../core/record/id.ts';
import { readSession, toEntry } from '../../../manager/engine/records.ts';
import { parseTime } from '../../../manager/revision/parse-time.ts';
import { MessageFold, readLive } from '../../../manager/revision/rounds.ts';
import { type CheckpointOutput, type Names, NO_NAMES, readNames, toOutput } from '../../../view/checkpoint-output.ts';
import type { Command, CommandInput, Context, OpenStorage } from '../../base/command.ts';
import { parseRange, readRange, resolveRevision } from '../../revision/resolve-revision.ts';
import { formatDetails, formatHistory, formatLine, readWords, type Words } from '../../state/checkpoint-text.ts';
import { Expression } from '../../state/expression.ts';
import { type Cuts, formatGraph } from '../../state/graph.ts';

/** Lists checkpoints. */
export const command: Command = {
  arguments: '[revision]',
  options: [
    ['-n <count>', 'maximum number; default: all'],
    ['--oneline', 'every checkpoint, one line each'],
    ['--long', 'every checkpoint, with all details'],
    ['--graph', 'all branches, as a graph'],
    ['--all', 'every checkpoint of the session, on all branches'],
    ['--branch <name>', 'the history of this branch'],
    ['--steps', 'the recorded steps of the branch and their results instead'],
    ['--since <time>', 'saved after this time: 2h, yesterday, 2026-01-31'],
    ['--until <time>', 'saved before this time'],
    ['--where <expression>', 'only those for which this is true; names: type, status, metadata, state, ...'],
  ],
  details:
    'Without a revision: the current branch. A range a..b lists checkpoints after a, up to b. A chat saves several checkpoints per message: the newest of them is listed, and those with names. --json lists every checkpoint.',
  examples: [
    ['savestate log', 'the history of the current branch'],
    ['savestate log --graph -n 20', 'the last 20 of all branches, as a graph'],
    ['savestate log v1..@ --since 2h', 'since the tag v1, in the last two hours'],
    ['savestate log --steps', 'recorded calls and their results'],
    [`savestate log --where 'metadata.score < 3'`, 'by metadata'],
    [`savestate log --where 'state.messages.length > 10'`, 'by saved state'],
    [`savestate log --where 'contains(state.messages[*].text, "refund")'`, 'by message text'],
  ],
  run: async (context, input) => {
    const opened = await context.open();
    if (input.flag('steps')) return (await import('./steps.ts')).listSteps(context, opened, input);
    const unsaved = await opened.describeUnsaved();
    if (unsaved === undefined) {
      await listCheckpoints(context, opened, input);
      const choice = context.terminal.isNoteScreen ? await opened.describeChoice() : undefined;
      if (choice !== undefined) context.say(choice);
      return undefined;
    }
    await context.answer([], () => '');
    context.say(`${unsaved} See: ${context.command('log --steps')}`);
    return undefined;
  },
};

/** `log` of what was saved. */
async function listCheckpoints(context: Context, opened: OpenStorage, input: CommandInput): Promise<void> {
  const sessionId = await opened.findSession();
  const listed = sessionId === undefined ? NOTHING : await list(context, opened, { input, sessionId });
  const { checkpoints, names } = listed;
  const outputs = checkpoints.map((checkpoint) => toOutput(checkpoint, names));
  const isTold = !context.isJson && !input.flag('long');
  const told = input.has('n') ? checkpoints : checkpoints.slice(0, MAX_TOLD);
  const words = isTold ? await readWords(context, told, { isEach: isEach(context, input) }) : new Map();
  const cuts = input.flag('graph') ? await readCuts(opened, listed) : new Map();
  await context.answer(outputs, () => format(context, input, { ...listed, outputs, words, cuts }));
  if (outputs.length === 0) context.say('There are no such checkpoints.');
  if (isTold && told.length < checkpoints.length)
    context.say(
      `Messages are shown for the last ${MAX_TOLD} checkpoints only. For more: -n ${checkpoints.length}, or a range.`,
    );
}

/** The words of a checkpoint take a look at what it changed: of a long history the newest are enough, unless more are asked for. */
const MAX_TOLD = 200;

type List = {
  readonly checkpoints: readonly Checkpoint[];
  readonly names: Names;
  /** What is not shown because a newer one says the same, and its parent. */
  readonly folded: ReadonlyMap<string, string | undefined>;
};

const NOTHING: List = { checkpoints: [], names: NO_NAMES, folded: new Map() };

async function list(
  context: Context,
  opened: OpenStorage,
  { input, sessionId }: { readonly input: CommandInput; readonly sessionId: SessionId },
): Promise<List> {
  const limit = input.limit() ?? Number.POSITIVE_INFINITY;
  const isWanted = createFilter(opened, input);
  const checkpoints: Checkpoint[] = [];
  const folded = new Map<string, string | undefined>();
  const names = await readNames(opened.manager, sessionId);
  const fold = new MessageFold(({ id }) => names.heads.has(id) || names.tags.has(id));
  const isWhole = isEach(context, input);
  const work = { noun: 'checkpoints', total: undefined };
  for await (const checkpoint of context.watch(limit === 0 ? [] : await read(opened, input), work)) {
    if (!(await isWanted(checkpoint))) continue;
    if (isWhole || fold.shows(checkpoint)) checkpoints.push(checkpoint);
    else folded.set(checkpoint.id, checkpoint.parentId);
    if (checkpoints.length >= limit) break;
  }
  return { checkpoints, names, folded };
}

/** Whether every checkpoint is listed, and not one for each message. */
function isEach(context: Context, input: CommandInput): boolean {
  return context.isJson || ['all', 'long', 'oneline'].some((flag) => input.flag(flag));
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

/** What was deleted between those that are shown, and what came before it. Costs what is told, however long the history is. */
async function readCuts({ storage }: OpenStorage, { checkpoints, folded }: List): Promise<Cuts> {
  const cuts = new Map<string, string | undefined>();
  const known = new Set<string>([...checkpoints.map(({ id }) => id), ...folded.keys()]);
  for (const parentId of [...checkpoints.map((shown) => shown.parentId), ...folded.values()])
    for (let id = parentId; id !== undefined && !known.has(id); ) {
      known.add(id);
      const row = await storage.readCheckpoint(id as CheckpointId);
      if (row?.isDeleted !== true) break;
      const { parentId: next } = toEntry(row);
      cuts.set(id, next);
      id = next;
    }
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

type Listed = List & {
  readonly outputs: readonly CheckpointOutput[];
  readonly words: ReadonlyMap<string, Words>;
  readonly cuts: Cuts;
};

function format(context: Context, input: CommandInput, { outputs, words, cuts, folded }: Listed): string {
  const { terminal } = context;
  const toLine = (checkpoint: CheckpointOutput, taken = 0) =>
    formatLine(checkpoint, terminal, { words: words.get(checkpoint.id), taken });
  if (input.flag('graph')) return formatGraph(outputs, toLine, { style: terminal.style, cuts, folded });
  if (input.flag('long')) return outputs.map((checkpoint) => formatDetails(checkpoint, terminal.style)).join('\n');
  if (input.flag('oneline')) return outputs.map((checkpoint) => `${toLine(checkpoint)}\n`).join('');
  return formatHistory(terminal, outputs, { words });
}
