import type { Command, Context } from '../../base/command.ts';
import { findName, GLOBAL_ROWS } from '../../base/command-input.ts';
import { listRevisions } from '../../revision/resolve-revision.ts';

const SHELLS = ['bash', 'zsh', 'fish'];

const WITH_REVISIONS = new Set(
  'log show diff resume trial fork rewind forget export switch branch tag blame grep bisect'.split(' '),
);

/** Says what may come next; completion scripts call it. */
export const command: Command = {
  arguments: '[words...]',
  isPassedOn: true,
  examples: [['savestate complete -- lo', 'log']],
  run: async (context, input) => {
    const words = input.words[0] === '--' ? input.words.slice(1) : input.words;
    const last = words.at(-1) ?? '';
    const found = (await candidates(context, words.slice(0, -1), last)).filter((each) => each.startsWith(last));
    context.terminal.print(found.map((each) => `${each}\n`).join(''));
  },
};

async function candidates(context: Context, before: readonly string[], last: string): Promise<readonly string[]> {
  const name = findName(before);
  const previous = before.at(-1);
  if (previous === '-s' || previous === '--session') return listSessions(context);
  if (last.startsWith('-')) return listOptions(context, name);
  if (name === undefined)
    return context.program.commands.filter(({ isHidden }) => isHidden !== true).map((row) => row.name);
  const row = previous === name ? context.program.commands.find((each) => each.name === name) : undefined;
  return row?.actions ?? listWords(context, name);
}

/** What comes after the name of a command, or after its first word. */
async function listWords(context: Context, name: string): Promise<readonly string[]> {
  if (name === 'completion') return SHELLS;
  if (name === 'help') return context.program.commands.map((row) => row.name);
  if (name === 'drift') return listSessions(context);
  return WITH_REVISIONS.has(name) ? listRevisions(await context.open(), { isBranchesOnly: name === 'switch' }) : [];
}

async function listOptions({ program }: Context, name: string | undefined): Promise<string[]> {
  const own = (await program.commands.find((row) => row.name === name)?.load())?.command.options ?? [];
  return [...own, ...GLOBAL_ROWS].flatMap(([flags]) => flags.match(/--[a-z-]+/) ?? []);
}

async function listSessions(context: Context): Promise<string[]> {
  const { storage } = await context.open();
  return storage.listSessions({ limit: 100 });
}
