import { withoutUndefined } from '../../../core/defined.ts';
import { InvalidInputError, NotFoundError, UnsupportedError } from '../../../core/errors.ts';
import type { Memory } from '../../../memory/memory.ts';
import { type MemoryKind, type MemoryScope, parseKind } from '../../../memory/storage/memory-record.ts';
import type { MemoryOutput, MemoryReasons } from '../../../view/record-output.ts';
import { type Command, type CommandInput, type Context, EXIT, type ExitCode } from '../../base/command.ts';
import { type MemoryView, useMemory } from '../../memory/open-memory.ts';
import { clip, formatCount, formatRows, formatTime } from '../../terminal/format.ts';

const DEFAULT_COUNT = 20;
const SHOWN_CHARS = 60;

/** What can be done with a memory. */
const ACTIONS: Readonly<Record<string, Command['run']>> = { list, search, why, forget };

/** Looks at long-term memory. */
export const command: Command = {
  arguments: '<action> [words...]',
  options: [
    ['--memory <place>', 'a file, or postgres://...; default: what savestate.yaml names, else memories/history.db'],
    ['--user <id>', 'whose memory: of this user'],
    ['--agent <id>', 'of this agent'],
    ['-n <count>', `list and search: maximum number; default ${DEFAULT_COUNT}`],
    [
      '--kind <kind>',
      'list and search: only this kind: fact, preference, instruction, decision, episode, ...',
      'repeat',
    ],
    ['--as-of <revision>', 'as it was known at this checkpoint'],
    ['--all', 'list and search: include expired and superseded ones'],
    ['--reason <text>', 'forget: why; it stays in the tombstone'],
    ['--dry-run', 'forget: only show what would be deleted'],
  ],
  details: `Actions: list, search <question>, why <id> (where it came from, and what is left of that), forget <id>, or forget --user <id>.
Memories follow the branches of the checkpoint storage: those of an abandoned branch are not listed.
forget deletes the words for good, from all versions, everything derived from them and the turns that said so. Shows the plan and asks first.`,
  examples: [
    ['savestate memory list --user ann', 'the memories of Ann'],
    ['savestate memory search "Where does she live?" --user ann', 'what answers a question'],
    ['savestate memory why mem_0k3v9r2m5x7q1d', 'the checkpoints and words it came from'],
    ['savestate memory forget --user ann --dry-run', 'what would be deleted'],
  ],
  run: (context, input) => input.action('memory', ACTIONS)(context, input),
};

/** Lists what is known, the newest last. */
async function list(context: Context, input: CommandInput): Promise<undefined> {
  const limit = input.limit() ?? DEFAULT_COUNT;
  const found = await useMemory(context, input, async (memory, view) =>
    memory.list({ ...view.scope(), ...view.from, ...readSelection(input) }),
  );
  await tell(context, found.slice(-limit));
  if (found.length === 0) context.say('There are no memories.');
  if (found.length > limit) context.say(`${found.length - limit} more; see them with -n ${found.length}`);
}

/** Finds what answers a question, the best first. */
async function search(context: Context, input: CommandInput): Promise<ExitCode | undefined> {
  const question = input.words.slice(1).join(' ');
  if (question.trim() === '') throw new InvalidInputError('Say what to look for: savestate memory search "..."');
  const topK = input.limit() ?? DEFAULT_COUNT;
  const results = await useMemory(context, input, async (memory, view) =>
    memory.search(question, { ...view.scope(), ...view.from, ...readSelection(input), topK }),
  );
  await tell(context, results);
  if (results.length > 0) return undefined;
  context.say('No memory answers this.');
  return EXIT.notFound;
}

function readSelection(input: CommandInput): { kinds?: readonly MemoryKind[]; showExpired?: boolean } {
  const kinds = input.texts('kind').map(parseKind);
  return { ...(kinds.length > 0 && { kinds }), ...(input.flag('all') && { showExpired: true }) };
}

async function tell(context: Context, memories: readonly MemoryOutput[]): Promise<void> {
  const { terminal } = context;
  const rows = memories.map((memory) => [
    terminal.style.cyan(memory.id),
    memory.kind,
    memory.subject,
    formatTime(new Date(memory.observedAt)),
    ...(memory.score === undefined ? [] : [memory.score.toFixed(2)]),
    clip(memory.memory, Number.POSITIVE_INFINITY),
  ]);
  await context.answer(memories, () => formatRows(terminal, rows));
}

