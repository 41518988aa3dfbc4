import { createInterface, type Interface } from 'node:readline';
import { type Context, EXIT, type ExitCode } from '../base/command.ts';
import { openHistory } from '../place/own-files.ts';
import { listRevisions } from '../revision/resolve-revision.ts';
import { toPrintable } from '../terminal/style.ts';
import { Repl } from './repl.ts';
import type { FoundTeam } from './repl-team.ts';
import { ReplWords } from './repl-words.ts';

const MAX_HISTORY = 1_000;

/** Runs the REPL until it ends, with lines of a script, a person or a pipe; all but a person's end at the first error. */
export async function runRepl(context: Context, script: string | undefined, found: FoundTeam): Promise<ExitCode> {
  const repl = new Repl(context, found);
  if (script !== undefined) return runLines(repl, script.split(/[;\n]/));
  const isPerson = process.stdin.isTTY === true && process.stdout.isTTY === true;
  if (isPerson) return talk(context, repl);
  let count = 0;
  const code = await runLines(repl, createInterface({ input: process.stdin, signal: context.signal }), () => count++);
  if (count === 0 && !context.signal.aborted)
    context.say(
      "There was nothing to read. Type at a terminal, pipe lines into it, or give them: --eval 'where; show'",
    );
  return context.signal.aborted ? EXIT.interrupted : code;
}

async function runLines(
  repl: Repl,
  lines: Iterable<string> | AsyncIterable<string>,
  onLine: () => void = () => undefined,
): Promise<ExitCode> {
  for await (const line of lines) {
    onLine();
    const { isOver, code } = await repl.take(line);
    if (isOver || code !== EXIT.ok) return code;
  }
  return EXIT.ok;
}

async function talk(context: Context, repl: Repl): Promise<ExitCode> {
  const history = await openHistory(context);
  const lines = createInterface({
    input: process.stdin,
    output: process.stdout,
    history: history.read().slice(-MAX_HISTORY).reverse(),
    historySize: MAX_HISTORY,
    removeHistoryDuplicates: true,
    completer: (line: string, done: (error: null, result: [string[], string]) => void) =>
      void complete(context, line).then(
        (found) => done(null, found),
        () => done(null, [[], line]), // what cannot be completed is not worth an error
      ),
  });
  const incoming = lines[Symbol.asyncIterator](); // from now on no line is lost
  /** Of each line that is still to be taken, whether it was typed while the team was talking. */
  const ahead: boolean[] = [];
  lines.on('line', () => ahead.push(repl.isTalking));
  stopOnInterrupt(lines, repl, context);
  context.say(`${await repl.start()}Type help for the commands, quit or Ctrl-D to end.`);
  const ask = async () => {
    lines.setPrompt(toPrintable(await repl.prompt()));
    lines.prompt();
  };
  await ask();
  for await (const line of incoming) {
    if (line.trim() !== '') history.add(line);
    if ((await repl.take(line, { isAhead: ahead.shift() ?? false })).isOver) break;
    await ask();
  }
  lines.close();
  return EXIT.ok;
}

/** Ctrl-C stops what is under way; with nothing under way it clears the line. */
function stopOnInterrupt(lines: Interface, repl: Repl, context: Context): void {
  lines.on('SIGINT', () => {
    if (repl.isRunning) return repl.stop();
    context.terminal.note('\nNothing is under way. To end it: quit, or Ctrl-D.\n');
    lines.write(null, { ctrl: true, name: 'u' });
    lines.prompt();
  });
}

/** The names of commands, then of checkpoints. */
async function complete(context: Context, line: string): Promise<[string[], string]> {
  const last = line.slice(line.lastIndexOf(' ') + 1);
  const isFirst = last === line;
  const known = isFirst ? new ReplWords(context.program.commands).names : await listRevisions(await context.open());
  const all = known.filter((each) => each === toPrintable(each)); // others would be typed into the terminal
  const found = all.filter((each) => each.startsWith(last) || each.startsWith(`chk_${last}`));
  return [last === '' && !isFirst ? all : found, last];
}
