import type { Redact } from '../codec/compose.ts';
import { InvalidInputError } from '../errors.ts';
import {
  anything,
  checkOptions,
  either,
  isRecord,
  type OptionCheck,
  type OptionChecks,
  oneOf,
  record,
} from '../options.ts';
import { commonEnds } from '../tree/text-pieces.ts';
import { writeTag } from '../value/grammar.ts';
import { findAssigned, hasSuspectName, isJsonText } from './scan/redaction-assigned.ts';
import { SecretKeys } from './scan/redaction-keys.ts';
import {
  BEARER_PATTERN,
  MYSQL_PASSWORD_PATTERN,
  PRIVATE_KEY_PATTERN,
  SAS_PATTERN,
  type SecretPattern,
  URL_PASSWORD_PATTERN,
} from './scan/redaction-patterns.ts';
import { scanWords } from './scan/redaction-scan.ts';
import { mergeSpans, replaceSpans, type Span } from './scan/redaction-text.ts';

export type { SecretPattern } from './scan/redaction-patterns.ts';

/** What to look for besides the built-in names and formats, and what to leave alone. */
export type RedactionOptions = {
  /** More key names whose values are secrets, in any spelling: `tenantPin` also covers `TENANT_PIN` and `oldTenantPin`. */
  readonly extraKeys?: readonly string[] | undefined;
  /** More formats. The whole match is the secret; state and flags `g` and `y` of the expression are ignored. */
  readonly extraPatterns?: readonly SecretPattern[] | undefined;
  /** Secrets in use now, looked for verbatim, and as they appear inside JSON and in addresses. */
  readonly values?: readonly string[] | undefined;
  /** Key names that are no secrets here. Values are still searched for the formats. */
  readonly allowKeys?: readonly string[] | undefined;
};

/** Says nothing of what was found: it may be a secret. */
const list: OptionCheck = (value) => (Array.isArray(value) ? undefined : 'must be a list');

const CHECKS: OptionChecks<RedactionOptions> = { extraKeys: list, extraPatterns: list, values: list, allowKeys: list };
const PATTERN_CHECKS: OptionChecks<SecretPattern> = { name: anything, pattern: anything };

/** Nothing shorter is recognised inside a text. */
const MIN_TEXT_CHARS = 8;

/** A shorter live value would be found in innocent words, and saved states would fall apart. */
const MIN_LIVE_CHARS = 4;

/** Words before passwords, which may be short. Under other names only long words count, which `scanWords` sees. */
const PASSWORD_HINT = /ass[wp]|ASS[WP]/;

/** Other marks of secrets without a long word; each begins with a rare letter, so that looking for it costs next to nothing. */
const SHORT_HINTS = ['Basic ', 'basic ', 'Cookie', 'Pwd='];

/** No format is longer, and no value in quotes. What is longer without quotes ends with its line. */
const REACH_CHARS = 40_000;

/** Formats that are no words, or need words before them. */
const LONGER_FORMATS = [PRIVATE_KEY_PATTERN, URL_PASSWORD_PATTERN, MYSQL_PASSWORD_PATTERN, SAS_PATTERN, BEARER_PATTERN];

/** What to look for, or that secrets are stored as they are. */
export type SecretsOption = RedactionOptions | 'store-secrets-in-plain-text';

/** Checks what kind of thing it is; what is in it is checked by `createRedactor`, which shows nothing of it. */
export const secretsOption: OptionCheck = either(
  'an object, or "store-secrets-in-plain-text"',
  record,
  oneOf('store-secrets-in-plain-text'),
);

/** How a codec treats secrets under this option; by default it leaves out what is known to be one. */
export function redactionOf(secrets: SecretsOption | undefined): { readonly redact?: Redact } {
  return secrets === 'store-secrets-in-plain-text' ? {} : { redact: createRedactor(secrets) };
}

/** Makes the function that keeps secrets out of checkpoints. It depends on its arguments alone, so equal states stay equal. */
export function createRedactor(options: RedactionOptions = {}): Redact {
  checkOptions(options, CHECKS, 'secrets');
  const { extraKeys = [], extraPatterns = [], values = [], allowKeys = [] } = options;
  const keys = new SecretKeys({
    extra: extraKeys.map((key, at) => checkKey(key, `extraKeys[${at}]`)),
    allowed: allowKeys.map((key, at) => checkKey(key, `allowKeys[${at}]`)),
  });
  const live = values.flatMap(liveForms);
  const own = extraPatterns.map(copyPattern);
  const hasOwn = live.length + own.length > 0;
  const redact: Redact = (text, key, onSecret) => {
    if (key !== undefined && keys.isSecret(key, text)) {
      onSecret?.(text);
      return secretJson(key);
    }
    const known = findKnown(text, keys);
    const found = hasOwn ? [...findLive(text, live), ...findPatterns(text, own), ...known] : known;
    if (found.length === 0) return undefined;
    const spans = mergeSpans(found);
    if (onSecret !== undefined) for (const { start, end } of spans) onSecret(text.slice(start, end));
    return redactSpans(text, spans);
  };
  const isNamed = (key?: string) => key !== undefined && keys.suspect(key) !== 'none';
  if (!hasOwn) redact.isLike = (text, before, key) => !isNamed(key) && isPlainChange(text, before, keys);
  return redact;
}

