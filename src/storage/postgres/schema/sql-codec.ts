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
