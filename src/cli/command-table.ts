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

/** Every command. A new one is a module in commands/ that exports `command`, and its row here. */
export const COMMANDS: readonly CommandRow[] = [
  {
    name: 'sessions',
    group: 'Look',
    summary: 'list the sessions, the last used first',
    load: () => import('./commands/sessions.ts'),
  },
  {
    name: 'log',
    group: 'Look',
    summary: 'list checkpoints, the newest first',
    load: () => import('./commands/log.ts'),
  },
  {
    name: 'show',
    group: 'Look',
    summary: 'show a checkpoint, or a value of its state',
    load: () => import('./commands/show.ts'),
  },
  {
    name: 'diff',
    group: 'Look',
    summary: 'show what changed between two checkpoints',
    load: () => import('./commands/diff.ts'),
  },
  {
    name: 'blame',
    group: 'Look',
    summary: 'show which checkpoint last set a value',
    load: () => import('./commands/blame.ts'),
  },
  { name: 'grep', group: 'Look', summary: 'search what was said and stored', load: () => import('./commands/grep.ts') },
  {
    name: 'stats',
    group: 'Look',
    summary: 'show how much is stored, and what sharing saves',
    load: () => import('./commands/stats.ts'),
  },
  {
    name: 'follow',
    group: 'Look',
    summary: 'show checkpoints as they are saved',
    load: () => import('./commands/follow.ts'),
  },
  {
    name: 'drift',
    group: 'Look',
    summary: 'show signs of loops, stalls and lost goals over time',
    load: () => import('./commands/drift.ts'),
  },
  {
    name: 'run',
    group: 'Move',
    summary: 'let the team answer, or run a workflow',
    load: () => import('./commands/run.ts'),
  },
  {
    name: 'resume',
    group: 'Move',
    summary: 'go on from any checkpoint, in a new branch',
    load: () => import('./commands/resume.ts'),
  },
  {
    name: 'continue',
    group: 'Move',
    summary: 'go on where a session was left',
    load: () => import('./commands/continue.ts'),
  },
  {
    name: 'fork',
    group: 'Move',
    summary: 'begin a branch at a checkpoint, with or without an edit',
    load: () => import('./commands/fork.ts'),
  },
  {
    name: 'rewind',
    group: 'Move',
    summary: 'go back to an earlier checkpoint, in a new branch',
    load: () => import('./commands/rewind.ts'),
  },
  {
    name: 'branch',
    group: 'Move',
    summary: 'list, make or delete branches',
    load: () => import('./commands/branch.ts'),
  },
  {
    name: 'switch',
    group: 'Move',
    summary: 'make another branch the current one',
    load: () => import('./commands/switch.ts'),
  },
  { name: 'tag', group: 'Move', summary: 'list, set or delete tags', load: () => import('./commands/tag.ts') },
  {
    name: 'undo',
    group: 'Move',
    summary: 'undo the last fork, rewind, switch, branch or tag',
    load: () => import('./commands/undo.ts'),
  },
  {
    name: 'trial',
    group: 'Find',
    summary: 'find out by experiment whether a change helps',
    load: () => import('./commands/trial.ts'),
  },
  {
    name: 'bisect',
    group: 'Find',
    summary: 'find the first checkpoint where something is wrong',
    load: () => import('./commands/bisect.ts'),
  },
  {
    name: 'verify',
    group: 'Keep',
    summary: 'check that everything stored is whole',
    load: () => import('./commands/verify.ts'),
  },
  {
    name: 'prune',
    group: 'Keep',
    summary: 'delete checkpoints that no rule keeps',
    load: () => import('./commands/prune.ts'),
  },
  {
    name: 'gc',
    group: 'Keep',
    summary: 'give back the space of what was deleted',
    load: () => import('./commands/gc.ts'),
  },
  {
    name: 'forget',
    group: 'Keep',
    summary: 'delete checkpoints, a session, or all of a user',
    load: () => import('./commands/forget.ts'),
  },
  {
    name: 'redact',
    group: 'Keep',
    summary: 'take a text or a value out of a whole session',
    load: () => import('./commands/redact.ts'),
  },
  {
    name: 'export',
    group: 'Keep',
    summary: 'write a session or a checkpoint to a file',
    load: () => import('./commands/export.ts'),
  },
  { name: 'import', group: 'Keep', summary: 'read an exported session', load: () => import('./commands/import.ts') },
  {
    name: 'copy',
    group: 'Keep',
    summary: 'copy sessions to another storage',
    load: () => import('./commands/copy.ts'),
  },
  {
    name: 'memory',
    group: 'Keep',
    summary: 'list, search, explain and forget long-term memories',
    load: () => import('./commands/memory.ts'),
  },
  {
    name: 'workflow',
    group: 'Set up',
    summary: 'check or draw a workflow file',
    load: () => import('./commands/workflow.ts'),
  },
  {
    name: 'repl',
    group: 'Set up',
    summary: 'talk to the team, look and move around step by step',
    load: () => import('./commands/repl.ts'),
  },
  {
    name: 'init',
    group: 'Set up',
    summary: 'make a storage and savestate.yaml here',
    load: () => import('./commands/init.ts'),
  },
  {
    name: 'config',
    group: 'Set up',
    summary: 'show or change what savestate.yaml says',
    load: () => import('./commands/config.ts'),
  },
  {
    name: 'doctor',
    group: 'Set up',
    summary: 'find out why something does not work',
    load: () => import('./commands/doctor.ts'),
  },
  {
    name: 'completion',
    group: 'Set up',
    summary: 'print a completion script for bash, zsh or fish',
    load: () => import('./commands/completion.ts'),
  },
  {
    name: 'schema',
    group: 'Set up',
    summary: "print the JSON Schema of a command's --json",
    load: () => import('./commands/schema.ts'),
  },
  {
    name: 'demo',
    group: 'Set up',
    summary: 'a short tour on a temporary database',
    load: () => import('./commands/demo.ts'),
  },
  {
    name: 'langgraph',
    group: 'Set up',
    summary: 'move threads from and to LangGraph',
    load: () => import('./commands/langgraph.ts'),
  },
  {
    name: 'complete',
    group: 'Set up',
    summary: 'what may come next, for completion scripts',
    load: () => import('./commands/complete.ts'),
    isHidden: true,
  },
];

/** The row of a command; undefined if there is none of this name. */
export function findCommand(name: string | undefined): CommandRow | undefined {
  return COMMANDS.find((row) => row.name === name);
}
