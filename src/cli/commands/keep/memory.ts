import type { Command } from '../../base/command.ts';

/** What can be done with a memory. */
const ACTIONS: Readonly<Record<string, Command['run']>> = {
  list: async (context, input) => (await import('./memory/look.ts')).list(context, input),
  search: async (context, input) => (await import('./memory/look.ts')).search(context, input),
  why: async (context, input) => (await import('./memory/why.ts')).why(context, input),
  forget: async (context, input) => (await import('./memory/forget.ts')).forget(context, input),
};

/** Looks at long-term memory. */
export const command: Command = {
  arguments: '<action> [words...]',
  options: [
    ['--memory <place>', 'a file, or postgres://...; default: what savestate.yaml names, else memories/history.db'],
    ['--user <id>', 'whose memory: of this user'],
    ['--agent <id>', 'of this agent'],
    ['-n <count>', 'list and search: at most so many; default 20'],
    [
      '--kind <kind>',
      'list and search: only this kind: fact, preference, instruction, decision, episode, ...',
      'repeat',
    ],
    ['--as-of <revision>', 'as it was known at this checkpoint'],
    ['--all', 'list and search: also what expired or was superseded'],
    ['--reason <text>', 'forget: why; it stays in the tombstone'],
    ['--dry-run', 'forget: only say what would be forgotten'],
  ],
  details: `Actions: list, search <question>, why <id> (what taught it, and what is left of that), forget <id>, or forget --user <id>.
What is known follows the branches of the checkpoints' storage: what a rewind abandoned is not listed.
forget removes the words for good, of all versions and of what was taken from them. It shows what it would do and asks.`,
  examples: [
    ['savestate memory list --user ann', 'what is known of Ann'],
    ['savestate memory search "Where does she live?" --user ann', 'what answers a question'],
    ['savestate memory why mem_0k3v9r2m5x7q1d', 'which checkpoints and words taught it'],
    ['savestate memory forget --user ann --dry-run', 'what there is to forget'],
  ],
  run: (context, input) => input.action('memory', ACTIONS)(context, input),
};
