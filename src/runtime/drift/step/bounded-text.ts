import { createHash } from 'node:crypto';

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
