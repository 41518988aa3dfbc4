import type { CommandRow } from '../base/command.ts';

/** What a word after a command may be. */
export type WordKind = 'revision' | 'count' | 'branch' | 'session' | 'command' | 'path' | 'name' | 'any';

/** What comes after the name of a command: all may be left out but those before `least`. */
export type Grammar = {
  readonly least?: number;
  readonly takes: readonly WordKind[];
  /** Words that make it this command, whatever comes after them. */
  readonly actions?: readonly string[];
  /** Changes nothing and moves nowhere, so that it may be typed before the team has finished. */
  readonly isLook?: boolean;
};

const LOOK = { isLook: true } as const;

/** The commands of the REPL itself, and those of the command line that sentences often begin with. */
const GRAMMARS: Readonly<Record<string, Grammar>> = {
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
  memory: { least: 1, takes: ['any'], actions: ['list', 'search', 'why', 'forget'] },
  bisect: { takes: ['any'], actions: ['start', 'good', 'bad', 'skip', 'reset', 'run'] },
  workflow: { takes: ['any', 'any'], actions: ['check', 'draw', 'schema'] },
};

/** Of a command of the command line that has no grammar here. */
const ANY: Grammar = { least: 1, takes: ['name', 'name'] };

/** Everything that can be typed first, and what it takes. */
export class ReplWords {
  readonly names: readonly string[];

  constructor(commands: readonly CommandRow[]) {
    const shown = commands.flatMap(({ name, isHidden }) => (isHidden ? [] : [name]));
    this.names = [...new Set([...Object.keys(GRAMMARS), ...shown])];
  }

  /** What a command takes; undefined if there is none of this name. */
  grammarOf(name: string): Grammar | undefined {
    if (Object.hasOwn(GRAMMARS, name)) return GRAMMARS[name];
    return this.names.includes(name) ? ANY : undefined;
  }
}
