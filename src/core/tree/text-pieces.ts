import { BYTES_PIECE_BYTES, PIECE_MASK, PIECE_MAX_CHARS, PIECE_MIN_CHARS } from '../value/format.ts';

/** 256 well-mixed 32-bit numbers, the same on every machine: part of the format. */
const GEAR = createGear();

function createGear(): Int32Array {
  const gear = new Int32Array(256);
  let state = 0x9e3779b9 | 0;
  for (let i = 0; i < gear.length; i++) {
    state = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    state = Math.imul(state ^ (state >>> 15), 0x735a2d97);
    state = (state ^ (state >>> 15)) + 0x9e3779b9;
    gear[i] = state | 0;
  }
  return gear;
}

/** Where the pieces of a text or of bytes end, and how many of them are those of the one before at both ends. */
export type Pieces = {
  readonly ends: readonly number[];
  readonly prefix: number;
  readonly suffix: number;
};

/** A text that was cut before. */
export type CutBefore<Whole> = { readonly whole: Whole; readonly ends: readonly number[] };

/**
 * Cuts a long text into pieces whose ends depend on the last 32 characters before them, so that an edit changes the
 * pieces around it and no others. Cuts only there, if it is told how another text was cut.
 */
export function cutText(text: string, before: CutBefore<string> = { whole: '', ends: [] }): Pieces {
  const same = commonEnds(text, before.whole);
  const prefix = countWithin(before.ends, same.prefix);
  const ends = before.ends.slice(0, prefix);
  const shift = text.length - before.whole.length;
  let next = prefix;
  for (let at = ends.at(-1) ?? 0; at < text.length; ) {
    at = findPieceEnd(text, at);
    ends.push(at);
    while (next < before.ends.length && (before.ends[next] as number) + shift < at) next++;
    const isBack = before.ends[next] === at - shift && text.length - at <= same.suffix;
    if (!isBack) continue;
    for (const end of before.ends.slice(next + 1)) ends.push(end + shift);
    return { ends, prefix, suffix: before.ends.length - next - 1 };
  }
  return { ends, prefix, suffix: 0 };
}

/** How many pieces end within the first characters. The last piece ends with its text, and would go on in a longer one. */
function countWithin(ends: readonly number[], chars: number): number {
  let count = 0;
  while (count < ends.length - 1 && (ends[count] as number) <= chars) count++;
  return count;
}

/** Texts are compared in stretches of this length, which needs no loop of ours. */
const STRETCH_CHARS = 65_536;

/** How many characters are the same at both ends; at least so many, in whole stretches. */
export function commonEnds(a: string, b: string): { prefix: number; suffix: number } {
  const most = Math.min(a.length, b.length);
  const isSame = (from: number, shift: number) =>
    a.slice(from, from + STRETCH_CHARS) === b.slice(from + shift, from + shift + STRETCH_CHARS);
  let prefix = 0;
  while (prefix + STRETCH_CHARS <= most && isSame(prefix, 0)) prefix += STRETCH_CHARS;
  let suffix = 0;
  while (prefix + suffix + STRETCH_CHARS <= most && isSame(a.length - suffix - STRETCH_CHARS, b.length - a.length))
    suffix += STRETCH_CHARS;
  return { prefix, suffix };
}

function findPieceEnd(text: string, start: number): number {
  const limit = Math.min(text.length, start + PIECE_MAX_CHARS);
  let hash = 0;
  for (let at = start + PIECE_MIN_CHARS - 32; at < limit; at++) {
    hash = ((hash << 1) + (GEAR[text.charCodeAt(at) & 255] ?? 0)) | 0;
    if ((hash & PIECE_MASK) === 0 && at - start >= PIECE_MIN_CHARS) return at + 1;
  }
  return limit;
}

/** Cuts bytes into pieces of the same size. */
export function cutBytes(bytes: Uint8Array, before: CutBefore<Uint8Array> = { whole: NO_BYTES, ends: [] }): Pieces {
  const ends: number[] = [];
  for (let at = BYTES_PIECE_BYTES; at < bytes.length; at += BYTES_PIECE_BYTES) ends.push(at);
  ends.push(bytes.length);
  const isSame = (piece: number) => {
    const [from, to] = [piece * BYTES_PIECE_BYTES, ends[piece] as number];
    return to === before.ends[piece] && Buffer.compare(bytes.subarray(from, to), before.whole.subarray(from, to)) === 0;
  };
  let prefix = 0;
  while (prefix < ends.length && isSame(prefix)) prefix++;
  return { ends, prefix, suffix: 0 };
}

const NO_BYTES = new Uint8Array();
