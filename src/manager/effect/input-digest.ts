import type { StateCodec } from '../../core/codec/state-codec.ts';
import { digestText } from '../../core/tree/chunk.ts';

/**
 * What the input of a step is known by: the digest of its stored form, which is without secrets, then a mark for each
 * secret that was left out, `<digest>~<mark>.<mark>`. Older versions wrote no marks.
 */
export type InputDigest = string;

/** A mark tells two secrets apart and proves no guess: many others have the same. A secret that can be guessed gets less of one. */
const MARK_CHARS = { short: 2, long: 4 };
const LONG_SECRET_CHARS = 16;

/** More secrets than these are not marked. It is the last, because the first may come from a restored state and be left out. */
const MAX_MARKS = 64;

/** Digests the input of a step; throws if it cannot be saved. */
export function digestInput(codec: StateCodec, input: unknown): InputDigest {
  const { digest, secrets } = codec.digest(input);
  return secrets.length === 0 ? digest : `${digest}~${secrets.slice(-MAX_MARKS).map(markOf).join('.')}`;
}

/** The same for a secret everywhere: salted, each use of a secret would tell more of it. */
function markOf(secret: string): string {
  const chars = secret.length < LONG_SECRET_CHARS ? MARK_CHARS.short : MARK_CHARS.long;
  return digestText(`secret in an input ${secret}`).slice(0, chars);
}

/**
 * Whether two inputs count as one. Where secrets were left out of one of them, because it comes from a restored state or an
 * older version recorded it, those that are left decide.
 */
export function isSameInput(one: InputDigest, other: InputDigest): boolean {
  if (one === other) return true;
  if (withoutMarks(one) !== withoutMarks(other)) return false;
  const [fewer, more] = [marksOf(one), marksOf(other)].toSorted((a, b) => a.length - b.length) as [string[], string[]];
  if (fewer.length === more.length) return false;
  let at = 0;
  for (const mark of more) if (mark === fewer[at]) at++;
  return at === fewer.length;
}

/** The digest of the stored form. */
export function withoutMarks(digest: InputDigest): string {
  return digest.split('~', 1)[0] ?? '';
}

function marksOf(digest: InputDigest): string[] {
  return digest.split('~')[1]?.split('.') ?? [];
}
