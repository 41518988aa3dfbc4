import { hasErrorCode, InvalidInputError, NotFoundError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { parseSessionId, type SessionId } from '../../core/record/id.ts';
import { type Round, readRounds } from '../../manager/revision/rounds.ts';
import { readNames, toOutput } from '../../view/checkpoint-output.ts';
import { splitPath } from '../../view/state-path.ts';
import type { Context, OpenStorage } from '../base/command.ts';
import { parseCount } from '../base/command-input.ts';
import { resolveRevision } from '../revision/resolve-revision.ts';
import { newSessionName } from '../team/talk-options.ts';
import { describePlace, describeRound, findHere, findQuestion, formatRounds, goBack, openRound } from './repl-place.ts';
import type { ReplWords, WordKind } from './repl-words.ts';

const DEFAULT_ROWS = 20;

/** Moves around in the history, and tells where one is. */
export class ReplMoves {
  readonly #context: Context;
  readonly #words: ReplWords;
  /** The session that `new` named, where there is no storage yet that could remember it. */
  begun: SessionId | undefined;

  constructor(context: Context, words: ReplWords) {
    this.#context = context;
    this.#words = words;
  }

  /** Numbers that stand for rounds, as `checkpoints` shows them, become ids. */
  async openNumbers(name: string, words: readonly string[]): Promise<string[]> {
    const takes = this.#words.grammarOf(name)?.takes ?? [];
    const firstOption = words.findIndex((word) => word.startsWith('-'));
    return Promise.all(
      words.map(async (word, at) => {
        const isRevision = takes[at] === 'revision' && (firstOption < 0 || at < firstOption);
        return isRevision && /^\d+$/.test(word) ? (await this.#open(word)).id : word;
      }),
    );
  }

  /** A checkpoint as people name it here: a round, or any revision. */
  async #open(word: string): Promise<Checkpoint> {
    const opened = await this.#context.open();
    const isRound = /^\d+$/.test(word) && !(await this.#isName(opened, word));
    if (isRound) return openRound(opened, Number(word));
    if (!/^#\d+$/.test(word) || (await isRevision(opened, word))) return resolveRevision(opened, word);
    return resolveRevision(opened, `${await opened.manager.currentBranch(await opened.session())}${word}`); // gone back from
  }

  async #isName(opened: OpenStorage, word: string): Promise<boolean> {
    const sessionId = await opened.session();
    const found = await Promise.all((['branch', 'tag'] as const).map((kind) => opened.findName(sessionId, kind, word)));
    return found.some((id) => id !== undefined);
  }

  /** Undefined where no storage was made yet; looking around goes on. */
  async findStorage(): Promise<OpenStorage | undefined> {
    try {
      return await this.#context.open();
    } catch (error) {
      if (hasErrorCode(error, 'NOT_FOUND')) return undefined;
      throw error;
    }
  }

  /** Whether a word is what a command takes. */
  async isKnown(kind: WordKind, word: string): Promise<boolean> {
    if (kind === 'command') return this.#words.grammarOf(word) !== undefined;
    const opened = await this.findStorage();
    const sessionId = await opened?.findSession();
    if (opened === undefined) return false;
    if (kind === 'session') return (await opened.storage.readRefs({ sessionId: word })).length > 0;
    if (sessionId === undefined) return false;
    if (kind === 'branch') return (await opened.findName(sessionId, 'branch', word)) !== undefined;
    return isRevision(opened, splitPath(word)[0]);
  }

  /** Lists rounds and what was said in them. */
  async showRounds(word: string | undefined): Promise<void> {
    const limit = readPositive(word, 'The count') ?? DEFAULT_ROWS;
    const opened = await this.#context.open();
    const sessionId = await opened.findSession();
    if (sessionId === undefined) {
      await this.#context.answer([], () => '');
      return this.#context.say('There are no checkpoints yet.');
    }
    const rounds: Round[] = [];
    let left = limit;
    let hasMore = false;
    for await (const { rows, ...round } of readRounds(opened.storage, await resolveRevision(opened, '@'))) {
      hasMore = rows.length > left;
      if (left > 0) rounds.push({ ...round, rows: rows.slice(0, left) });
      if (hasMore) break;
      left -= rows.length;
    }
    const names = await readNames(opened.manager, sessionId);
    const output = rounds.flatMap(({ rows }) => rows.map((checkpoint) => toOutput(checkpoint, names)));
    const text = this.#context.isJson ? '' : await formatRounds(this.#context, rounds, names);
    await this.#context.answer(output, () => text);
    if (hasMore) this.#context.say(`There are earlier ones. For twice as many: checkpoints ${limit * 2}`);
  }

  /** Goes to a checkpoint: the next prompt goes on from there. */
  async resume(word: string | undefined): Promise<void> {
    if (word === undefined) throw new InvalidInputError('Say which: resume <checkpoint>. "checkpoints" lists them.');
    const checkpoint = await this.#open(word);
    const opened = await this.#context.open();
    opened.select(checkpoint.sessionId);
    opened.position = checkpoint.id;
    this.#context.say(`Resumed ${describeRound(checkpoint)}: your next prompt continues from there.`);
  }

  /** Goes so many rounds back. */
  async back(count: number): Promise<void> {
    const opened = await this.#context.open();
    const checkpoint = await goBack(opened, await resolveRevision(opened, '@'), count);
    opened.position = checkpoint.id;
    this.#context.say(
      `Back at ${describeRound(checkpoint)}: your next prompt continues from there. Nothing was deleted.`,
    );
  }

  /** Goes to another session. */
  async use(word: string | undefined): Promise<void> {
    if (word === undefined || !(await this.isKnown('session', word)))
      throw new NotFoundError(`There is no session "${word ?? ''}" in this storage. See: sessions`);
    (await this.#context.open()).select(parseSessionId(word));
  }

  /** Says where one is, and what is asked there. */
  async where(): Promise<void> {
    if (await this.#isToBegin()) return this.#sayBegun();
    const opened = await this.#context.open();
    await opened.session();
    const here = await resolveRevision(opened, '@');
    this.#context.terminal.print(`session ${await describePlace(opened, here)}, ${here.id}\n`);
    const question = await findQuestion(opened, here);
    if (question !== undefined) this.#context.say(question);
  }

  /** The session is made by the first prompt. */
  async begin(word: string | undefined): Promise<void> {
    if (word !== undefined && (await this.isKnown('session', word)))
      throw new InvalidInputError(`Session "${word}" already exists. Continue it with: use ${word}`);
    const sessionId = parseSessionId(word ?? newSessionName('chat'));
    this.begun = sessionId;
    (await this.findStorage())?.select(sessionId);
    this.#sayBegun();
  }

  /** Whether one is at the session that `new` named, and nothing was said in it yet. */
  async #isToBegin(): Promise<boolean> {
    if (this.begun === undefined) return false;
    const opened = await this.findStorage();
    return opened === undefined || ((await opened.findSession()) === this.begun && !(await findHere(opened)));
  }

  #sayBegun(): void {
    this.#context.say(`Your next prompt starts session "${this.begun}".`);
  }
}

/** A number of rounds or rows, if there is one: 1 or more. */
export function readPositive(word: string | undefined, what: string): number | undefined {
  if (word === undefined) return undefined;
  const count = parseCount(word, what);
  if (count > 0) return count;
  throw new InvalidInputError(`${what} must be 1 or more; found "${word}".`);
}

async function isRevision(opened: OpenStorage, word: string): Promise<boolean> {
  try {
    await resolveRevision(opened, word);
    return true;
  } catch (error) {
    if (hasErrorCode(error, 'NOT_FOUND') || hasErrorCode(error, 'INVALID_INPUT')) return false;
    throw error;
  }
}
