import { isCredential, isReference, type SecretKeys, type Suspicion } from './redaction-keys.ts';
import type { Span } from './redaction-spans.ts';

/** Where an assignment inside a text has its value, and what is known about it. */
type Assigned = {
  readonly key: string;
  readonly start: number;
  readonly end: number;
  /** The quote around the value with the backslashes before it; empty if there is none. */
  readonly quote: string;
};

/** `:`, `=`, `:=` or `=>` after a name; not a comparison, and not the colon of an address. */
const SEPARATOR = /(?<=\w["'`\\]{0,4}[ \t]?)(?::=|=>|[:=](?![=:/]))[ \t]{0,3}/g;
const QUOTE = /\\{0,3}["'`]/y;
const BARE_VALUE = /[^\s"'`,;&<>(){}[\]\\|]{1,4096}/y;
const REST_OF_LINE = /[^\r\n"'`\\]{1,4096}/y;
const SCHEME = /(?:bearer|basic|token|digest|apikey)[ +]/iy;
const MAX_VALUE_CHARS = 8192;
const MAX_KEY_CHARS = 64;
const MAX_GAP_CHARS = 6;

const KEY_CHAR = /[\w-]/;
const GAP_CHAR = /["'`\\ \t]/;

/** A text that is JSON: tool arguments, answers of services. */
const JSON_TEXT = /^\s*[{[]/;
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
  const isJson = JSON_TEXT.test(text);
  const spans: Span[] = [];
  for (const { index, 0: separator } of text.matchAll(SEPARATOR)) {
    const key = keyBefore(text, index);
    const suspicion = keys.suspect(key);
    if (suspicion === 'none') continue;
    const assigned = readValue(text, key, index + separator.length);
    if (assigned === undefined) continue;
    const isField = isJson && assigned.quote !== '';
    const value = text.slice(assigned.start, assigned.end);
    if (isField ? keys.isSecret(key, value) : isLikely(text, assigned, suspicion))
      spans.push({ start: assigned.start, end: assigned.end, name: key });
  }
  return spans;
}

/** The name that ends before a separator, without its quotes; empty if there is none. */
export function keyBefore(text: string, separatorAt: number): string {
  let end = separatorAt;
  while (end > separatorAt - MAX_GAP_CHARS && GAP_CHAR.test(text.charAt(end - 1))) end--;
  let start = end;
  while (start > end - MAX_KEY_CHARS && KEY_CHAR.test(text.charAt(start - 1))) start--;
  return text.slice(start, end);
}

function readValue(text: string, key: string, from: number): Assigned | undefined {
  const quote = matchAt(QUOTE, text, from);
  const start = from + quote.length;
  const valueAt = start + matchAt(SCHEME, text, start).length;
  const end = quote === '' ? bareEnd(text, key, valueAt) : text.indexOf(quote, valueAt);
  if (end <= valueAt || end - valueAt > MAX_VALUE_CHARS) return undefined;
  return { key, start: valueAt, end, quote };
}

function bareEnd(text: string, key: string, start: number): number {
  return start + matchAt(/cookie$/i.test(key) ? REST_OF_LINE : BARE_VALUE, text, start).length;
}

function matchAt(sticky: RegExp, text: string, at: number): string {
  sticky.lastIndex = at;
  return sticky.exec(text)?.[0] ?? '';
}

/** Whether what stands after a suspicious name in prose or code looks like a secret. */
function isLikely(text: string, { key, start, end, quote }: Assigned, suspicion: Suspicion): boolean {
  const value = text.slice(start, end);
  const isCode = quote === '' && (PROPERTY_PATH.test(value) || '([{'.includes(text.charAt(end) || ' '));
  if (isCode || isReference(value)) return false;
  if (/cookie$/i.test(key)) return value.includes('=');
  if (suspicion === 'sure' && PASSWORD_NAME.test(key)) return isLikelyPassword(value);
  return isCredential(value) && HAS_DIGIT.test(value);
}

function isLikelyPassword(value: string): boolean {
  return value.length >= PASSWORD_MIN_CHARS && HAS_DIGIT_OR_SIGN.test(value) && /^(?![/~])\S+$/.test(value);
}
