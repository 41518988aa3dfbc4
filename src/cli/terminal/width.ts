import { createRequire } from 'node:module';
import { ESCAPE } from './style.ts';

/** Characters that take a column each: those of Latin scripts, punctuation, arrows and blocks; no soft hyphen, no mark. */
const NARROW = /^[\x20-\x7e\xa0-\xac\xae-\u02ff\u2010-\u2027\u2190-\u2193\u2500-\u25a0\u25cb\u25cf]*$/;
const COLORS = new RegExp(`${ESCAPE}\\[[\\d;]*m`, 'g');

let measure: ((text: string) => number) | undefined;
let segmenter: Intl.Segmenter | undefined;

/** How many columns of a screen a text takes; colours take none. */
export function widthOf(text: string): number {
  const plain = text.includes(ESCAPE) ? text.replaceAll(COLORS, '') : text;
  if (NARROW.test(plain)) return plain.length;
  // Loading it takes as long as the rest of a command, and few need it.
  measure ??= (createRequire(import.meta.url)('string-width') as typeof import('string-width')).default;
  return measure(text);
}

/** A text as the characters people see. */
export function* charactersOf(text: string): Iterable<string> {
  if (NARROW.test(text)) return yield* text;
  segmenter ??= new Intl.Segmenter();
  for (const { segment } of segmenter.segment(text)) yield segment;
}
