/** A set of ASCII characters, as a table: one lookup per character, where an expression would cost a call. */
export type CharSet = Uint8Array;

export function charSet(chars: string): CharSet {
  const set = new Uint8Array(128);
  for (const char of chars) set[char.charCodeAt(0)] = 1;
  return set;
}

/** The start of the longest stretch of such characters that ends at `end`, no more than `max` before it. */
export function skipBack(text: string, end: number, { chars, max }: { chars: CharSet; max: number }): number {
  const floor = Math.max(0, end - max);
  let start = end;
  while (start > floor && chars[text.charCodeAt(start - 1)] === 1) start--;
  return start;
}
