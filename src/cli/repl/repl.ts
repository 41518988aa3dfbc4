import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { type GlobalOptions, parseCount } from '../base/command-input.ts';
import type { Context } from '../base/context.ts';
import { describeError, EXIT, type ExitCode, exitCodeOf, isInterrupt } from '../base/exit-code.ts';
import { isOption, notSaid, type ReplLine, readLine } from './repl-line.ts';
import { ReplMoves, readPositive } from './repl-moves.ts';
import { branchHere, describeStart, findHere } from './repl-place.ts';
import type { FoundTeam, ReplTeam } from './repl-team.ts';
import { formatHelp, type Grammar, ReplWords } from './repl-words.ts';

/** What a line led to: go on, or end. */
export type ReplStep = { readonly isOver: boolean; readonly code: ExitCode };

type OwnCommand = (word: string | undefined, signal: AbortSignal) => Promise<void>;
type CommandLine = Extract<ReplLine, { kind: 'command' }>;

const GO_ON: ReplStep = { isOver: false, code: EXIT.ok };
/** After these the place where one was means nothing any more: the branch is another one, or was moved. */
const MOVES: ReadonlySet<string> = new Set(['switch', 'rewind', 'undo', 'resume', 'run', 'continue']);

const ENDS: ReadonlySet<string> = new Set(['quit', 'exit']);
/** These mean more on the command line than here. */
const ON_BOTH: ReadonlySet<string> = new Set(['run', 'resume', 'continue']);

/** Reads lines, one after the other: commands move around in the history, everything else is said to the team. */
export class Repl {
  readonly #context: Context;
  readonly #team: ReplTeam | undefined;
  readonly #teamError: unknown;
  readonly #words: ReplWords;
  readonly #moves: ReplMoves;
  #run: AbortController | undefined;
  #isTalking = false;

  constructor(context: Context, { team, teamError }: FoundTeam) {
    this.#context = context;
    this.#words = new ReplWords(context.program.commands);
    this.#moves = new ReplMoves(context, this.#words);
    this.#team = team;
    this.#teamError = teamError;
  }

  /** Whether something is under way that Ctrl-C can stop. */
  get isRunning(): boolean {
    return this.#run !== undefined;
  }

  /** Whether the team is at work: what is typed now is typed before its answer was read. */
  get isTalking(): boolean {
    return this.#isTalking;
  }

  /** Stops what is under way, and not the REPL. */
  stop(): void {
    this.#run?.abort();
  }

