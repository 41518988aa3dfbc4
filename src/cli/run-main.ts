import { SavestateError } from '../core/errors.ts';
import { formatSafeJson } from '../core/safe-json.ts';
import type { Command } from './base/command.ts';
import { type CommandInput, findName, type GlobalOptions } from './base/command-input.ts';
import { describeError, EXIT, type ExitCode, exitCodeOf, isInterrupt } from './base/exit-code.ts';
import { describeSlips } from './place/variables.ts';
import { PROGRAM } from './program.ts';
import { toPrintable } from './terminal/style.ts';

/** Without a command, a person at a terminal gets the REPL, unless they ask for this. */
const EXPLAINED: ReadonlySet<string> = new Set(['-h', '--help', '-V', '--version']);

/** Runs the command line of a process; returns its exit code. */
export async function runMain(host: NodeJS.Process, version = ''): Promise<number> {
  const args = host.argv.slice(2);
  const signal = stopOnInterrupt(host);
  endQuietlyOnBrokenPipe(host);
  try {
    const isBare = findName(args) === undefined && !args.some((arg) => EXPLAINED.has(arg));
    return await PROGRAM.run(isBare && host.stdin.isTTY && host.stdout.isTTY ? [...args, 'repl'] : args, {
      version,
      ...(host.stdout.isTTY && { columns: host.stdout.columns }),
      print: (text) => void host.stdout.write(toPrintable(text)),
      note: (text) => note(host, text),
      run: (command, input, globals) => runCommand({ command, input }, globals, { host, signal }),
    });
  } catch (error) {
    return await explain(error, host, args.includes('--json'));
  }
}

async function runCommand(
  { command, input }: { readonly command: Command; readonly input: CommandInput },
  globals: GlobalOptions,
  { host, signal }: { readonly host: NodeJS.Process; readonly signal: AbortSignal },
): Promise<ExitCode | undefined> {
  // Not before: the help needs neither.
  const [{ Context }, { createTerminal }] = await Promise.all([
    import('./base/context.ts'),
    import('./terminal/terminal.ts'),
  ]);
  const terminal = createTerminal(host, { color: globals.color });
  const context = new Context({ program: PROGRAM, terminal, globals, env: host.env, folder: host.cwd(), signal });
  if (command.isPassedOn !== true) for (const slip of describeSlips(host.env)) context.say(slip);
  let isDone = false;
  try {
    const exitCode = await command.run(context, input);
    isDone = true;
    return exitCode;
  } finally {
    await context.close().catch((error: unknown) => {
      if (!isDone) return; // why it failed says more
      if (!(error instanceof SavestateError) || error.details.isSaved !== true) throw error;
      context.say(error.message);
    });
  }
}

/** The first Ctrl-C lets a command end in order; the second ends it at once. */
function stopOnInterrupt(host: NodeJS.Process): AbortSignal {
  const stop = new AbortController();
  const onSignal = () => {
    if (stop.signal.aborted) host.exit(EXIT.interrupted);
    stop.abort();
  };
  host.on('SIGINT', onSignal);
  host.on('SIGTERM', onSignal);
  return stop.signal;
}

/** `savestate log | head` is no error; a full disk is. */
function endQuietlyOnBrokenPipe(host: NodeJS.Process): void {
  host.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') host.exit(EXIT.ok);
    note(host, `error: The answer could not be written: ${describeError(error)}\n`);
    host.exit(EXIT.failed);
  });
  // What is said there is beside the point: the command goes on, and its exit code says how it ended.
  host.stderr.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

async function explain(error: unknown, host: NodeJS.Process, isJson: boolean): Promise<ExitCode> {
  const exitCode = exitCodeOf(error);
  const message = isInterrupt(error) ? 'Stopped.' : describeError(error);
  if (isJson) {
    const { code, details } = error instanceof SavestateError ? error : { code: undefined, details: undefined };
    note(host, `${formatSafeJson({ error: { code, message, details, exitCode } })}\n`);
  } else {
    const text = `${isInterrupt(error) ? '' : 'error: '}${message}\n`;
    const { isTTY, columns } = host.stderr;
    note(host, isTTY && columns > 0 ? (await import('./terminal/format.ts')).wrapWords(text, columns) : text);
  }
  return exitCode;
}

/** Errors quote what is stored, and what was typed. */
function note({ stderr }: NodeJS.Process, text: string): void {
  stderr.write(toPrintable(text));
}
