import { createHash } from 'node:crypto';
import { isRecord } from '../../../core/options.ts';

/** Longer names are cut: what is remembered must not grow with what an event holds. */
const MAX_NAME_CHARS = 128;
const KEPT_CHARS = 64;
/** 128 bits, as base64. */
const DIGEST_CHARS = 22;

/** A name as it is remembered: a long one as its beginning, its length and its digest, so that different names stay different. */
export function boundName(name: string): string {
  if (name.length <= MAX_NAME_CHARS) return name;
  return detach(`${name.slice(0, KEPT_CHARS)}… (${name.length} characters, ${shortDigest(name)})`);
}

/** At most so many characters of a text, from its beginning. */
export function boundText(text: string, maxChars: number): string {
  return text.length <= maxChars ? text : detach(text.slice(0, maxChars));
}

/** 128 bits of a text's SHA-256: equal for equal texts, and for no others. */
export function shortDigest(text: string): string {
  return createHash('sha256').update(text, 'utf16le').digest('base64url').slice(0, DIGEST_CHARS);
}

/** A copy that stands alone: a slice would keep the whole text it was cut from in memory. */
export function detach(text: string): string {
  return Buffer.from(text, 'utf16le').toString('utf16le');
}

/** Values with more parts than this are not written out: shared parts can make a small value endless. */
const MAX_PARTS = 20_000;
const MAX_CHARS = 4_000_000;

type Fields = Readonly<Record<string, unknown>>;

/**
 * A value as JSON, each object as `arrange` gives it. Undefined for what JSON cannot hold, for what goes round in a circle or is
 * too large, and for what throws when it is read: a getter, a proxy, a `toJSON`.
 */
export function boundedJson(value: unknown, arrange: (fields: Fields) => Fields = asTheyAre): string | undefined {
  let [partsLeft, charsLeft] = [MAX_PARTS, MAX_CHARS];
  const spend = (key: string, part: unknown) => {
    partsLeft -= partCount(part);
    charsLeft -= key.length + (typeof part === 'string' ? part.length : 0);
    if (partsLeft < 0 || charsLeft < 0) throw new RangeError('The value is too large.');
  };
  try {
    return JSON.stringify(value, (key, part: unknown) => {
      spend(key, part);
      return isRecord(part) ? arrange(part) : part;
    });
  } catch {
    // Whatever it was, the value cannot be written; that is the answer.
    return undefined;
  }
}

/** The fields in the order of their names, so that equal objects are written alike. */
export function sortFields(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1)));
}

const asTheyAre = (fields: Fields) => fields;

function partCount(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  if (ArrayBuffer.isView(value)) return 1 + value.byteLength;
  return 1 + (Array.isArray(value) ? value.length : Object.keys(value).length);
}
