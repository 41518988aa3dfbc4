import type { OptionRow } from '../command.ts';

/** Lets agents run code: what a checkpoint or a team file says of it is only a request. */
export const ALLOW_CODE: OptionRow = [
  '--allow-code',
  'let agents that ask for it run code in this folder and below; default: none runs unless a module allows it',
];

/** Options of every command that lets a team talk. */
export const TALK_OPTIONS: readonly OptionRow[] = [
  [
    '--team <file>',
    'a team.yaml, or a module that exports createTeam or createFleet; default: what savestate.yaml names',
  ],
  ['--registry <module>', 'the module with the code of the team or workflow; default: the one beside it'],
  ['--user <id>', 'whose conversation it is, for memory and for "forget --user"'],
  ALLOW_CODE,
  ['--logs <folder>', 'also write the files of the session there'],
];
