/** The place of an element in an array, and how many elements that stay come before it. */
type Place = { readonly index: number; readonly gap: number };

/** An element that both arrays have at different places. */
export type Mover = readonly [before: Place, after: Place];

/** The indexes of one move, as of the moment it is made. `to` counts without the element itself, as RFC 6902 has it. */
type PlacedMove<M extends Mover> = { readonly mover: M; readonly from: number; readonly to: number };

/**
 * Puts moves in an order and gives each its indexes. They are made from the front of the later array to its back, and each
 * element is put in front of those in its gap that still wait, so what is in place and what waits can be counted apart.
 */
export function placeMoves<M extends Mover>(movers: readonly M[]): PlacedMove<M>[] {
  const byBefore = movers.toSorted(([a], [b]) => a.index - b.index);
  const byAfter = movers.toSorted(([, a], [, b]) => a.index - b.index);
  const ranks = new Map(byBefore.map((mover, rank) => [mover, rank]));
  const waiting = new Counter(movers.length);
  return byAfter.map((mover, made) => {
    const [before, after] = mover;
    const rank = ranks.get(mover) ?? 0;
    waiting.remove(rank);
    const behind = countWhile(byAfter, ([, other]) => other.gap <= before.gap);
    const from = before.gap + Math.min(made, behind) + waiting.countBelow(rank);
    const gapStart = countWhile(byBefore, ([other]) => other.gap < after.gap);
    return { mover, from, to: after.gap + made + waiting.countBelow(gapStart) };
  });
}

/** How many movers from the front satisfy a condition that holds up to some place and not after it. */
function countWhile(movers: readonly Mover[], holds: (mover: Mover) => boolean): number {
  let low = 0;
  let high = movers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(movers[middle] as Mover)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Counts which of n places are still taken (a Fenwick tree). */
class Counter {
  readonly #sums: Int32Array;

  constructor(length: number) {
    this.#sums = new Int32Array(length + 1);
    for (let at = 1; at <= length; at++) this.#sums[at] = at & -at;
  }

  remove(place: number): void {
    for (let at = place + 1; at < this.#sums.length; at += at & -at) this.#sums[at] = (this.#sums[at] as number) - 1;
  }

  countBelow(place: number): number {
    let count = 0;
    for (let at = place; at > 0; at -= at & -at) count += this.#sums[at] as number;
    return count;
  }
}
