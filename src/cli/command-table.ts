import type { CommandGroup, CommandRow } from './base/command.ts';

type Row = readonly [
  name: string,
  summary: string,
  load: CommandRow['load'],
  more?: Pick<CommandRow, 'actions' | 'isHidden'>,
];

/** A new command is a module in the folder of its group that exports `command`, and its row here. */
const GROUPS: Readonly<Record<CommandGroup, readonly Row[]>> = {
  Look: [
    ['sessions', 'list the sessions, most recently used first', () => import('./commands/look/sessions.ts')],
    ['log', 'list checkpoints, newest first', () => import('./commands/look/log.ts')],
    ['show', 'show a checkpoint, or a value of its state', () => import('./commands/look/show.ts')],
    ['diff', 'show what changed between two checkpoints', () => import('./commands/look/diff.ts')],
    ['blame', 'show which checkpoint last set a value', () => import('./commands/look/blame.ts')],
    ['grep', 'search what was said and stored', () => import('./commands/look/grep.ts')],
    ['stats', 'show how much is stored, and what sharing saves', () => import('./commands/look/stats.ts')],
    ['follow', 'show checkpoints as they are saved', () => import('./commands/look/follow.ts')],
    ['serve', 'serve the storage over HTTP to scripts and other machines', () => import('./commands/serve/serve.ts')],
    ['studio', 'look at everything in a browser', () => import('./commands/serve/studio.ts')],
    ['mcp', 'serve the storage to models over the Model Context Protocol', () => import('./commands/serve/mcp.ts')],
    ['drift', 'show signs of loops, stalls and lost goals over time', () => import('./commands/look/drift.ts')],
  ],
  Move: [
    ['run', 'give the team a task, or run a workflow', () => import('./commands/move/run.ts')],
    ['resume', 'continue from any checkpoint, on a new branch', () => import('./commands/move/resume.ts')],
    ['continue', 'continue where a session stopped', () => import('./commands/move/continue.ts')],
    ['fork', 'start a branch at a checkpoint, with or without an edit', () => import('./commands/move/fork.ts')],
    ['rewind', 'go back to an earlier checkpoint, on a new branch', () => import('./commands/move/rewind.ts')],
    ['branch', 'list, create or delete branches', () => import('./commands/move/branch.ts')],
    ['switch', 'make another branch the current one', () => import('./commands/move/switch.ts')],
    ['tag', 'list, set or delete tags', () => import('./commands/move/tag.ts')],
    ['undo', 'undo the last fork, rewind, switch, branch or tag', () => import('./commands/move/undo.ts')],
  ],
  Find: [
    ['trial', 'find out by experiment whether a change helps', () => import('./commands/find/trial.ts')],
    [
      'bisect',
      'find the first checkpoint where something is wrong',
      () => import('./commands/find/bisect.ts'),
      { actions: ['start', 'good', 'bad', 'skip', 'run', 'reset'] },
    ],
  ],
  Keep: [
    ['verify', 'check that everything stored is intact', () => import('./commands/keep/verify.ts')],
    ['prune', 'delete checkpoints by the retention policy', () => import('./commands/keep/prune.ts')],
    ['gc', 'free the space of deleted data', () => import('./commands/keep/gc.ts')],
    ['forget', 'delete checkpoints, a session, or all data of a user', () => import('./commands/keep/forget.ts')],
    ['redact', 'remove a text or a value from a whole session', () => import('./commands/keep/redact.ts')],
    ['export', 'write a session or a checkpoint to a file', () => import('./commands/keep/export.ts')],
    ['import', 'read an exported session', () => import('./commands/keep/import.ts')],
    ['copy', 'copy sessions to another storage', () => import('./commands/keep/copy.ts')],
    ['backup', 'back up the whole storage', () => import('./commands/keep/backup.ts')],
    ['restore-backup', 'restore a backup into a new storage', () => import('./commands/keep/restore-backup.ts')],
    [
      'key',
      'list, add, rotate and remove keys of an encrypted storage',
      () => import('./commands/keep/key.ts'),
      { actions: ['list', 'add', 'rotate', 'remove'] },
    ],
    [
      'memory',
      'list, search, explain and forget long-term memories',
      () => import('./commands/keep/memory.ts'),
      { actions: ['list', 'search', 'why', 'forget'] },
    ],
  ],
  'Set up': [
    [
      'workflow',
      'check a workflow file, or print its schema',
      () => import('./commands/setup/workflow.ts'),
      { actions: ['check', 'schema'] },
    ],
    ['repl', 'talk to the team, look and move around step by step', () => import('./commands/setup/repl.ts')],
    ['init', 'create a storage and savestate.yaml here', () => import('./commands/setup/init.ts')],
    ['config', 'show or change what savestate.yaml says', () => import('./commands/setup/config.ts')],
    ['doctor', 'find out why something does not work', () => import('./commands/setup/doctor.ts')],
    ['completion', 'print a completion script for bash, zsh or fish', () => import('./commands/setup/completion.ts')],
    ['demo', 'a short tour on a temporary database', () => import('./commands/setup/demo.ts')],
    [
      'langgraph',
      'import threads from LangGraph, or export them',
      () => import('./commands/setup/langgraph.ts'),
      { actions: ['import', 'export'] },
    ],
    [
      'complete',
      'what may come next, for completion scripts',
      () => import('./commands/setup/complete.ts'),
      { isHidden: true },
    ],
  ],
};

/** Every command, group by group. */
export const COMMANDS: readonly CommandRow[] = Object.entries(GROUPS).flatMap(([group, rows]) =>
  rows.map(([name, summary, load, more]) => ({ name, group: group as CommandGroup, summary, load, ...more })),
);
