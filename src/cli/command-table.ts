import type { Command } from './command.ts';

/** How the commands are sorted in the help. */
export type CommandGroup = 'Look' | 'Move' | 'Find' | 'Keep' | 'Set up';

/** A command before its module is loaded: enough for the help. */
export type CommandRow = {
  readonly name: string;
  readonly group: CommandGroup;
  readonly summary: string;
  readonly load: () => Promise<{ readonly command: Command }>;
  readonly isHidden?: boolean;
};

/** Every command. A new one is a module in the folder of its group that exports `command`, and its row here. */
export const COMMANDS: readonly CommandRow[] = [
  {
    name: 'sessions',
    group: 'Look',
    summary: 'list the sessions, the last used first',
    load: () => import('./commands/look/sessions.ts'),
  },
  {
    name: 'log',
    group: 'Look',
    summary: 'list checkpoints, the newest first',
    load: () => import('./commands/look/log.ts'),
  },
  {
    name: 'show',
    group: 'Look',
    summary: 'show a checkpoint, or a value of its state',
    load: () => import('./commands/look/show.ts'),
  },
  {
    name: 'diff',
    group: 'Look',
    summary: 'show what changed between two checkpoints',
    load: () => import('./commands/look/diff.ts'),
  },
  {
    name: 'blame',
    group: 'Look',
    summary: 'show which checkpoint last set a value',
    load: () => import('./commands/look/blame.ts'),
  },
  {
    name: 'grep',
    group: 'Look',
    summary: 'search what was said and stored',
    load: () => import('./commands/look/grep.ts'),
  },
  {
    name: 'stats',
    group: 'Look',
    summary: 'show how much is stored, and what sharing saves',
    load: () => import('./commands/look/stats.ts'),
  },
  {
    name: 'follow',
    group: 'Look',
    summary: 'show checkpoints as they are saved',
    load: () => import('./commands/look/follow.ts'),
  },
  {
    name: 'drift',
    group: 'Look',
    summary: 'show signs of loops, stalls and lost goals over time',
    load: () => import('./commands/look/drift.ts'),
  },
  {
    name: 'run',
    group: 'Move',
    summary: 'let the team answer, or run a workflow',
    load: () => import('./commands/move/run.ts'),
  },
  {
    name: 'resume',
    group: 'Move',
    summary: 'go on from any checkpoint, in a new branch',
    load: () => import('./commands/move/resume.ts'),
  },
  {
    name: 'continue',
    group: 'Move',
    summary: 'go on where a session was left',
    load: () => import('./commands/move/continue.ts'),
  },
  {
    name: 'fork',
    group: 'Move',
    summary: 'begin a branch at a checkpoint, with or without an edit',
    load: () => import('./commands/move/fork.ts'),
  },
  {
    name: 'rewind',
    group: 'Move',
    summary: 'go back to an earlier checkpoint, in a new branch',
    load: () => import('./commands/move/rewind.ts'),
  },
  {
    name: 'branch',
    group: 'Move',
    summary: 'list, make or delete branches',
    load: () => import('./commands/move/branch.ts'),
  },
  {
    name: 'switch',
    group: 'Move',
    summary: 'make another branch the current one',
    load: () => import('./commands/move/switch.ts'),
  },
  { name: 'tag', group: 'Move', summary: 'list, set or delete tags', load: () => import('./commands/move/tag.ts') },
  {
    name: 'undo',
    group: 'Move',
    summary: 'undo the last fork, rewind, switch, branch or tag',
    load: () => import('./commands/move/undo.ts'),
  },
  {
    name: 'trial',
    group: 'Find',
    summary: 'find out by experiment whether a change helps',
    load: () => import('./commands/find/trial.ts'),
  },
  {
    name: 'bisect',
    group: 'Find',
    summary: 'find the first checkpoint where something is wrong',
    load: () => import('./commands/find/bisect.ts'),
  },
  {
    name: 'verify',
    group: 'Keep',
    summary: 'check that everything stored is whole',
    load: () => import('./commands/keep/verify.ts'),
  },
  {
    name: 'prune',
    group: 'Keep',
    summary: 'delete checkpoints that no rule keeps',
    load: () => import('./commands/keep/prune.ts'),
  },
  {
    name: 'gc',
    group: 'Keep',
    summary: 'give back the space of what was deleted',
    load: () => import('./commands/keep/gc.ts'),
  },
  {
    name: 'forget',
    group: 'Keep',
    summary: 'delete checkpoints, a session, or all of a user',
    load: () => import('./commands/keep/forget.ts'),
  },
  {
    name: 'redact',
    group: 'Keep',
    summary: 'take a text or a value out of a whole session',
    load: () => import('./commands/keep/redact.ts'),
  },
  {
    name: 'export',
    group: 'Keep',
    summary: 'write a session or a checkpoint to a file',
    load: () => import('./commands/keep/export.ts'),
  },
  {
    name: 'import',
    group: 'Keep',
    summary: 'read an exported session',
    load: () => import('./commands/keep/import.ts'),
  },
  {
    name: 'copy',
    group: 'Keep',
    summary: 'copy sessions to another storage',
    load: () => import('./commands/keep/copy.ts'),
  },
  {
    name: 'memory',
    group: 'Keep',
    summary: 'list, search, explain and forget long-term memories',
    load: () => import('./commands/keep/memory.ts'),
  },
  {
    name: 'workflow',
    group: 'Set up',
    summary: 'check or draw a workflow file',
    load: () => import('./commands/setup/workflow.ts'),
  },
  {
    name: 'repl',
    group: 'Set up',
    summary: 'talk to the team, look and move around step by step',
    load: () => import('./commands/setup/repl.ts'),
  },
  {
    name: 'init',
    group: 'Set up',
    summary: 'make a storage and savestate.yaml here',
    load: () => import('./commands/setup/init.ts'),
  },
  {
    name: 'config',
    group: 'Set up',
    summary: 'show or change what savestate.yaml says',
    load: () => import('./commands/setup/config.ts'),
  },
  {
    name: 'doctor',
    group: 'Set up',
    summary: 'find out why something does not work',
    load: () => import('./commands/setup/doctor.ts'),
  },
  {
    name: 'completion',
    group: 'Set up',
    summary: 'print a completion script for bash, zsh or fish',
    load: () => import('./commands/setup/completion.ts'),
  },
  {
    name: 'schema',
    group: 'Set up',
    summary: "print the JSON Schema of a command's --json",
    load: () => import('./commands/setup/schema.ts'),
  },
  {
    name: 'demo',
    group: 'Set up',
    summary: 'a short tour on a temporary database',
    load: () => import('./commands/setup/demo.ts'),
  },
  {
    name: 'langgraph',
    group: 'Set up',
    summary: 'move threads from and to LangGraph',
    load: () => import('./commands/setup/langgraph.ts'),
  },
  {
    name: 'complete',
    group: 'Set up',
    summary: 'what may come next, for completion scripts',
    load: () => import('./commands/setup/complete.ts'),
    isHidden: true,
  },
];

/** The row of a command; undefined if there is none of this name. */
export function findCommand(name: string | undefined): CommandRow | undefined {
  return COMMANDS.find((row) => row.name === name);
}
