import { InvalidInputError } from '../errors.ts';

/** A word of an expression, and where it begins. */
export type Token = {
  readonly kind: 'number' | 'text' | 'word' | 'sign' | 'end';
  readonly text: string;
  readonly at: number;
};

/** Longer than anybody's condition, and short enough that what walks an expression needs no care for the stack. */
const MAX_CHARACTERS = 10_000;
const SHOWN_CHARACTERS = 60;

const TOKEN =
  /\s*(?:(\d+(?:\.\d+)?)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|([A-Za-z_][\w-]*)|([=!]==?|<=|>=|&&|\|\||[<>()[\].,+\-*/%!]))/y;
const KINDS = ['number', 'text', 'word', 'sign'] as const;

/** How JavaScript and CEL write the same. */
const SPELLINGS: ReadonlyMap<string, string> = new Map([
  ['===', '=='],
  ['!==', '!='],
  ['&&', 'and'],
  ['||', 'or'],
  ['!', 'not'],
]);

/** The words of an expression; throws an InvalidInputError at what is none. */
export function tokenize(text: string): Token[] {
  if (text.length > MAX_CHARACTERS)
    throw new InvalidInputError(
      `cannot be read: an expression has at most ${MAX_CHARACTERS} characters; this one has ${text.length}.`,
      { details: { length: text.length } },
    );
  const tokens: Token[] = [];
  const pattern = new RegExp(TOKEN);
  const end = text.trimEnd().length;
  while (pattern.lastIndex < end) {
    const at = pattern.lastIndex;
    const match = pattern.exec(text);
    if (match === null) throw refuse(text, at + text.slice(at).search(/\S/), 'a value');
    const which = match.slice(1).findIndex((group) => group !== undefined);
    const found = match[which + 1] ?? '';
    const kind = KINDS[which] ?? 'sign';
    tokens.push({ kind, text: SPELLINGS.get(found) ?? found, at: pattern.lastIndex - found.length });
  }
  return tokens;
}

/** The string that a quoted one stands for. */
export function unquote(text: string): string {
  return text.slice(1, -1).replace(/\\(.)/gs, '$1');
}

/** The error for an expression that goes wrong at a place. */
export function refuse(text: string, at: number, wanted: string): InvalidInputError {
  const found = at >= text.trimEnd().length ? 'the end' : `"${text.slice(at, at + 12)}"`;
  const shown = text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}...` : text;
  return new InvalidInputError(
    `cannot be understood at character ${at + 1} of "${shown}": expected ${wanted}, found ${found}.`,
    { details: { expression: text, at } },
  );
}
