import type { Command } from 'commander';
import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import type { StorageOptions } from '../place/project.ts';
import type { ProgressMode } from '../terminal/progress-bar.ts';

/** What a person wrote after the name of a command, checked as it is asked for. */
export class CommandInput {
  readonly words: readonly string[];
  readonly #options: Readonly<Record<string, unknown>>;

  constructor(words: readonly string[], options: Readonly<Record<string, unknown>>) {
    this.words = words;
    this.#options = options;
  }

  /** The word at this place; undefined if there are fewer. */
  word(at: number): string | undefined {
    return this.words[at];
  }

  /** The word at this place, which must be there. */
  need(at: number, what: string): string {
    const word = this.words[at];
    if (word === undefined) throw new InvalidInputError(`Say ${what}.`);
    return word;
  }

  /** What the first word names, among the actions of a command. */
  action<Act>(command: string, actions: Readonly<Record<string, Act>>): Act {
    const names = Object.keys(actions);
    const name = this.need(0, `what to do: ${names.slice(0, -1).join(', ')} or ${names.at(-1)}`);
    const found = Object.hasOwn(actions, name) ? actions[name] : undefined;
    if (found !== undefined) return found;
    throw new InvalidInputError(`${command} has no action "${name}". It has: ${names.join(', ')}.`);
  }

  flag(name: string): boolean {
    return this.#options[name] === true;
  }

  /** Whether `--no-<name>` was given. */
  isOff(name: string): boolean {
    return this.#options[name] === false;
  }

  text(name: string): string | undefined {
    const value = this.#options[name];
    return typeof value === 'string' ? value : undefined;
  }

  /** An option that is one of a few words. */
  oneOf<Word extends string>(name: string, words: readonly Word[]): Word | undefined {
    const text = this.text(name);
    const found = words.find((word) => word === text);
    if (found !== undefined || text === undefined) return found;
    throw new InvalidInputError(`${flagOf(name)} must be ${words.join(', ')}; found "${text}".`);
  }

  /** Whether an option was given, whatever its form. */
  has(name: string): boolean {
    const isFlag = name !== 'input'; // true without --no-input
    return this.text(name) !== undefined || this.texts(name).length > 0 || (isFlag && this.flag(name));
  }

  /** An option that was given more than once, in order. */
  texts(name: string): readonly string[] {
    const value = this.#options[name];
    return Array.isArray(value) ? value.map(String) : [];
  }

  /** An option that is a whole number, 0 or more. */
  count(name: string): number | undefined {
    const text = this.text(name);
    return text === undefined ? undefined : parseCount(text, flagOf(name));
  }

  /** How many to show: with none, nothing could be said of what there is. */
  limit(name = 'n'): number | undefined {
    const limit = this.count(name);
    if (limit !== 0) return limit;
    throw new InvalidInputError(`${flagOf(name)} must be a whole number, 1 or more; found "0".`);
  }
}

/** An option as it is typed: `--keep-last`, `-n`. */
export function flagOf(name: string): string {
  const words = name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return `${words.length === 1 ? '-' : '--'}${words}`;
}

/** Options with values as they are typed, each after a space. */
export function formatFlags(given: Readonly<Record<string, string | undefined>>): string {
  return Object.entries(withoutUndefined(given))
    .map(([name, value]) => ` --${name} ${quoteArgument(value ?? '')}`)
    .join('');
}

/** As a shell takes it; a password or token is not repeated. */
export function quoteArgument(value: string): string {
  const shown = value.replace(/^(\w+:\/\/[^:/@]+):[^@]*@/, '$1:***@').replace(/^(https?:[^#]*?)\/?#.*/is, '$1');
  return /^[\w@%+:,./-][\w@%+=:,./~-]*$/.test(shown) ? shown : `'${shown.replaceAll("'", String.raw`'\''`)}'`;
}

/** Reads a whole number, 0 or more. */
export function parseCount(text: string, what: string): number {
  const count = Number(text);
  if (text.trim() === '' || !Number.isSafeInteger(count) || count < 0)
    throw new InvalidInputError(`${what} must be a whole number, 0 or more; found "${text}".`);
  return count;
}

/** What every command understands. */
export type GlobalOptions = StorageOptions & {
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
  ['--remote <url>', 'the storage of a running "savestate serve"; its token is in SAVESTATE_TOKEN, or after #token='],
  ['--token-file <file>', 'a file with that token'],
  ['--tenant <name>', 'whose data this is, in PostgreSQL (SAVESTATE_TENANT)'],
  ['--schema <name>', 'where the tables are, in PostgreSQL'],
  ['-s, --session <id>', 'the session; default: the most recently saved one (SAVESTATE_SESSION)'],
  ['--json', 'print JSON'],
  ['--no-color', 'no colours; NO_COLOR does the same'],
  ['--no-pager', 'never page long output'],
  ['-q, --quiet', 'print only the result and errors'],
  ['-y, --yes', 'do not ask for confirmation'],
  ['--no-input', 'never ask for input'],
  ['--progress <when>', 'show progress: auto, always or never'],
];

/** Flags that are followed by a value. */
const FLAGS_WITH_VALUE: ReadonlySet<string> = new Set(
  GLOBAL_ROWS.filter(([flags]) => flags.includes('<')).flatMap(([flags]) => flags.match(/--?[a-z][a-z-]*/g) ?? []),
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
  const input = new CommandInput([], given);
  return {
    ...Object.fromEntries(TEXTS.map((name) => [name, input.text(name)])),
    json: input.flag('json'),
    color: !input.isOff('color'),
    pager: !input.isOff('pager'),
    quiet: input.flag('quiet'),
    yes: input.flag('yes'),
    input: !input.isOff('input'),
    progress: input.oneOf('progress', PROGRESS) ?? 'auto',
  };
}

const TEXTS = ['storage', 'remote', 'tokenFile', 'tenant', 'schema', 'session', 'memory'] as const;

const PROGRESS: readonly ProgressMode[] = ['auto', 'always', 'never'];
