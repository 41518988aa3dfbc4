import type { CommandInput } from './command-input.ts';
import type { Context } from './context.ts';
import type { ExitCode } from './exit-code.ts';

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
  /** Answers how it ended if that is not simply well. */
  readonly run: (context: Context, input: CommandInput) => Promise<ExitCode | undefined>;
};
