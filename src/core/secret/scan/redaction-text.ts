/** A part of a text that is a secret, and the name of what gave it away. */
export type Span = { readonly start: number; readonly end: number; readonly name: string };

/** Joins spans that overlap, so that no part of any is left over. The first found names the whole. */
export function mergeSpans(spans: readonly Span[]): Span[] {
  const merged: Span[] = [];
  for (const span of spans.toSorted((a, b) => a.start - b.start)) {
    const last = merged.at(-1);
    if (last === undefined || span.start >= last.end) merged.push(span);
    else merged[merged.length - 1] = { ...last, end: Math.max(last.end, span.end) };
  }
  return merged;
}

/** The text with `[secret <name>]` in place of each span. Spans are in order and do not overlap. */
export function replaceSpans(text: string, spans: readonly Span[]): string {
  let replaced = '';
  let from = 0;
  for (const { start, end, name } of spans) {
    replaced += `${text.slice(from, start)}[secret ${name}]`;
    from = end;
  }
  return replaced + text.slice(from);
}

/** A set of ASCII characters, as a table: one lookup per character, where an expression would cost a call. */
type CharSet = Uint8Array;

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
