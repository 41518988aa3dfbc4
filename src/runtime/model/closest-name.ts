/** The one of some names that was probably meant, if any is near enough. Separators and case do not count. */
export function closestName(name: string, names: readonly string[]): string | undefined {
  const given = simplify(name);
  const [best] = names
    .map((candidate) => ({ candidate, distance: distance(given, simplify(candidate)) }))
    .filter((near) => near.distance <= Math.max(1, Math.floor(given.length / 3)))
    .sort((a, b) => a.distance - b.distance);
  return best?.candidate;
}

function simplify(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
}

/** How many letters must be put in, taken out or changed. */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (const [at, letter] of [...from].entries()) {
    const next = [at + 1];
    for (let column = 1; column <= to.length; column++) {
      const changed = (row[column - 1] ?? 0) + (letter === to[column - 1] ? 0 : 1);
      next.push(Math.min(changed, (row[column] ?? 0) + 1, (next[column - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
