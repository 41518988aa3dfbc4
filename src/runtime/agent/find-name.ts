/** The one name that an answer means: it is the whole answer, or the only one mentioned in it, in whatever case. */
export function findName(answer: string, names: readonly string[]): string | undefined {
  const text = answer.trim();
  const same = names.find((name) => name === text) ?? names.find((name) => isSame(name, text));
  if (same !== undefined) return same;
  const words = text.match(anyOf(names)) ?? [];
  const mentioned = names.filter((name) => words.some((word) => isSame(word, name)));
  return mentioned.length === 1 ? mentioned[0] : undefined;
}

function isSame(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
}

/** Longer names first: who says "solver-2" does not mean "solver". */
function anyOf(names: readonly string[]): RegExp {
  const escaped = names
    .toSorted((a, b) => b.length - a.length)
    .map((name) => name.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`));
  return new RegExp(`(?<![\\p{L}\\p{N}_])(?:${escaped.join('|')})(?![\\p{L}\\p{N}_])`, 'giu');
}
