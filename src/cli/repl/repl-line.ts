import { formatSuggestion, suggest } from '../../core/suggestion.ts';
import type { Grammar, ReplWords, WordKind } from './repl-words.ts';

/** What a line of the REPL is: nothing, a command, something said to the team, or neither for sure. */
export type ReplLine =
  | { readonly kind: 'empty' }
  | {
      readonly kind: 'command';
      readonly words: readonly string[];
      /** It may have been meant as a sentence. */
      readonly isGuess?: boolean;
      /** It was written as on the command line, which knows more of some commands. */
      readonly isProgram?: boolean;
    }
  | { readonly kind: 'prompt'; readonly text: string; readonly hint?: string }
  | { readonly kind: 'unclear'; readonly explanation: string };

/** Looks up what only the storage knows. */
export type WordLookup = (kind: WordKind, word: string) => Promise<boolean>;

/** What looks like the id of a checkpoint was meant as one, also if there is none. */
const ID_LIKE = /^(chk_[0-9a-z]*|(?=[0-9a-z]*\d)[0-9a-z]{6,26})$/;
/** What nobody writes in a sentence: options, revisions, paths, numbers alone. */
const SYMBOL = /^(--?[a-z]|[@#$/]|chk_|-?\d+$)|~\d|\w\[/i;
const OPTION = /^--?[a-z]/i;
/** Options and revisions that are nothing else. */
const FOR_COMMAND = /^(--?[a-z]|@(~|\^|\{|$)|#\d+$|chk_)|~\d+$/i;
/** The name of this program: what a command prints as a hint can be typed as it is. */
const PROGRAM = /^(?:npx\s+)?savestate(?:\s+|$)/;
const QUOTED = /^"(.*)"$/s;

/** Small words that sentences have and commands have not. */
const SENTENCE_WORDS = new Set(
  `a about along an and any are be but can could did do does for had has have he her him his how i if in into is it its
  me my not of off on or our out please she should so some that the their them these they this those to us was we were what when
  which who why will with would you your`.split(/\s+/),
);
/** A sentence with revisions in it is longer than this. */
const MAX_COMMAND_WORDS = 3;

/**
 * Tells commands from sentences. A line is a command if its first word is one and the others are what it takes: "show @~2" is, "show me the
 * plan" is not. One that begins like a command and is no sentence either is never said: it is run, and fails with an explanation.
 */
export async function readLine(line: string, known: ReplWords, lookUp: WordLookup): Promise<ReplLine> {
  const text = line.trim();
  if (text === '') return { kind: 'empty' };
  if (text.startsWith('/')) return { kind: 'command', words: orHelp(splitWords(text.slice(1))) };
  const quoted = QUOTED.exec(text)?.[1]?.trim();
  if (quoted !== undefined) return quoted === '' ? { kind: 'empty' } : { kind: 'prompt', text: quoted };
  if (PROGRAM.test(text)) return readProgram(text, known);
  const words = splitWords(text);
  const [first = ''] = words;
  const grammar = known.grammarOf(first);
  return grammar === undefined ? readUnknown(text, words, known) : readKnown(text, { words, grammar }, lookUp);
}

/** As it would be typed on the command line. */
function readProgram(text: string, known: ReplWords): ReplLine {
  const words = splitWords(text.replace(PROGRAM, ''));
  const [first = ''] = words;
  if (first === '' || OPTION.test(first) || known.grammarOf(first) !== undefined)
    return { kind: 'command', words: orHelp(words), isProgram: true };
  return isSentence(words) ? { kind: 'prompt', text } : explainUnknown(text, first, known);
}

function orHelp(words: readonly string[]): readonly string[] {
  return words.length === 0 ? ['help'] : words;
}

/** The first word is no command; it may be one that was mistyped, or that there never was, if all that follows is for a command. */
function readUnknown(text: string, [first = '', ...rest]: readonly string[], known: ReplWords): ReplLine {
  const isShort = rest.length <= MAX_COMMAND_WORDS;
  const isCommandLike = isShort && (rest.length === 0 || rest.some(isSymbol));
  const isCommand = isShort && rest.length > 0 && rest.every((word) => FOR_COMMAND.test(word));
  return isCommand || (isCommandLike && nearest(first, known) !== undefined)
    ? explainUnknown(text, first, known)
    : { kind: 'prompt', text };
}

function explainUnknown(text: string, first: string, known: ReplWords): ReplLine {
  const meant = formatSuggestion(nearest(first, known));
  return { kind: 'unclear', explanation: `There is no command "${first}".${meant} ${notSaid(text)}` };
}

/** One slip of the finger away; a word of three letters is near many, so it must have the same ones. */
function nearest(word: string, { names }: ReplWords): string | undefined {
  if (word.length === 3) return names.find((name) => sortLetters(name) === sortLetters(word));
  return /^[a-z-]{4,}$/.test(word) ? suggest(word, names, 1) : undefined;
}

function sortLetters(word: string): string {
  return [...word].sort().join('');
}

type Known = { readonly words: readonly string[]; readonly grammar: Grammar };

async function readKnown(text: string, known: Known, lookUp: WordLookup): Promise<ReplLine> {
  const { words, grammar } = known;
  const rest = words.slice(1);
  if (grammar.actions.includes(rest[0] ?? '') || (await fits(rest, grammar, lookUp))) return { kind: 'command', words };
  if (await isSaid(rest, grammar, lookUp))
    return { kind: 'prompt', text, hint: `If it was meant as a command, write /${text}` };
  if (rest.length <= grammar.takes.length) return { kind: 'command', words, isGuess: true };
  const explanation = `That is not what "${words[0]}" takes; see: help ${words[0]}. ${notSaid(text)}`;
  return { kind: 'unclear', explanation };
}

/** Whether words that a command does not take make a sentence with its name. */
async function isSaid(words: readonly string[], grammar: Grammar, lookUp: WordLookup): Promise<boolean> {
  const isShort = words.length <= MAX_COMMAND_WORDS;
  if (isShort && (words.some(isSymbol) || (await endsKnown(words, grammar, lookUp)))) return false;
  return isSentence(words) || (words.length > 1 && words.length > grammar.takes.length);
}

/** Whether a word is an option; a number below 0 is none. */
export function isOption(word: string): boolean {
  return OPTION.test(word);
}

/** What to do with a line that was not said. */
export function notSaid(text: string): string {
  return `Nothing was said to the team; to say it, put it in quotes: "${text}"`;
}

function isSymbol(word: string): boolean {
  return SYMBOL.test(word);
}

function isSentence(words: readonly string[]): boolean {
  return (
    words.some((word) => SENTENCE_WORDS.has(word.toLowerCase().replace(/[,.!?]+$/, ''))) ||
    /[a-z][!?.]$/i.test(words.at(-1) ?? '')
  );
}

/** "switch to main": what comes last is what the command takes. */
async function endsKnown(words: readonly string[], { takes }: Grammar, lookUp: WordLookup): Promise<boolean> {
  const kinds = takes.filter((kind) => kind === 'revision' || kind === 'branch' || kind === 'session');
  for (const kind of new Set(kinds)) if (await lookUp(kind, words.at(-1) ?? '')) return true;
  return false;
}

async function fits(words: readonly string[], { takes, least = 0 }: Grammar, lookUp: WordLookup): Promise<boolean> {
  if (words.some(isOption)) return true; // sentences have no options
  if (words.length > takes.length || words.length < least) return false;
  for (const [at, word] of words.entries()) if (!(await fitsKind(takes[at] ?? 'any', word, lookUp))) return false;
  return true;
}

async function fitsKind(kind: WordKind, word: string, lookUp: WordLookup): Promise<boolean> {
  switch (kind) {
    case 'any':
      return true;
    case 'count':
      return /^\d+$/.test(word);
    case 'path':
      return /^[$/]|[.[]/.test(word);
    case 'name':
      return /[^a-z]/i.test(word); // others may be sentences: "tag along"
    case 'revision':
      return /^([@#:]|\d+$)/.test(word) || ID_LIKE.test(word) || (await lookUp(kind, word));
    default:
      return lookUp(kind, word);
  }
}

/** Splits a line into words as a shell does, with quotes; a time such as `@{2h ago}` is one word. */
export function splitWords(line: string): string[] {
  const words = line.matchAll(/(?:@\{[^}"']*\}|[^\s"'@]+|@|"(?:[^"\\]|\\.)*"|'[^']*')+|["']/g);
  return [...words].map(([word]) =>
    word.replaceAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'/g, (_, double: string | undefined, single: string | undefined) =>
      double === undefined ? (single ?? '') : double.replaceAll(/\\(.)/g, '$1'),
    ),
  );
}
