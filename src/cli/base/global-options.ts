import type { Command } from 'commander';
import { InvalidInputError } from '../../core/errors.ts';
import type { ProgressMode } from '../terminal/progress-bar.ts';

/** What every command understands. */
export type GlobalOptions = {
  readonly storage?: string | undefined;
  readonly tenant?: string | undefined;
  readonly schema?: string | undefined;
  readonly session?: string | undefined;
  readonly json: boolean;
  readonly color: boolean;
  readonly pager: boolean;
  readonly quiet: boolean;
  readonly yes: boolean;
  readonly input: boolean;
  readonly progress: ProgressMode;
};

/** The flags, as commander writes them, and what they mean. */
export const GLOBAL_ROWS: readonly (readonly [flags: string, description: string])[] = [
  [
    '--storage <address>',
    'sqlite:<file>, file:<folder>, postgres://<server>/<database>, or a path (SAVESTATE_STORAGE)',
  ],
  ['--tenant <name>', 'whose data this is, in PostgreSQL (SAVESTATE_TENANT)'],
  ['--schema <name>', 'where the tables are, in PostgreSQL'],
  ['-s, --session <id>', 'the session; default: the one saved to last (SAVESTATE_SESSION)'],
  ['--json', 'answer as JSON; "savestate schema <command>" describes it'],
  ['--no-color', 'no colours; NO_COLOR does the same'],
  ['--no-pager', 'no pager for long answers'],
  ['-q, --quiet', 'only the answer, and errors'],
  ['-y, --yes', 'do it without asking'],
  ['--no-input', 'ask nothing'],
  ['--progress <when>', 'show progress: auto, always or never'],
];

/** Flags that are followed by a value. */
const FLAGS_WITH_VALUE: ReadonlySet<string> = new Set(
  GLOBAL_ROWS.filter(([flags]) => flags.includes('<')).flatMap(([flags]) => flags.match(/--?[a-z]+/g) ?? []),
);

/** The first word that is not an option of the program itself. */
export function findName(args: readonly string[]): string | undefined {
  for (let at = 0; at < args.length; at++) {
    const word = args[at] ?? '';
    if (FLAGS_WITH_VALUE.has(word)) at++;
    else if (!word.startsWith('-')) return word;
  }
  return undefined;
}

/** Reads the options that were given before the command's name and after it; those after it come first. */
export function readGlobalOptions(commands: readonly Command[]): GlobalOptions {
  const given: Record<string, unknown> = {};
  for (const command of commands) {
    for (const [name, value] of Object.entries(command.opts()))
      if (command.getOptionValueSource(name) === 'cli') given[name] = value;
  }
  const text = (name: string) => (typeof given[name] === 'string' ? given[name] : undefined);
  return {
    storage: text('storage'),
    tenant: text('tenant'),
    schema: text('schema'),
    session: text('session'),
    json: given.json === true,
    color: given.color !== false,
    pager: given.pager !== false,
    quiet: given.quiet === true,
    yes: given.yes === true,
    input: given.input !== false,
    progress: parseProgress(text('progress') ?? 'auto'),
  };
}

function parseProgress(text: string): ProgressMode {
  if (text === 'auto' || text === 'always' || text === 'never') return text;
  throw new InvalidInputError(`--progress must be auto, always or never; found "${text}".`);
}
