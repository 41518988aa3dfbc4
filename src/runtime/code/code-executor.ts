import { accepts, checkValue, isRecord, listOf, type OptionChecks, options, wholeFrom } from '../../core/options.ts';
import { MAX_DELAY_MS } from '../../core/time/timer.ts';
import { WORKSPACE, type WorkspaceOptions } from '../workspace/workspace-options.ts';
import { interpreterOf, KNOWN_LANGUAGES } from './interpreter.ts';

/** Code that a message asks to run. */
export type CodeBlock = { readonly language: string; readonly code: string };

/** What became of a block; plain data, so that it can be recorded as an effect. */
export type CodeResult = {
  /** Null if nothing ran, or a signal ended it. */
  readonly exitCode: number | null;
  readonly signal?: string;
  /** What it printed, errors included, in the order it was printed. Bytes that are no UTF-8 are U+FFFD. */
  readonly output: string;
  /** The middle of the output was left out; a line in `output` says how much. */
  readonly isTruncated: boolean;
  readonly isTimedOut: boolean;
  readonly durationMs: number;
  /** Set unless the code ran to its end and exited with 0. */
  readonly failure?: { readonly message: string; readonly trace?: string };
  readonly language: string;
  /** The file that was run, relative to the working directory. */
  readonly file?: string;
};

/** How one block is run. */
export type CodeRunOptions = {
  readonly signal?: AbortSignal;
  /** Handed to the code as `SAVESTATE_IDEMPOTENCY_KEY`: the same when a block that was in flight at a crash runs again. */
  readonly idempotencyKey?: string;
};

/** Runs code blocks. Whatever goes wrong is a result with a `failure`; only an abort rejects. */
export interface CodeExecutor {
  run(block: CodeBlock, options?: CodeRunOptions): Promise<CodeResult>;
}

/** Whether and how an agent runs code; plain data, stored in its checkpoints in either shape. */
export type CodeExecutionConfig =
  | false
  | {
      readonly workDir: string;
      /** Default 60,000. */
      readonly timeoutMs?: number | undefined;
      /** Default 100,000; of a longer output the first and the last half of this are kept. */
      readonly maxOutputBytes?: number | undefined;
      /** Which languages processes of this machine run; default all that are known. A `createExecutor` of yours decides itself. */
      readonly languages?: readonly string[] | undefined;
      /** Names of environment variables that the code may see. */
      readonly env?: readonly string[] | undefined;
      /** What of the working directory checkpoints hold; `false` for nothing. */
      readonly capture?: WorkspaceOptions | false | undefined;
    };

const CONFIG: OptionChecks<Exclude<CodeExecutionConfig, false>> = {
  workDir: {
    required: accepts(
      'a path without NUL',
      (value) => typeof value === 'string' && value !== '' && !value.includes('\0'),
    ),
  },
  timeoutMs: wholeFrom(1, MAX_DELAY_MS),
  maxOutputBytes: wholeFrom(0),
  languages: listOf(
    accepts(
      `one of ${KNOWN_LANGUAGES.join(', ')}`,
      (value) => typeof value === 'string' && interpreterOf(value) !== undefined,
    ),
  ),
  env: listOf(accepts('the name of a variable', (name) => typeof name === 'string' && /^[A-Za-z_]\w*$/.test(name))),
  capture: (value) => (value === false ? undefined : options(WORKSPACE)(value)),
};

const neither = accepts('false or { workDir, ... }', () => false);

/** Reads a stored or hand-written configuration of code execution; throws an InvalidInputError that names the field. */
export function parseCodeExecutionConfig(value: unknown): CodeExecutionConfig {
  if (value === false) return false;
  checkValue(value, isRecord(value) ? options(CONFIG) : neither, 'codeExecution');
  return { ...(value as Exclude<CodeExecutionConfig, false>) };
}
