import { keyBefore } from './redaction-assigned.ts';
import type { SecretKeys } from './redaction-keys.ts';
import { TOKEN_START } from './redaction-patterns.ts';

/** Every token is at least one word of this length. Prose has few such words, so nearly all texts are done after the first look. */
const LONG_WORD_CHARS = 16;

const WORD_CHARS = new Uint8Array(128);
for (const char of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.')
  WORD_CHARS[char.charCodeAt(0)] = 1;

/** How far the start of a value may be before its first long word: `ab+cd/longword`. */
const MAX_LEAD_CHARS = 64;
const LEAD_CHAR = /[\w+/.~%-]/;
const GAP_CHAR = /["'`\\ \t>]/;
const MAX_GAP_CHARS = 8;

/** Which kinds of secrets a text may hold. */
export type Hints = { readonly hasToken: boolean; readonly hasAssigned: boolean };

/**
 * Looks at the long words of a text only: does one begin like a token, or is one assigned to a suspicious name? Says yes too
 * often rather than too seldom; the patterns decide.
 */
export function scanWords(text: string, keys: SecretKeys): Hints {
  let hasToken = false;
  let hasAssigned = false;
  let end = 0;
  for (let start = findLongWord(text, 0); start >= 0; start = findLongWord(text, end)) {
    end = wordEnd(text, start + LONG_WORD_CHARS);
    hasToken ||= startsToken(text, start);
    hasAssigned ||= isAssigned(text, start, keys) || isName(text, end, keys);
    if (hasToken && hasAssigned) break;
  }
  return { hasToken, hasAssigned };
}

/** Looks at every 16th character, and back from there to the last one that is not part of a word: most are never read. */
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

/** In a text inside a text a word may follow `\n`, in an address `%3D`; the bot's number comes before a Telegram token. */
function startsToken(text: string, start: number): boolean {
  if (isTokenStart(text, start)) return true;
  switch (text.charAt(start - 1)) {
    case '\\':
      return isTokenStart(text, start + 1);
    case '%':
      return isTokenStart(text, start + 2);
    case ':':
      return /\d{8,10}$/.test(text.slice(Math.max(0, start - 11), start - 1)) && text.startsWith('AA', start);
    default:
      return false;
  }
}

function isTokenStart(text: string, at: number): boolean {
  TOKEN_START.lastIndex = at;
  return TOKEN_START.test(text);
}

function isAssigned(text: string, start: number, keys: SecretKeys): boolean {
  let at = start;
  while (at > start - MAX_LEAD_CHARS && LEAD_CHAR.test(text.charAt(at - 1))) at--;
  const valueAt = at;
  while (at > valueAt - MAX_GAP_CHARS && GAP_CHAR.test(text.charAt(at - 1))) at--;
  const separator = text.charAt(at - 1);
  return (separator === ':' || separator === '=') && keys.suspect(keyBefore(text, at - 1)) !== 'none';
}

/** Whether the long word is itself the name that something is assigned to: `AWS_SECRET_ACCESS_KEY=`. */
function isName(text: string, end: number, keys: SecretKeys): boolean {
  let at = end;
  while (at < end + MAX_GAP_CHARS && GAP_CHAR.test(text.charAt(at))) at++;
  const isFollowed = text.charAt(at) === ':' || text.charAt(at) === '=';
  return isFollowed && keys.suspect(keyBefore(text, end)) !== 'none';
}
