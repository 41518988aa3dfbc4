import type { CommandRow } from '../base/command.ts';

/** What a word after a command may be. */
export type WordKind = 'revision' | 'count' | 'branch' | 'session' | 'command' | 'path' | 'name' | 'any';

/** What comes after the name of a command: all may be left out but those before `least`. */
export type Grammar = {
  readonly least?: number;
  readonly takes: readonly WordKind[];
  /** Words that make it this command, whatever comes after them. */
  readonly actions: readonly string[];
  /** Changes nothing and moves nowhere, so that it may be typed before the team has finished. */
  readonly isLook?: boolean;
};

const LOOK = { isLook: true } as const;

/** The commands of the REPL itself, and those of the command line that sentences often begin with. */
const GRAMMARS: Readonly<Record<string, Omit<Grammar, 'actions'>>> = {
  checkpoints: { takes: ['count'], ...LOOK },
  'list-checkpoints': { takes: ['count'], ...LOOK },
  resume: { least: 1, takes: ['revision'] },
  back: { takes: ['count'] },
  run: { takes: ['count'] },
  continue: { takes: [] },
  new: { takes: ['name'] },
  branch: { takes: ['branch'] },
  use: { least: 1, takes: ['session'] },
  where: { takes: [], ...LOOK },
  help: { takes: ['command'], ...LOOK },
  quit: { takes: [], ...LOOK },
  exit: { takes: [], ...LOOK },
  show: { takes: ['revision'], ...LOOK },
  diff: { takes: ['revision', 'revision'], ...LOOK },
  fork: { takes: ['revision'] },
  rewind: { least: 1, takes: ['revision'] },
  switch: { least: 1, takes: ['branch'] },
  tag: { takes: ['name', 'revision'] },
  undo: { takes: [] },
  log: { takes: ['revision'], ...LOOK },
  blame: { least: 1, takes: ['path', 'revision'], ...LOOK },
  grep: { least: 1, takes: ['any', 'revision'], ...LOOK },
  sessions: { takes: [], ...LOOK },
  stats: { takes: [], ...LOOK },
  verify: { takes: [], ...LOOK },
  doctor: { takes: [], ...LOOK },
  drift: { takes: ['session'], ...LOOK },
  memory: { least: 1, takes: ['any'] },
  bisect: { takes: ['any'] },
  workflow: { takes: ['any', 'any'] },
};

/** Of a command of the command line that has no grammar here. */
const ANY: Omit<Grammar, 'actions'> = { least: 1, takes: ['name', 'name'] };

/** Everything that can be typed first, and what it takes. */
export class ReplWords {
  readonly names: readonly string[];
  readonly #commands: readonly CommandRow[];

  constructor(commands: readonly CommandRow[]) {
    this.#commands = commands;
    const shown = commands.flatMap(({ name, isHidden }) => (isHidden ? [] : [name]));
    this.names = [...new Set([...Object.keys(GRAMMARS), ...shown])];
  }

  /** What a command takes; undefined if there is none of this name. */
  grammarOf(name: string): Grammar | undefined {
    if (!this.names.includes(name)) return undefined;
    const actions = this.#commands.find((row) => row.name === name)?.actions ?? [];
    return { ...((Object.hasOwn(GRAMMARS, name) ? GRAMMARS[name] : undefined) ?? ANY), actions };
  }
}

const ROWS: readonly (readonly [line: string, what: string])[] = [
  ['checkpoints [n]', 'the rounds of this branch and their messages'],
  ['resume <checkpoint>', 'continue from there: your next prompt starts a branch'],
  ['back [n]', 'the same, n rounds before'],
  ['run [n]', 'let the team continue, for n more rounds (also: continue)'],
  ['new [session]', 'your next prompt starts a new session'],
  ['sessions, use <session>', 'list the sessions, go to one'],
  ['branch [name]', 'list the branches, go to one'],
  ['fork [rev] [-b name]', 'start a branch; --set path=json edits it'],
  ['show [rev[:path]]', 'a checkpoint, or a value of its state'],
  ['diff [a] [b]', 'what changed'],
  ['where', 'where you are, and open questions'],
  ['help [command], quit', 'this; end it (also Ctrl-D)'],
];

const REST = `Also log, grep, blame, drift, tag, rewind, undo, stats, memory and every other
command of the command line, with or without "savestate" before it.
`;

const FORMS = `A checkpoint is the number of a round, an id or a prefix of one, a branch, a tag,
@, @~3, #12 or @{2h ago}. Ctrl-C stops what is under way.
`;

/** What can be typed in the REPL. */
export function formatHelp(hasTeam: boolean): string {
  const width = Math.max(...ROWS.map(([line]) => line.length));
  const said = hasTeam
    ? `Everything else is said to the team. A sentence may begin with the name of a
command. A slash makes a line a command for sure: /show main; quotes make it a
sentence: "run tests".
`
    : 'Everything else would be said to the team, but there is none here.\n';
  return `${ROWS.map(([line, what]) => `  ${line.padEnd(width)}  ${what}\n`).join('')}${REST}${said}${FORMS}`;
}
