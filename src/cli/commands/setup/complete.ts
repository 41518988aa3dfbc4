import type { Command } from '../../command.ts';
import { COMMANDS, findCommand } from '../../command-table.ts';
import type { Context } from '../../context.ts';
import { GLOBAL_ROWS } from '../../global-options.ts';
import { findName } from '../../program.ts';
import { listRevisions } from '../../revision/list-revisions.ts';

const SHELLS = ['bash', 'zsh', 'fish'];

/** Commands whose first word is one of these. */
const ACTIONS: Readonly<Record<string, readonly string[]>> = {
  bisect: ['start', 'good', 'bad', 'skip', 'run', 'reset'],
  memory: ['list', 'search', 'why', 'forget'],
  workflow: ['check', 'draw', 'schema'],
};

/** Commands whose words are branches only, and those that take no revision. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  completion: SHELLS,
  help: COMMANDS.map(({ name }) => name),
  schema: COMMANDS.map(({ name }) => name),
};
const WITH_REVISIONS = new Set([
  'log',
  'show',
  'diff',
  'resume',
  'trial',
  'fork',
  'rewind',
  'forget',
  'export',
  'switch',
  'branch',
  'tag',
  'blame',
  'grep',
  'bisect',
]);

/** Says what may come next; completion scripts call it. */
export const command: Command = {
  arguments: '[words...]',
  isPassedOn: true,
  examples: [['savestate complete -- lo', 'log']],
  run: async (context, input) => {
    const words = input.words[0] === '--' ? input.words.slice(1) : input.words;
    const last = words.at(-1) ?? '';
    const found = await candidates(context, words.slice(0, -1), last);
    context.terminal.print(
      found
        .filter((each) => each.startsWith(last))
        .map((each) => `${each}\n`)
        .join(''),
    );
    return undefined;
  },
};

async function candidates(context: Context, before: readonly string[], last: string): Promise<readonly string[]> {
  const name = findName(before);
  const previous = before.at(-1);
  if (previous === '-s' || previous === '--session') return listSessions(context);
  if (last.startsWith('-')) return listOptions(name);
  if (name === undefined) return COMMANDS.filter(({ isHidden }) => isHidden !== true).map((row) => row.name);
  return (previous === name ? ACTIONS[name] : undefined) ?? listWords(context, name);
}

/** What comes after the name of a command, or after its first word. */
async function listWords(context: Context, name: string): Promise<readonly string[]> {
  if (Object.hasOwn(WORDS, name)) return WORDS[name] ?? [];
  if (name === 'drift') return listSessions(context);
  return WITH_REVISIONS.has(name)
    ? listRevisions(await context.workspace(), { isBranchesOnly: name === 'switch' })
    : [];
}

async function listOptions(name: string | undefined): Promise<string[]> {
  const own = (await findCommand(name)?.load())?.command.options ?? [];
  return [...own, ...GLOBAL_ROWS].flatMap(([flags]) => flags.match(/--[a-z-]+/) ?? []);
}

async function listSessions(context: Context): Promise<string[]> {
  const { storage } = await context.workspace();
  return storage.listSessions({ limit: 100 });
}
