import { digestText } from '../../core/tree/chunk.ts';

const MAX_CHARS = 200;
const PLAIN = /^[a-z0-9_-]$/;

/**
 * The folder name of a session: `s-` and the id with everything but `a-z 0-9 _ -` percent-encoded, or `h-` and the digest of
 * that if it is long. So no id is a path or a device name, and ids that differ only in case differ also where case is ignored.
 */
export function encodeSessionId(sessionId: string): string {
  const encoded = Array.from(sessionId, encodeCharacter).join('');
  return encoded.length <= MAX_CHARS ? `s-${encoded}` : `h-${digestText(encoded)}`;
}

function encodeCharacter(character: string): string {
  if (PLAIN.test(character)) return character;
  const first = character.charCodeAt(0);
  // A lone surrogate has no UTF-8 form; it gets one of its own, so that two of them stay two.
  if (character.length === 1 && first >= 0xd800 && first <= 0xdfff) return `%u${first.toString(16)}`;
  return Array.from(Buffer.from(character), (byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
}
