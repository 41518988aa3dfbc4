import { realpath } from 'node:fs/promises';
import { dirname } from 'node:path';
import { InvalidInputError, messageOf } from '../../core/errors.ts';
import { checkOptions, filledString, type OptionChecks, record, signal } from '../../core/options.ts';
import { digestText } from '../../core/tree/chunk.ts';
import { makeFolder } from '../../storage/make-folder.ts';
import { OpenFolder } from '../workspace/open-folder.ts';
import {
  type CodeBlock,
  type CodeExecutionConfig,
  type CodeExecutor,
  type CodeResult,
  type CodeRunOptions,
  parseCodeExecutionConfig,
} from './code-executor.ts';
import { completeCode } from './code-limits.ts';
import { CodeProcess, type ProcessOutcome } from './code-process.ts';
import { describeFailure, describeOutcome } from './describe-outcome.ts';
import { findProgram, type Interpreter, interpreterOf } from './interpreter.ts';
import { killOrphans, newMark } from './marked-processes.ts';

/** What an executor needs besides its stored configuration. */
export type LocalExecutorOptions = {
  /** Where `PATH` and the variables that the configuration names are looked up; a command line passes its own environment. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
};

const OPTIONS: OptionChecks<LocalExecutorOptions> = { environment: record };
const RUN: OptionChecks<CodeRunOptions> = { signal, idempotencyKey: filledString };

type Config = Exclude<CodeExecutionConfig, false>;
type WholeConfig = ReturnType<typeof completeCode>;

type Prepared = {
  readonly program: string;
  readonly file: string;
  readonly interpreter: Interpreter;
  readonly cwd: string;
};

/** Where programs are when no environment was given. */
const SYSTEM_PATH = `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`;

const CLOSED = 'The executor was closed before the code could run.';

const NAME_CHARS = 16;

/**
 * Runs code blocks as processes of this machine, in a working directory, with bounds on time and output, and none of this process's
 * environment but what is named. It is no sandbox: the code may do whatever the user may who runs it.
 */
export class LocalCodeExecutor implements CodeExecutor {
  readonly #config: WholeConfig;
  readonly #options: LocalExecutorOptions;
  readonly #running = new Set<CodeProcess>();
  #orphansGone: Promise<void> | undefined;
  #isClosed = false;

  constructor(config: Config, options: LocalExecutorOptions = {}) {
    checkOptions(options, OPTIONS, 'new LocalCodeExecutor()');
    const parsed = parseCodeExecutionConfig(config);
    if (parsed === false) throw new InvalidInputError('Code execution is off (false), so there is nothing to run it.');
    this.#config = completeCode(parsed);
    this.#options = options;
  }

  async run(block: CodeBlock, options: CodeRunOptions = {}): Promise<CodeResult> {
    checkOptions(options, RUN, 'run()');
    options.signal?.throwIfAborted();
    const startMs = performance.now();
    const measured = () => ({ language: block.language, durationMs: Math.round(performance.now() - startMs) });
    let prepared: Prepared | string;
    try {
      prepared = await this.#prepare(block);
    } catch (error) {
      prepared = `The code could not be written to "${this.#config.workDir}": ${messageOf(error)}`;
    }
    options.signal?.throwIfAborted();
    if (this.#isClosed) prepared = CLOSED;
    if (typeof prepared === 'string') return describeFailure(prepared, measured());
    const outcome = await this.#execute(prepared, options);
    if (outcome.stopped === 'abort') options.signal?.throwIfAborted();
    return describeOutcome(outcome, { ...measured(), file: prepared.file, timeoutMs: this.#config.timeoutMs });
  }

  /** Kills what is running and runs nothing more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const running of this.#running) running.stop('closed');
    await Promise.all([...this.#running].map((running) => running.finished));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Returns a text if the block cannot be run. */
  async #prepare({ language, code }: CodeBlock): Promise<Prepared | string> {
    const interpreter = interpreterOf(language);
    const refusal = this.#refuse(language, interpreter);
    if (interpreter === undefined || refusal !== undefined) return refusal ?? '';
    const program = await findProgram(interpreter.programs, this.#searchPath);
    if (program === undefined)
      return `There is no ${interpreter.programs.join(' or ')} on the path ${this.#searchPath}. Install it, or do not ask for ${language}.`;
    makeFolder(this.#config.workDir);
    this.#orphansGone ??= killOrphans(digestText(await realpath(this.#config.workDir)));
    await this.#orphansGone;
    return { program, interpreter, ...(await this.#writeBlock(interpreter, code)) };
  }

  #refuse(language: string, interpreter: Interpreter | undefined): string | undefined {
    if (process.platform === 'win32') return 'Code is run only on systems with process groups, which Windows is not.';
    const { languages } = this.#config;
    if (interpreter !== undefined && languages.some((name) => interpreterOf(name) === interpreter)) return undefined;
    return `"${language}" is not one of the languages that are run here: ${languages.join(', ')}.`;
  }

  /** The name comes from the code, so the same block is the same file. A link of that name is replaced, not written through. */
  async #writeBlock(interpreter: Interpreter, code: string): Promise<{ file: string; cwd: string }> {
    const text = code.endsWith('\n') ? code : `${code}\n`;
    const file = `code-${digestText(text).slice(0, NAME_CHARS)}${interpreter.extension(text)}`;
    const folder = await OpenFolder.open(this.#config.workDir);
    try {
      await folder.writeFile(file, text, 0o644);
    } finally {
      await folder.close();
    }
    return { file, cwd: await realpath(this.#config.workDir) };
  }

  async #execute({ program, file, interpreter, cwd }: Prepared, options: CodeRunOptions): Promise<ProcessOutcome> {
    const running = new CodeProcess({
      program,
      args: [file],
      cwd,
      env: this.#environment(cwd, interpreter, options.idempotencyKey),
      mark: newMark(digestText(cwd)),
      timeoutMs: this.#config.timeoutMs,
      maxOutputBytes: this.#config.maxOutputBytes,
    });
    const abort = () => running.stop('abort');
    options.signal?.addEventListener('abort', abort, { once: true });
    this.#running.add(running);
    try {
      return await running.finished;
    } finally {
      this.#running.delete(running);
      options.signal?.removeEventListener('abort', abort);
    }
  }

  get #searchPath(): string {
    return this.#options.environment?.PATH ?? SYSTEM_PATH;
  }

  #environment(cwd: string, interpreter: Interpreter, idempotencyKey: string | undefined): Record<string, string> {
    const given = this.#options.environment ?? {};
    const named = this.#config.env.flatMap((name) => {
      const value = Object.hasOwn(given, name) ? given[name] : undefined;
      return value === undefined ? [] : [[name, value] as const];
    });
    return {
      LANG: 'C.UTF-8',
      ...Object.fromEntries(named),
      ...interpreter.env,
      PATH: this.#searchPath,
      HOME: cwd,
      ...(idempotencyKey === undefined ? {} : { SAVESTATE_IDEMPOTENCY_KEY: idempotencyKey }),
    };
  }
}