/** Says what taught a memory, and what is left of that. */
async function why(context: Context, input: CommandInput): Promise<undefined> {
  const found = await useMemory(context, input, (memory, { from }) => memory.why(input.need(1, 'which memory'), from));
  const { id, record, sources, supersededBy } = found;
  if (sources.length === 0) throw noMemory(id); // it was purged
  const output = { id, memory: record ?? null, supersededBy, sources };
  return context.answer(output, () => {
    const what =
      record === undefined ? 'not known from here' : `${record.kind} about ${record.subject}: ${record.memory}`;
    const later = supersededBy === undefined ? '' : `  superseded by ${supersededBy}\n`;
    return `${id}  ${what}\n${later}${sources.map(formatSource).join('')}`;
  });
}

function noMemory(id: string): NotFoundError {
  return new NotFoundError(`There is no memory "${id}". See: savestate memory list --user <id>`, { details: { id } });
}

function formatSource(source: MemoryReasons['sources'][number]): string {
  const { operation, at, sessionId, branch, checkpointId, status, isVisible, turns } = source;
  const place = sessionId === undefined ? 'no session' : `session ${sessionId}, branch ${branch}`;
  const left = checkpointId === undefined ? '' : `, ${checkpointId} (${status})`;
  const seen = isVisible ? '' : ', not visible from here';
  const words = turns.map((turn) => `    "${turn}"\n`).join('');
  return `  ${operation} ${formatTime(new Date(at))}, ${place}${left}${seen}\n${words}`;
}

/** Removes the words of memories for good. */
async function forget(context: Context, input: CommandInput): Promise<undefined> {
  return useMemory(context, input, async ({ own: memory }, view) => {
    if (memory === undefined)
      throw new UnsupportedError(
        'Through a server nothing is forgotten. Run "savestate memory forget" where the memory is.',
      );
    const { target, what, ids } = await choose(memory, view, input.word(1));
    if (!(await context.confirm(`This forgets ${what} for good.`, input))) {
      const nothing = { isDryRun: true, memories: ids, turns: [], checkpoints: [], sessions: [] };
      return context.answer(nothing, () => `Would forget ${what}; nothing was forgotten.\n`);
    }
    const purged = await memory.purge(target, withoutUndefined({ reason: input.text('reason') }));
    const { purged: memories, turns, checkpoints, sessions } = purged;
    const output = { isDryRun: false, memories, turns, checkpoints, sessions };
    await context.answer(output, () => `${memories.length} forgotten.\n`);
    if (turns.length > 0)
      context.say(
        `The words were taken out of ${formatCount(turns.length, 'turn')} that said more: ${turns.join(', ')}. To forget the rest: ${context.command(`memory forget ${turns[0]}`)}`,
      );
    if (checkpoints.length > 0)
      context.say(
        `The states of ${formatCount(checkpoints.length, 'checkpoint')} may still hold the words: ${checkpoints.slice(0, 3).join(', ')}${checkpoints.length > 3 ? ', ...' : ''}. See: savestate redact, savestate forget`,
      );
  });
}

type Doomed = { readonly target: string | MemoryScope; readonly what: string; readonly ids: readonly string[] };

async function choose(memory: Memory, { named }: MemoryView, id: string | undefined): Promise<Doomed> {
  if ((id !== undefined) === Object.keys(named).length > 0)
    throw new InvalidInputError('Name a memory, or pass --user <id> or --agent <id>: one of the two.');
  if (id === undefined) return chooseScope(memory, named);
  const found = await memory.get(id);
  const history = await memory.history(id);
  if (history.some(({ action }) => action === 'PURGE')) throw noMemory(id);
  const words = found?.memory ?? history.findLast(({ newValue }) => newValue !== undefined)?.newValue ?? '';
  return { target: id, what: `${id} ("${clip(words, SHOWN_CHARS)}") and everything derived from it`, ids: [id] };
}

async function chooseScope(memory: Memory, scope: MemoryScope): Promise<Doomed> {
  const { userId, agentId } = scope;
  const whose = [userId && `user "${userId}"`, agentId && `agent "${agentId}"`].filter(Boolean).join(' and ');
  const known = await memory.getAll({ ...scope, showExpired: true });
  if (known.length === 0) throw new NotFoundError(`There are no memories of ${whose}.`);
  const what = `all memories of ${whose}, ${formatCount(known.length, 'memory')} seen from here`;
  return { target: scope, what, ids: known.map(({ id }) => id) };
}
