import { type Digest, digestText } from '../core/chunk.ts';
import type { EffectRow } from './contract.ts';

/** Sixteen hexadecimal characters that change if any part of an effect does, its place too. */
export function effectCheck({ sessionId, branch, ordinal, digest, body, result }: EffectRow): string {
  return digestText(JSON.stringify([sessionId, branch, ordinal, digest, body, result?.text, result?.refs])).slice(
    0,
    16,
  );
}

/** The same for a tombstone, whose digest is that of the record it replaces. */
export function tombstoneCheck({ id, digest, body }: { id: string; digest: Digest; body: string }): string {
  return digestText(JSON.stringify([id, digest, body])).slice(0, 16);
}
