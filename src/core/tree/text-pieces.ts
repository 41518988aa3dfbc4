import { PIECE_MASK, PIECE_MAX_CHARS, PIECE_MIN_CHARS } from '../value/format.ts';

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

/**
 * Cuts a long text into pieces whose ends depend on the last 32 characters before them, so that an edit changes the
 * pieces around it and no others.
 */
export function cutText(text: string): string[] {
  const pieces: string[] = [];
  let start = 0;
  while (start < text.length) {
    const end = findPieceEnd(text, start);
    pieces.push(text.slice(start, end));
    start = end;
  }
  return pieces;
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