/** The form that decodes to a SecretRef. */
function secretJson(name: string): string {
  return writeTag('secret', JSON.stringify(name));
}

function redactSpans(text: string, spans: readonly Span[]): string {
  const [first] = spans;
  const isWhole = first !== undefined && text.slice(first.start, first.end) === text.trim();
  return isWhole ? secretJson(first.name) : JSON.stringify(replaceSpans(text, spans));
}

/** Finds the built-in formats. Each group has a cheap hint, because nearly every text holds none of them. */
function findKnown(text: string, keys: SecretKeys): Span[] {
  if (text.length < MIN_TEXT_CHARS) return [];
  const { tokens, hasAssigned } = scanWords(text, keys);
  const spans = [...tokens];
  if (text.includes('PRIVATE KEY')) spans.push(...findPatterns(text, [PRIVATE_KEY_PATTERN]));
  if (text.includes('@')) spans.push(...findPatterns(text, [URL_PASSWORD_PATTERN]));
  if (text.includes('mysql')) spans.push(...findPatterns(text, [MYSQL_PASSWORD_PATTERN]));
  if (text.includes('&sig=') || text.includes('?sig=')) spans.push(...findPatterns(text, [SAS_PATTERN]));
  if (hasAssigned || PASSWORD_HINT.test(text) || SHORT_HINTS.some((hint) => text.includes(hint)))
    spans.push(...findPatterns(text, [BEARER_PATTERN]), ...findAssigned(text, keys));
  return spans;
}

/**
 * Whether a text has no secret because the one before, which has none, differs in one place only. Around that place, further than a secret
 * reaches, nothing may look like a part of one. Elsewhere what is found is what was found before: nothing.
 */
function isPlainChange(text: string, before: string, keys: SecretKeys): boolean {
  if (isJsonText(text) !== isJsonText(before)) return false;
  const { prefix, suffix } = commonEnds(text, before);
  const start = prefix < REACH_CHARS ? 0 : Math.max(0, text.lastIndexOf('\n', prefix - REACH_CHARS));
  const end = text.indexOf('\n', text.length - suffix + REACH_CHARS);
  const around = text.slice(start, end < 0 ? text.length : end + 1);
  return around.length < text.length / 2 && !isSuspect(around, keys);
}

/** Whether a text has a secret, a part of one, or a hint that would have the rest of the text looked through. */
function isSuspect(text: string, keys: SecretKeys): boolean {
  const { tokens, hasAssigned } = scanWords(text, keys);
  const isHinted = hasAssigned || PASSWORD_HINT.test(text) || SHORT_HINTS.some((hint) => text.includes(hint));
  return isHinted || tokens.length > 0 || hasSuspectName(text, keys) || findPatterns(text, LONGER_FORMATS).length > 0;
}

function findPatterns(text: string, patterns: readonly SecretPattern[]): Span[] {
  const spans: Span[] = [];
  for (const { name, pattern } of patterns) {
    // matchAll works on a copy, so no call leaves a lastIndex for the next.
    for (const { 0: found, index } of text.matchAll(pattern))
      if (found !== '') spans.push({ start: index, end: index + found.length, name });
  }
  return spans;
}

function findLive(text: string, live: readonly string[]): Span[] {
  const spans: Span[] = [];
  for (const value of live) {
    for (let at = text.indexOf(value); at >= 0; at = text.indexOf(value, at + value.length))
      spans.push({ start: at, end: at + value.length, name: 'live_value' });
  }
  return spans;
}

function liveForms(value: string, at: number): string[] {
  if (typeof value !== 'string' || value.trim().length < MIN_LIVE_CHARS)
    throw new InvalidInputError(
      `redaction.values[${at}] is ${typeof value === 'string' ? 'too short' : `of type ${typeof value}`}; allowed: a text of ${MIN_LIVE_CHARS} or more characters.`,
    );
  // Through a buffer, because encodeURIComponent throws at half a surrogate pair.
  const inAddress = encodeURIComponent(Buffer.from(value).toString());
  return [...new Set([value, JSON.stringify(value).slice(1, -1), inAddress])];
}

function copyPattern(given: SecretPattern, at: number): SecretPattern {
  if (isRecord(given)) checkOptions(given, PATTERN_CHECKS, `secrets.extraPatterns[${at}]`);
  const { name, pattern } = given ?? {};
  if (typeof name !== 'string' || name === '' || !(pattern instanceof RegExp))
    throw new InvalidInputError(
      `redaction.extraPatterns[${at}] has no name or no regular expression; allowed: { name: text, pattern: RegExp }.`,
    );
  return { name, pattern: new RegExp(pattern.source, `${pattern.flags.replaceAll(/[gy]/g, '')}g`) };
}

function checkKey(key: string, field: string): string {
  if (typeof key === 'string' && /[\p{L}\p{N}]/u.test(key)) return key;
  throw new InvalidInputError(
    `redaction.${field} is ${JSON.stringify(key)}; allowed: a key name with a letter or digit.`,
  );
}
