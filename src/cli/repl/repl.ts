import { hasErrorCode, InvalidInputError, NotFoundError, SavestateError } from '../../core/errors.ts';
import type { CheckpointId } from '../../core/id.ts';
import { parseCount } from '../command-input.ts';
import { findCommand } from '../command-table.ts';
import { splitPath } from '../commands/show.ts';
import type { Context } from '../context.ts';
import { EXIT, type ExitCode, exitCodeOf, isInterrupt } from '../exit-code.ts';
import type { GlobalOptions } from '../global-options.ts';
import { runProgram } from '../program.ts';
import { readLive, resolveRevision } from '../revision/resolve-revision.ts';
import { readNames, toOutput } from '../state/checkpoint-text.ts';
import type { Workspace } from '../workspace.ts';
import { formatHelp } from './repl-help.ts';
import { REPL_WORDS, readLine, type WordKind } from './repl-line.ts';
import { formatRounds, type Round } from './repl-rounds.ts';
import type { ReplTeam, SendOptions } from './repl-team.ts';

/** What a line led to: go on, or end. */
export type ReplStep = { readonly isOver: boolean; readonly code: ExitCode };

const GO_ON: ReplStep = { isOver: false, code: EXIT.ok };
const DEFAULT_ROUNDS = 20;

/** Reads lines, one after the other: commands move around in the history, everything else is said to the team. */
export class Repl {
  readonly #context: Context;
  readonly #workspace: Workspace;
  readonly #team: ReplTeam | undefined;
  #run: AbortController | undefined;

  constructor(context: Context, workspace: Workspace, team?: ReplTeam) {
    this.#context = context;
    this.#workspace = workspace;
    this.#team = team;
  }

  /** Whether something is under way that Ctrl-C can stop. */
  get isRunning(): boolean {
    return this.#run !== undefined;
  }

  /** Stops what is under way, and not the REPL. */
  stop(): void {
    this.#run?.abort();
  }

