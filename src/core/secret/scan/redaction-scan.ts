import { keyBefore } from './redaction-assigned.ts';
import { SecretKeys } from './redaction-keys.ts';
import { TOKEN_PATTERNS, TOKEN_START } from './redaction-patterns.ts';
import { charSet, replaceSpans, type Span, skipBack } from './redaction-text.ts';

/** Every token is a word of at least this length. Prose has few such words, so nearly all texts are done after the first look. */
const LONG_WORD_CHARS = 20;

const WORD_CHARS = charSet('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.');
const LEAD_CHARS = charSet('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.+/~%');
const GAP_CHARS = charSet('"\'`\\ \t>');

/** How far the start of a value may be before its first long word: `ab+cd/longword`. */
const MAX_LEAD_CHARS = 40;
const MAX_GAP_CHARS = 8;

/** The number of a Telegram bot, which is the first part of its token. */
const BOT_NUMBER = /(?:bot)?\d{8,10}(?::|%3A)$/;
const BOT_NUMBER_CHARS = 16;

/** The tokens in a text, and whether something may be assigned to a suspicious name in it. */
export type Words = { readonly tokens: readonly Span[]; readonly hasAssigned: boolean };

const KEYS = new SecretKeys({ extra: [], allowed: [] });

/** The text without its tokens. Errors are logged and sent on: a token that was passed in the wrong place does not go with them. */
export function withoutTokens(text: string): string {
  const { tokens } = scanWords(text, KEYS);
  return tokens.length === 0 ? text : replaceSpans(text, tokens);
}

/** Looks at the long words of a text, and at nothing else. */
export function scanWords(text: string, keys: SecretKeys): Words {
  const tokens: Span[] = [];
  let hasAssigned = false;
  let end = 0;
  for (let start = findLongWord(text, 0); start >= 0; start = findLongWord(text, end)) {
    end = wordEnd(text, start + LONG_WORD_CHARS);
    const token = findToken(text, start);
    if (token !== undefined) tokens.push(token);
    hasAssigned ||= isAssigned(text, start, keys) || isName(text, end, keys);
  }
  return { tokens, hasAssigned };
}

/** Looks at every 20th character, and back from there to the last one that is not part of a word: most are never read. */
function findLongWord(text: string, from: number): number {
  let before = from - 1;
  for (let at = before + LONG_WORD_CHARS; at < text.length; at = before + LONG_WORD_CHARS) {
    let back = at;
    while (back > before && isWordChar(text.charCodeAt(back))) back--;
    if (back === before) return before + 1;
    before = back;
  }
  return -1;
}

function wordEnd(text: string, from: number): number {
  let end = from;
  while (end < text.length && isWordChar(text.charCodeAt(end))) end++;
  return end;
}

function isWordChar(code: number): boolean {
  return code < 128 && WORD_CHARS[code] === 1;
}

/** In a text inside a text a word may follow `\n`, and in an address `%3D`; neither is part of it. */
function findToken(text: string, start: number): Span | undefined {
  switch (text.charAt(start - 1)) {
    case '\\':
      return tokenAt(text, start) ?? tokenAt(text, start + 1);
    case '%':
      return tokenAt(text, start + 2) ?? tokenAt(text, botNumberAt(text, start + 2));
    case ':':
      return tokenAt(text, start) ?? tokenAt(text, botNumberAt(text, start));
    default:
      return tokenAt(text, start);
  }
}

function botNumberAt(text: string, tokenAt: number): number {
  const before = text.slice(Math.max(0, tokenAt - BOT_NUMBER_CHARS), tokenAt);
  return tokenAt - (BOT_NUMBER.exec(before)?.[0].length ?? 0);
}

function tokenAt(text: string, start: number): Span | undefined {
  TOKEN_START.lastIndex = start;
  if (!TOKEN_START.test(text)) return undefined;
  for (const { name, pattern } of TOKEN_PATTERNS) {
    pattern.lastIndex = start;
    if (pattern.test(text)) return { start, end: pattern.lastIndex, name };
  }
  return undefined;
}

function isAssigned(text: string, start: number, keys: SecretKeys): boolean {
  if (text.charAt(start - 1) === ' ' && text.slice(start - 7, start - 1).toLowerCase() === 'bearer') return true;
  const valueAt = skipBack(text, start, { chars: LEAD_CHARS, max: MAX_LEAD_CHARS });
  const at = skipBack(text, valueAt, { chars: GAP_CHARS, max: MAX_GAP_CHARS });
  return isSeparator(text, at - 1) && keys.suspect(keyBefore(text, at - 1)) !== 'none';
}

/** Whether the long word is itself the name that something is assigned to: `AWS_SECRET_ACCESS_KEY=`. */
function isName(text: string, end: number, keys: SecretKeys): boolean {
  let at = end;
  while (at < end + MAX_GAP_CHARS && GAP_CHARS[text.charCodeAt(at)] === 1) at++;
  return isSeparator(text, at) && keys.suspect(keyBefore(text, end)) !== 'none';
}

function isSeparator(text: string, at: number): boolean {
  const char = text.charAt(at);
  return char === ':' || char === '=';
}
