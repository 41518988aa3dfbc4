import { isCredential, isReference, type SecretKeys } from './redaction-keys.ts';
import { charSet, type Span, skipBack } from './redaction-text.ts';

/** Where an assignment inside a text has its value, and what is known about it. */
type Assigned = {
  readonly key: string;
  readonly start: number;
  readonly end: number;
  /** The quote around the value with the backslashes before it; empty if there is none. */
  readonly quote: string;
};

/** `:`, `=`, `:=` or `=>` after a name, not a comparison, and not the colon of an address; or "is" after "password". */
const SEPARATOR =
  /(?<=\w["'`\\]{0,4}[ \t]?)(?::=|=>|[:=](?![=:/]))[ \t]{0,3}|(?<=\bpass(?:word|phrase|code)) (?:is|was):?[ \t]{1,3}/gi;
const QUOTE = /\\{0,3}["'`]/y;
const BARE_VALUE = /[^\s"'`,;&<>(){}[\]\\|]+/y;
const REST_OF_LINE = /[^\r\n"'`\\]+/y;
const SCHEME = /(?:bearer|basic|token|digest|apikey)[ +]/iy;
/** A quote that is closed later than this was an apostrophe. */
const MAX_QUOTED_CHARS = 8192;
const MAX_KEY_CHARS = 64;
const MAX_GAP_CHARS = 6;

const KEY_CHARS = charSet('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-');
const GAP_CHARS = charSet('"\'`\\ \t');

/** Nothing is looked for inside a longer value, so that the work does not grow with the square of the text. */
const LONG_VALUE_CHARS = 256;

const COOKIE = /^[\w-]{1,256}=[^\s;>]/;

/** A text that is JSON: tool arguments, answers of services. */
const JSON_TEXT = /^\s*[{[]/;
/** What stands before the name of a field of JSON inside a longer text. */
const FIELD_START = /[{,]\s{0,8}\\{0,3}"$/;
const FIELD_START_CHARS = 16;
const PASSWORD_NAME = /pass|pwd/i;
const PASSWORD_MIN_CHARS = 6;
const HAS_DIGIT_OR_SIGN = /[\d!@#$%^&*]/;
const HAS_DIGIT = /\d/;
/** `req.body.password1`: code that names a value, and no value. */
const PROPERTY_PATH = /^[A-Za-z_$][\w$]*(?:\??\.[A-Za-z_$][\w$]*)+$/;

/**
 * Finds secrets by the names they are given inside a text: `DB_PASSWORD=...`, `X-Api-Key: ...`, `"client_secret": "..."`, `?token=...`.
 * In JSON they are judged like fields; elsewhere, where prose and code talk about passwords, a value must also look like one.
 */
export function findAssigned(text: string, keys: SecretKeys): Span[] {
  const isWholeJson = isJsonText(text);
  const isJson = (key: string, separatorAt: number) => isWholeJson || isField(text, key, separatorAt);
  const spans: Span[] = [];
  let from = 0;
  for (const { index, 0: separator } of text.matchAll(SEPARATOR)) {
    const key = index < from ? '' : keyBefore(text, index);
    if (keys.suspect(key) === 'none') continue;
    const assigned = readValue(text, key, index + separator.length);
    if (assigned === undefined) continue;
    const { start, end } = assigned;
    const isInJson = assigned.quote !== '' && isJson(key, index);
    const isSecret = isInJson ? keys.isSecret(key, text.slice(start, end)) : isLikely(text, assigned, keys);
    if (isSecret) spans.push({ start, end, name: key });
    if (isSecret || end - start > LONG_VALUE_CHARS) from = end;
  }
  return spans;
}

/** Whether fields anywhere in a text are fields of JSON, by how it begins. */
export function isJsonText(text: string): boolean {
  return JSON_TEXT.test(text);
}

/** Whether anything in a text is assigned to a name that secrets have. */
export function hasSuspectName(text: string, keys: SecretKeys): boolean {
  return [...text.matchAll(SEPARATOR)].some(({ index }) => keys.suspect(keyBefore(text, index)) !== 'none');
}

/** Whether a name before a separator is that of a field of JSON. */
function isField(text: string, key: string, separatorAt: number): boolean {
  const end = skipBack(text, separatorAt, { chars: GAP_CHARS, max: MAX_GAP_CHARS });
  const start = end - key.length;
  return text.charAt(end) !== ':' && FIELD_START.test(text.slice(Math.max(0, start - FIELD_START_CHARS), start));
}

/** The name that ends before a separator, without its quotes; empty if there is none. */
export function keyBefore(text: string, separatorAt: number): string {
  const end = skipBack(text, separatorAt, { chars: GAP_CHARS, max: MAX_GAP_CHARS });
  const start = skipBack(text, end, { chars: KEY_CHARS, max: MAX_KEY_CHARS });
  return text.slice(start, end);
}

function readValue(text: string, key: string, from: number): Assigned | undefined {
  const quote = matchAt(QUOTE, text, from);
  const start = from + quote.length;
  const valueAt = start + matchAt(SCHEME, text, start).length;
  const end = quote === '' ? bareEnd(text, key, valueAt) : closingQuote(text, quote, valueAt);
  const isTooFar = quote !== '' && end - valueAt > MAX_QUOTED_CHARS;
  if (end <= valueAt || isTooFar) return undefined;
  return { key, start: valueAt, end, quote };
}

/** A quote with more backslashes before it than the opening one had is part of the value. */
function closingQuote(text: string, quote: string, from: number): number {
  let end = text.indexOf(quote, from);
  while (end > from && end - from <= MAX_QUOTED_CHARS && text.charAt(end - 1) === '\\')
    end = text.indexOf(quote, end + quote.length);
  return end;
}

function bareEnd(text: string, key: string, start: number): number {
  return start + matchAt(/cookie$/i.test(key) ? REST_OF_LINE : BARE_VALUE, text, start).length;
}

function matchAt(sticky: RegExp, text: string, at: number): string {
  sticky.lastIndex = at;
  return sticky.exec(text)?.[0] ?? '';
}

/** Whether what stands after a suspicious name in prose or code looks like a secret. */
function isLikely(text: string, { key, start, end, quote }: Assigned, keys: SecretKeys): boolean {
  const value = text.slice(start, end);
  const isCode = quote === '' && (PROPERTY_PATH.test(value) || '([{'.includes(text.charAt(end) || ' '));
  if (isCode || isReference(value)) return false;
  if (/cookie$/i.test(key)) return COOKIE.test(value);
  if (keys.suspect(key) === 'sure' && PASSWORD_NAME.test(key)) return isLikelyPassword(value);
  return isCredential(value) && HAS_DIGIT.test(value);
}

function isLikelyPassword(value: string): boolean {
  return value.length >= PASSWORD_MIN_CHARS && HAS_DIGIT_OR_SIGN.test(value) && /^(?![/~])\S+$/.test(value);
}
