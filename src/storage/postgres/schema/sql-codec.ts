import { type Digest, splitDigests } from '../../../core/tree/chunk.ts';
import { isBindable } from '../../sql-text.ts';

/** Starts a text that is stored as a JSON string, because PostgreSQL could not take it as it is. */
const ESCAPED = '\u0001';

/** A text as PostgreSQL takes it: those with NUL characters or half surrogate pairs are escaped. */
export function encodeText(text: string): string {
  return isBindable(text) && !text.startsWith(ESCAPED) ? text : ESCAPED + JSON.stringify(text);
}

export function decodeText(stored: string): string {
  return stored.startsWith(ESCAPED) ? (JSON.parse(stored.slice(1)) as string) : stored;
}

/** References as hexadecimal text, which is how they travel; `null` if there are none. */
export function encodeRefs(refs: readonly Digest[]): string | null {
  return refs.length === 0 ? null : refs.join('');
}

export function decodeRefs(hex: string | null): Digest[] {
  return hex === null ? [] : splitDigests(hex);
}

/** The number that PostgreSQL gave to the type `text`. */
const TEXT_TYPE = 25;
const ARRAY_HEADER_BYTES = 20;

/** A `text[]` in the server's binary form. As a literal, `pg` would escape every quote of a text, and the server would undo that. */
export function encodeTexts(texts: readonly (string | null)[]): Buffer {
  const sizes = texts.map((text) => (text === null ? 0 : Buffer.byteLength(text)));
  const buffer = Buffer.allocUnsafe(sizes.reduce((sum, size) => sum + 4 + size, ARRAY_HEADER_BYTES));
  const header = [1, texts.includes(null) ? 1 : 0, TEXT_TYPE, texts.length, 1]; // dimensions, whether some are null, type, length, first index
  let at = header.reduce((offset, value) => buffer.writeInt32BE(value, offset), 0);
  for (const [index, text] of texts.entries()) {
    at = buffer.writeInt32BE(text === null ? -1 : (sizes[index] ?? 0), at);
    if (text !== null) at += buffer.write(text, at);
  }
  return buffer;
}
