import { createHash } from 'node:crypto';

/**
 * A vector of length 1 that depends on the words of a text alone: texts that share words are near each other, and every run gives the
 * same. It knows nothing of meaning.
 */
export function hashedEmbedding(text: string, dimensions = 256): number[] {
  const vector = Array.from({ length: dimensions }, () => 0);
  for (const word of text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? ['']) {
    const digest = createHash('sha256').update(word).digest();
    const at = digest.readUInt32BE(0) % dimensions;
    vector[at] = (vector[at] ?? 0) + (digest.readUInt8(4) % 2 === 0 ? 1 : -1);
  }
  const length = Math.hypot(...vector) || 1;
  return vector.map((value) => value / length);
}
