import type { OptionRow } from '../command.ts';

/** Options of every command that lets a team talk. */
export const TALK_OPTIONS: readonly OptionRow[] = [
  [
    '--team <file>',
    'a team.yaml, or a module that exports createTeam or createFleet; default: what savestate.yaml names',
  ],
  ['--user <id>', 'whose conversation it is, for memory and for "forget --user"'],
  ['--logs <folder>', 'also write the files of the session there'],
];
