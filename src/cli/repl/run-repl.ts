import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import type { Context } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';
import { listRevisions } from '../revision/list-revisions.ts';
import { toPrintable } from '../terminal/printable.ts';
import type { Workspace } from '../workspace.ts';
import { Repl } from './repl.ts';
import { REPL_WORDS } from './repl-line.ts';
import type { ReplTeam } from './repl-team.ts';

const MAX_HISTORY = 1_000;

/** Where lines come from: a text given with the command, a person, or a pipe. */
export type ReplInput = { readonly script?: string | undefined; readonly team?: ReplTeam | undefined };

/** Runs the REPL until it ends; a script ends at its first error. */
export async function runRepl(context: Context, { script, team }: ReplInput = {}): Promise<ExitCode> {
  const workspace = await context.workspace();
  const repl = new Repl(context, workspace, team);
  if (script !== undefined) return runLines(repl, script.split(/[;\n]/));
  const isPerson = process.stdin.isTTY === true && process.stdout.isTTY === true;
  if (isPerson) return talk(context, workspace, repl);
  const code = await runLines(repl, createInterface({ input: process.stdin, signal: context.signal }));
  return context.signal.aborted ? EXIT.interrupted : code;
}

async function runLines(repl: Repl, lines: Iterable<string> | AsyncIterable<string>): Promise<ExitCode> {
  for await (const line of lines) {
    const { isOver, code } = await repl.take(line);
    if (isOver || code !== EXIT.ok) return code;
  }
  return EXIT.ok;
}

async function talk(context: Context, workspace: Workspace, repl: Repl): Promise<ExitCode> {
  const history = new History(join(await context.stateFolder(), 'history'));
  const lines = createInterface({
    input: process.stdin,
    output: process.stdout,
    history: history.read(),
    historySize: MAX_HISTORY,
    removeHistoryDuplicates: true,
    completer: (line: string, done: (error: null, result: [string[], string]) => void) =>
      void complete(workspace, line).then(
        (found) => done(null, found),
        () => done(null, [[], line]), // what cannot be completed is not worth an error
      ),
  });
  stopOnInterrupt(lines, repl, context);
  context.say('Type help for the commands, quit or Ctrl-D to end.');
  lines.setPrompt(toPrintable(await repl.prompt()));
  lines.prompt();
  for await (const line of lines) {
    history.add(line);
    if ((await repl.take(line)).isOver) break;
    lines.setPrompt(toPrintable(await repl.prompt()));
    lines.prompt();
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
async function complete(workspace: Workspace, line: string): Promise<[string[], string]> {
  const last = line.slice(line.lastIndexOf(' ') + 1);
  const isFirst = last === line;
  const known = isFirst ? Object.keys(REPL_WORDS) : await listRevisions(workspace);
  const all = known.filter((each) => each === toPrintable(each)); // others would be typed into the terminal
  const found = all.filter((each) => each.startsWith(last) || each.startsWith(`chk_${last}`));
  return [last === '' && !isFirst ? all : found, last];
}

/** What was typed before, also in other sessions. */
class History {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  read(): string[] {
    const text = existsSync(this.#path) ? readFileSync(this.#path, 'utf8') : '';
    return text
      .split('\n')
      .filter((line) => line !== '')
      .slice(-MAX_HISTORY)
      .reverse();
  }

  add(line: string): void {
    if (line.trim() === '') return;
    mkdirSync(dirname(this.#path), { recursive: true });
    appendFileSync(this.#path, `${line}\n`, { mode: 0o600 });
  }
}
