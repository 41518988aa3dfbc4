import type { CommandInput, GlobalOptions } from './command-input.ts';
import type { Context } from './context.ts';
import type { ExitCode } from './exit-code.ts';

export type { CommandInput, GlobalOptions } from './command-input.ts';
export type { Context } from './context.ts';
export { EXIT, type ExitCode } from './exit-code.ts';
export type { OpenStorage } from './open-storage.ts';

/** An option as commander writes it; with `repeat` it may be given more than once. */
export type OptionRow = readonly [flags: string, description: string, repeat?: 'repeat'];

/** A line that can be typed, and what it does. */
export type Example = readonly [line: string, what: string];

/** One command: what it takes, how it is explained, and what it does. Its module is loaded only when it is used. */
export type Command = {
  /** As commander writes them: `<a> [b]`, `[words...]`. */
  readonly arguments?: string;
  readonly options?: readonly OptionRow[];
  readonly details?: string;
  readonly examples: readonly Example[];
  /** Passes everything after the command's name on, options too. */
  readonly isPassedOn?: boolean;
  /** Returns how it ended if that is not simply well. */
  readonly run: (context: Context, input: CommandInput) => Promise<ExitCode | undefined>;
};

/** How the commands are sorted in the help. */
export type CommandGroup = 'Look' | 'Move' | 'Find' | 'Keep' | 'Set up';

/** A command before its module is loaded: enough for the help. */
export type CommandRow = {
  readonly name: string;
  readonly group: CommandGroup;
  readonly summary: string;
  readonly load: () => Promise<{ readonly command: Command }>;
  /** What its first word may be, where it is an action. */
  readonly actions?: readonly string[];
  readonly isHidden?: boolean;
};

/** Where the program says things, and how a command is run. */
export type ProgramParts = {
  readonly version: string;
  /** How wide the screen is, if there is one. */
  readonly columns?: number;
  readonly print: (text: string) => void;
  readonly note: (text: string) => void;
  readonly run: (command: Command, input: CommandInput, globals: GlobalOptions) => Promise<ExitCode | undefined>;
};

/** The program itself, for commands that complete, explain or run others. */
export type Program = {
  readonly commands: readonly CommandRow[];
  /** Reads the arguments and runs the command they name. */
  readonly run: (args: readonly string[], parts: ProgramParts) => Promise<ExitCode>;
};