  /** Where the person is at the beginning. */
  async start(): Promise<string> {
    const without = this.#teamError === undefined ? 'none is configured' : `none: ${describeError(this.#teamError)}`;
    return describeStart(this.#context, this.#team?.name ?? without);
  }

  /** Where the person is: session, branch, number, and whether the next prompt goes on from there. */
  async prompt(): Promise<string> {
    const opened = await this.#moves.findStorage();
    const sessionId = await opened?.findSession();
    if (opened === undefined || sessionId === undefined) return 'savestate> ';
    const here = await findHere(opened);
    const isResumed = opened.position !== undefined;
    const branch = here === undefined ? await opened.manager.currentBranch(sessionId) : await branchHere(opened, here);
    return `${sessionId}/${branch}${here === undefined ? '' : ` #${here.sequence}`}${isResumed ? ' (resumed)' : ''}> `;
  }

  /** Takes one line; `isAhead` if it was typed while the team was talking. Errors are told, and end nothing. */
  async take(line: string, { isAhead = false } = {}): Promise<ReplStep> {
    const run = new AbortController();
    this.#run = run;
    let isGuess = false;
    const step = await this.#read(line)
      .then((read) => {
        if (isAhead && !this.#mayRunAhead(read)) return this.#hold(line);
        isGuess = read.kind === 'command' && read.isGuess === true;
        return this.#act(read, AbortSignal.any([run.signal, this.#context.signal]));
      })
      .catch((error: unknown) => {
        this.#context.terminal.note(isInterrupt(error) ? '\nStopped.\n' : `error: ${describeError(error)}\n`);
        return { isOver: false, code: exitCodeOf(error) };
      });
    this.#run = undefined;
    // Something that begins like a command; if it is none, it was not said either.
    if (isGuess && step.code !== EXIT.ok) this.#context.say(notSaid(line.trim()));
    return step;
  }

  #read(line: string): Promise<ReplLine> {
    return readLine(line, this.#words, (kind, word) => this.#moves.isKnown(kind, word));
  }

  /** What changes something, or is said to the team, is for somebody who has read what was said before. */
  #mayRunAhead(read: ReplLine): boolean {
    if (read.kind === 'command') return this.#words.grammarOf(read.words[0] ?? '')?.isLook === true;
    return read.kind !== 'prompt';
  }

  #hold(line: string): ReplStep {
    this.#context.terminal.note(
      `Not done, because it was typed while the team was talking: ${line.trim()}\nArrow up and Enter do it now.\n`,
    );
    return GO_ON;
  }

  async #act(read: ReplLine, signal: AbortSignal): Promise<ReplStep> {
    switch (read.kind) {
      case 'empty':
        return GO_ON;
      case 'unclear':
        throw new InvalidInputError(read.explanation);
      case 'prompt':
        await this.#hear({ prompt: read.text }, signal, read.hint);
        return GO_ON;
      case 'command':
        return this.#do(read, signal);
    }
  }

  async #do({ words: line, isProgram = false }: CommandLine, signal: AbortSignal): Promise<ReplStep> {
    const [name = '', ...words] = line;
    if (ENDS.has(name) && words.length === 0) return { isOver: true, code: EXIT.ok };
    const isForProgram = isProgram && words.length > 0 && ON_BOTH.has(name);
    const own = isForProgram ? undefined : this.#findOwn(name, words);
    if (own === undefined) return this.#runCommand([name, ...(await this.#moves.openNumbers(name, words))], signal);
    await own(words[0], signal);
    return GO_ON;
  }

  /** A command of the REPL itself; undefined if that is for the command line, which knows more of some. */
  #findOwn(name: string, words: readonly string[]): OwnCommand | undefined {
    const own = Object.hasOwn(this.#own, name) ? this.#own[name] : undefined;
    if (isPlainFor(this.#words.grammarOf(name), words)) return own;
    if (this.#isCommand(name) || (own === undefined && !ENDS.has(name))) return undefined;
    throw new InvalidInputError(`That is not what "${name}" takes. See: help`);
  }

  #isCommand(word: string): boolean {
    return this.#context.program.commands.some(({ name }) => name === word);
  }

  readonly #own: Readonly<Record<string, OwnCommand>> = {
    checkpoints: (word) => this.#moves.showRounds(word),
    'list-checkpoints': (word) => this.#moves.showRounds(word),
    resume: (word) => this.#moves.resume(word),
    back: (word) => this.#moves.back(word === undefined ? 1 : parseCount(word, 'back')),
    new: (word) => this.#moves.begin(word),
    run: (word, signal) => this.#hear({ rounds: readPositive(word, 'The number of rounds') }, signal),
    continue: (_, signal) => this.#hear({}, signal),
    branch: (word) => this.#runPlain(word === undefined ? ['branch'] : ['switch', word]),
    use: (word) => this.#moves.use(word),
    where: () => this.#moves.where(),
    help: (word) => (word === undefined ? this.#help() : this.#explain(word)),
  };

  async #help(): Promise<void> {
    this.#context.terminal.print(formatHelp(this.#team !== undefined));
  }

  async #explain(word: string): Promise<void> {
    if (this.#isCommand(word)) return this.#runPlain([word, '--help']);
    if (this.#words.grammarOf(word) !== undefined) return this.#help();
    throw new NotFoundError(`There is no command "${word}". See: help`);
  }

  async #runPlain(words: readonly string[]): Promise<void> {
    await this.#runCommand(words, this.#context.signal);
  }

  /** The same code as on the command line, on the storage that is open. */
  async #runCommand(words: readonly string[], signal: AbortSignal): Promise<ReplStep> {
    const before = await (await this.#moves.findStorage())?.findSession();
    const { terminal } = this.#context;
    const code = await this.#context.program.run(words, {
      version: '',
      columns: terminal.columns,
      print: terminal.print,
      note: terminal.note,
      run: (command, input, line) => {
        checkPossible(words, line);
        const { globals } = this.#context;
        // The keys are read here, so nothing else may ask or page.
        const merged = { ...globals, json: globals.json || line.json, yes: line.yes, pager: false, input: false };
        const env = { ...this.#context.env, ...this.#team?.chosen };
        return command.run(this.#context.with({ globals: merged, signal, env }), input);
      },
    });
    const opened = await this.#moves.findStorage();
    if (opened !== undefined && (MOVES.has(words[0] ?? '') || (await opened.findSession()) !== before))
      opened.position = undefined;
    return { isOver: false, code };
  }

  #openTeam(hint?: string): ReplTeam {
    if (this.#team !== undefined) return this.#team;
    if (this.#teamError !== undefined) throw this.#teamError;
    const more = hint === undefined ? '' : ` ${hint}`;
    throw new InvalidInputError(
      `No team is configured here, so prompts have no answer. help lists the commands.${more}`,
    );
  }

  /** Says something to the team, or lets it go on. */
  async #hear(said: Parameters<ReplTeam['hear']>[0], signal: AbortSignal, hint?: string): Promise<void> {
    const team = this.#openTeam(hint);
    const found = await this.#moves.findStorage();
    const sessionId = (await found?.findSession()) ?? this.#moves.begun ?? (await this.#context.namedSession());
    this.#isTalking = true;
    try {
      const heard = await team.hear(said, { sessionId, signal, from: found?.position });
      const opened = await this.#context.open();
      opened.select(heard);
      opened.position = undefined; // it went on from there
    } finally {
      this.#isTalking = false;
    }
  }
}

/** Whether these are as many words as a command takes here, without options. */
function isPlainFor(grammar: Grammar | undefined, words: readonly string[]): boolean {
  return words.length <= (grammar?.takes.length ?? 0) && !words.some(isOption);
}

/** Some things belong to the command line: it has the terminal for itself, and chooses where it works. */
function checkPossible(words: readonly string[], { storage, session }: GlobalOptions): void {
  if (storage !== undefined || session !== undefined)
    throw new InvalidInputError(
      'The storage and the session are chosen before: start the REPL with --storage, or say use <session>.',
    );
  if (words[0] === 'repl' || words.includes('--edit'))
    throw new InvalidInputError(`${words[0]} needs the terminal to itself. Use it on the command line.`);
}
