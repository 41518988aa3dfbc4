/** What a line of the REPL is: nothing, a command, or something said to the team. */
export type ReplLine =
  | { readonly kind: 'empty' }
  | { readonly kind: 'command'; readonly words: readonly string[] }
  | { readonly kind: 'prompt'; readonly text: string; readonly hint?: string };

/** What a word after a command may be. */
export type WordKind = 'revision' | 'count' | 'branch' | 'session' | 'command' | 'path' | 'name' | 'any';

/** Looks up what only the storage knows. */
export type WordLookup = (kind: WordKind, word: string) => Promise<boolean>;

/** The words each command takes; all may be left out but those before `least`. */
export const REPL_WORDS: Readonly<Record<string, { readonly least?: number; readonly takes: readonly WordKind[] }>> = {
  checkpoints: { takes: ['count'] },
  'list-checkpoints': { takes: ['count'] },
  resume: { least: 1, takes: ['revision'] },
  back: { takes: ['count'] },
  run: { takes: ['count'] },
  continue: { takes: [] },
  new: { takes: ['name'] },
  branch: { takes: ['branch'] },
  use: { least: 1, takes: ['session'] },
  where: { takes: [] },
  help: { takes: ['command'] },
  quit: { takes: [] },
  exit: { takes: [] },
  show: { takes: ['revision'] },
  diff: { takes: ['revision', 'revision'] },
  fork: { takes: ['revision'] },
  rewind: { least: 1, takes: ['revision'] },
  switch: { least: 1, takes: ['branch'] },
  tag: { takes: ['name', 'revision'] },
  undo: { takes: [] },
  log: { takes: ['revision'] },
  blame: { least: 1, takes: ['path', 'revision'] },
  grep: { least: 1, takes: ['any', 'revision'] },
  sessions: { takes: [] },
  stats: { takes: [] },
  verify: { takes: [] },
  drift: { takes: ['session'] },
};

/** What looks like the id of a checkpoint was meant as one, also if there is none. */
const ID_LIKE = /^(chk_[0-9a-z]*|(?=[0-9a-z]*\d)[0-9a-z]{6,26})$/;

/**
 * Tells commands from ordinary sentences. A line is a command if its first word is one and all others are what it takes:
 * "show @~2" is, "show me the plan" is not. A slash before it makes any line a command.
 */
export async function readLine(line: string, lookUp: WordLookup): Promise<ReplLine> {
  const text = line.trim();
  if (text === '') return { kind: 'empty' };
  if (text.startsWith('/')) return { kind: 'command', words: splitWords(text.slice(1)) };
  const words = splitWords(text);
  const grammar = Object.hasOwn(REPL_WORDS, words[0] ?? '') ? REPL_WORDS[words[0] ?? ''] : undefined;
  if (grammar === undefined) return { kind: 'prompt', text };
  if (await fits(words.slice(1), grammar, lookUp)) return { kind: 'command', words };
  return { kind: 'prompt', text, hint: `If it was meant as a command, write /${text}` };
}

async function fits(
  words: readonly string[],
  { takes, least = 0 }: { readonly least?: number; readonly takes: readonly WordKind[] },
  lookUp: WordLookup,
): Promise<boolean> {
  if (words.some((word) => /^--?[a-z]/.test(word))) return true; // sentences have no options
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
      return /[^a-z]/i.test(word); // "tag along" is a sentence
    case 'revision':
      return /^[@#:]/.test(word) || ID_LIKE.test(word) || (await lookUp(kind, word));
    default:
      return lookUp(kind, word);
  }
}

/** Splits a line into words as a shell does, with quotes. */
export function splitWords(line: string): string[] {
  const words = line.matchAll(/(?:[^\s"']+|"(?:[^"\\]|\\.)*"|'[^']*')+|["']/g);
  return [...words].map(([word]) =>
    word.replaceAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'/g, (_, double: string | undefined, single: string | undefined) =>
      double === undefined ? (single ?? '') : double.replaceAll(/\\(.)/g, '$1'),
    ),
  );
}