  /** Where the person is: session, branch, number, and whether the next prompt goes on from there. */
  async prompt(): Promise<string> {
    const sessionId = await this.#workspace.findSession();
    if (sessionId === undefined) return 'savestate> ';
    const { position } = this.#workspace;
    const branch = await this.#workspace.currentBranch(sessionId);
    const checkpoint = await resolveRevision(this.#workspace, '@').catch(() => undefined);
    const place = checkpoint === undefined ? '' : ` #${checkpoint.sequence}`;
    return `${sessionId}/${position === undefined ? branch : (checkpoint?.branch ?? branch)}${place}${position === undefined ? '' : ' (resumed)'}> `;
  }

  /** Takes one line. Errors are told, and end nothing. */
  async take(line: string): Promise<ReplStep> {
    const run = new AbortController();
    this.#run = run;
    try {
      return await this.#take(line, AbortSignal.any([run.signal, this.#context.signal]));
    } catch (error) {
      this.#context.terminal.note(isInterrupt(error) ? '\nStopped.\n' : `error: ${messageOf(error)}\n`);
      return { isOver: false, code: exitCodeOf(error) };
    } finally {
      this.#run = undefined;
    }
  }

  async #take(line: string, signal: AbortSignal): Promise<ReplStep> {
    const read = await readLine(line, (kind, word) => this.#isKnown(kind, word));
    if (read.kind === 'empty') return GO_ON;
    if (read.kind === 'prompt') return this.#send(read.text, signal, read.hint);
    return this.#do(read.words, signal);
  }

  async #do(line: readonly string[], signal: AbortSignal): Promise<ReplStep> {
    const [name = '', ...words] = line;
    if (name === 'quit' || name === 'exit') return { isOver: true, code: EXIT.ok };
    const own = Object.hasOwn(this.#own, name) ? this.#own[name] : undefined;
    if (own === undefined) return this.#runCommand(line, signal);
    if (words.length > (REPL_WORDS[name]?.takes.length ?? 0))
      throw new InvalidInputError(`${name} takes fewer words. See: help`);
    await own(words[0], signal);
    return GO_ON;
  }

  readonly #own: Readonly<Record<string, (word: string | undefined, signal: AbortSignal) => Promise<void>>> = {
    checkpoints: (word) => this.#showRounds(word),
    'list-checkpoints': (word) => this.#showRounds(word),
    resume: (word) => this.#resume(word),
    back: (word) => this.#back(word === undefined ? 1 : parseCount(word, 'back')),
    new: (word) => this.#begin(word),
    run: (word, signal) => this.#goOn(word, signal),
    continue: (_, signal) => this.#goOn(undefined, signal),
    branch: (word) => (word === undefined ? this.#runPlain(['branch']) : this.#runPlain(['switch', word])),
    use: (word) => this.#use(word),
    where: async () => this.#context.terminal.print(`${await this.#describePlace()}\n`),
    help: (word) => (word === undefined ? this.#help() : this.#runPlain([word, '--help'])),
  };

  async #help(): Promise<void> {
    this.#context.terminal.print(formatHelp(this.#team !== undefined));
  }

  async #isKnown(kind: WordKind, word: string): Promise<boolean> {
    const sessionId = await this.#workspace.findSession();
    if (kind === 'command') return findCommand(word) !== undefined;
    if (kind === 'session') return (await this.#workspace.storage.readRefs({ sessionId: word })).length > 0;
    if (sessionId === undefined) return false;
    if (kind === 'branch') return (await this.#workspace.findName(sessionId, 'branch', word)) !== undefined;
    return this.#isRevision(splitPath(word)[0]);
  }

  async #isRevision(word: string): Promise<boolean> {
    try {
      await resolveRevision(this.#workspace, word);
      return true;
    } catch (error) {
      if (hasErrorCode(error, 'NOT_FOUND') || hasErrorCode(error, 'INVALID_INPUT')) return false;
      throw error;
    }
  }

  async #showRounds(word: string | undefined): Promise<void> {
    const limit = word === undefined ? DEFAULT_ROUNDS : parseCount(word, 'The count');
    const sessionId = await this.#workspace.findSession();
    if (sessionId === undefined) return this.#context.say('There are no checkpoints yet.');
    const head = await resolveRevision(this.#workspace, '@');
    const names = await readNames(this.#workspace, sessionId);
    const rounds: Round[] = [];
    for await (const checkpoint of readLive(this.#workspace, head)) {
      if (rounds.length >= limit) break;
      rounds.push({ checkpoint: toOutput(checkpoint, names), said: checkpoint.contextSummary });
    }
    const output = rounds.map(({ checkpoint }) => checkpoint);
    await this.#context.answer(output, () => formatRounds(rounds.reverse(), this.#context.terminal));
  }

  async #resume(word: string | undefined): Promise<void> {
    if (word === undefined) throw new InvalidInputError('Say which checkpoint to resume: resume <checkpoint>');
    const { id, sequence, sessionId } = await resolveRevision(this.#workspace, word);
    this.#workspace.select(sessionId);
    this.#select(id, `Round ${sequence}, ${id}, is resumed: your next prompt goes on from there.`);
  }

  async #back(steps: number): Promise<void> {
    const { id, sequence } = await resolveRevision(this.#workspace, `@~${steps}`);
    this.#select(id, `Back at round ${sequence}, ${id}: your next prompt goes on from there. Nothing was deleted.`);
  }

  #select(id: CheckpointId, text: string): void {
    this.#workspace.position = id;
    this.#context.say(text);
  }

  async #use(word: string | undefined): Promise<void> {
    if (word === undefined || !(await this.#isKnown('session', word)))
      throw new NotFoundError(`There is no session "${word ?? ''}" in this storage. See: sessions`);
    const { parseSessionId } = await import('../../core/id.ts');
    this.#workspace.select(parseSessionId(word));
  }

  async #describePlace(): Promise<string> {
    const sessionId = await this.#workspace.session();
    const { id, branch, sequence } = await resolveRevision(this.#workspace, '@');
    return `session ${sessionId}, branch ${branch}, round ${sequence}, ${id}`;
  }

  async #runPlain(words: readonly string[]): Promise<void> {
    await this.#runCommand(words, this.#context.signal);
  }

  /** The same code as on the command line, on the storage that is open. */
  async #runCommand(words: readonly string[], signal: AbortSignal): Promise<ReplStep> {
    const before = await this.#workspace.findSession();
    const { terminal } = this.#context;
    const code = await runProgram(words, {
      version: '',
      print: terminal.print,
      note: terminal.note,
      run: (command, input, line) => {
        checkPossible(words, line);
        const { globals } = this.#context;
        // The keys are read here, so nothing else may ask or page.
        const merged = { ...globals, json: globals.json || line.json, yes: line.yes, pager: false, input: false };
        return command.run(this.#context.with({ globals: merged, signal }), input);
      },
    });
    // Where the branch is another one now, or was moved, the old place means nothing any more.
    if (['switch', 'rewind', 'undo'].includes(words[0] ?? '') || (await this.#workspace.findSession()) !== before)
      this.#workspace.position = undefined;
    return { isOver: false, code };
  }

  async #send(text: string, signal: AbortSignal, hint?: string): Promise<ReplStep> {
    const team = this.#openTeam(hint);
    await this.#hear(team, team.send(text, await this.#place(signal)));
    return GO_ON;
  }

  async #goOn(word: string | undefined, signal: AbortSignal): Promise<void> {
    const team = this.#openTeam();
    const rounds = word === undefined ? undefined : parseCount(word, 'run');
    if (team.goOn === undefined) throw new InvalidInputError('This team only answers prompts. Say something.');
    await this.#hear(team, team.goOn(rounds, await this.#place(signal)));
  }

  #openTeam(hint?: string): ReplTeam {
    if (this.#team !== undefined) return this.#team;
    const more = hint === undefined ? '' : ` ${hint}`;
    throw new InvalidInputError(`No team is configured here, so nobody can answer. help lists the commands.${more}`);
  }

  async #place(signal: AbortSignal): Promise<SendOptions> {
    const { position } = this.#workspace;
    const sessionId = await this.#workspace.findSession();
    return { sessionId, signal, ...(position !== undefined && { from: position }) };
  }

  async #hear(team: ReplTeam, parts: AsyncIterable<string>): Promise<void> {
    for await (const part of parts) this.#context.terminal.print(part);
    if (team.sessionId !== undefined) this.#workspace.select(team.sessionId);
    this.#workspace.position = undefined; // it went on from there
  }

  /** The session is made by the first prompt. */
  async #begin(word: string | undefined): Promise<void> {
    const { parseSessionId } = await import('../../core/id.ts');
    const { newSessionName } = await import('../team/session-name.ts');
    this.#workspace.select(parseSessionId(word ?? newSessionName('chat')));
    this.#context.say('Your next prompt begins it.');
  }
}

/** Some things belong to the command line: it has the terminal for itself, and chooses where it works. */
function checkPossible(words: readonly string[], { storage, session }: GlobalOptions): void {
  if (storage !== undefined || session !== undefined)
    throw new InvalidInputError(
      'The storage and the session are chosen before: start the REPL with --storage, or say use <session>.',
    );
  if (words[0] === 'repl' || words.includes('--edit'))
    throw new InvalidInputError(`${words[0]} would need the terminal for itself. Use it on the command line.`);
}

function messageOf(error: unknown): string {
  if (error instanceof SavestateError) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
