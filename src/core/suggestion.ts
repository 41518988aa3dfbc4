/** Comparing takes the square of this; nobody mistypes a longer word. */
const MAX_WORD_CHARS = 200;

/** The known word that was probably meant; undefined if none is near, or within `slips` of it. Case and separators do not count. */
export function suggest(word: string, known: Iterable<string>, slips?: number): string | undefined {
  if (word.length > MAX_WORD_CHARS) return undefined;
  const given = simplify(word);
  let best: string | undefined;
  let bestDistance = (slips ?? farthest(given.length)) + 1;
  for (const candidate of known) {
    const simple = simplify(candidate);
    if (Math.abs(simple.length - given.length) >= bestDistance) continue;
    const distance = editDistance(given, simple);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best ?? onlyLonger(given, known);
}

/** The one that goes on after the word, as `ttlMs` after `ttl`. */
function onlyLonger(given: string, known: Iterable<string>): string | undefined {
  if (given.length < 3) return undefined;
  const [first, ...others] = [...known].filter((candidate) => simplify(candidate).startsWith(given));
  return others.length === 0 ? first : undefined;
}

/** ` Did you mean "x"?`, or nothing. */
export function formatSuggestion(suggestion: string | undefined): string {
  return suggestion === undefined ? '' : ` Did you mean "${suggestion}"?`;
}

function simplify(word: string): string {
  return word.toLowerCase().replaceAll(/[\s._-]/g, '');
}

/** In a short word a few changes make any other word. */
function farthest(length: number): number {
  return length < 4 ? Math.max(0, length - 2) : Math.max(2, Math.floor(length / 3));
}

/** How many characters must be added, removed, changed or swapped with their neighbour. */
function editDistance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, at) => at)];
  const at = (i: number, j: number): number => rows[i]?.[j] ?? Number.POSITIVE_INFINITY;
  for (let i = 1; i <= a.length; i++) {
    rows.push([i]);
    for (let j = 1; j <= b.length; j++) {
      const change = a[i - 1] === b[j - 1] ? 0 : 1;
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swap = isSwap ? at(i - 2, j - 2) + 1 : Number.POSITIVE_INFINITY;
      rows[i]?.push(Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + change, swap));
    }
  }
  return at(a.length, b.length);
}
