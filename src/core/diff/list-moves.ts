/**
 * An element that both arrays have at different places. The gaps say how many elements that stay come before it, in the
 * earlier array and in the later one.
 */
export type Mover = {
  readonly beforeIndex: number;
  readonly afterIndex: number;
  readonly beforeGap: number;
  readonly afterGap: number;
};

/** The indexes of one move, as of the moment it is made. `to` counts without the element itself, as RFC 6902 has it. */
export type PlacedMove<M extends Mover> = { readonly mover: M; readonly from: number; readonly to: number };

/**
 * Puts moves in an order and gives each its indexes. They are made from the front of the later array to its back, and each
 * element is put in front of those in its gap that still wait, so what is in place and what waits can be counted apart.
 */
export function placeMoves<M extends Mover>(movers: readonly M[]): PlacedMove<M>[] {
  const byBefore = movers.toSorted((a, b) => a.beforeIndex - b.beforeIndex);
  const byAfter = movers.toSorted((a, b) => a.afterIndex - b.afterIndex);
  const ranks = new Map(byBefore.map((mover, rank) => [mover, rank]));
  const waiting = new Counter(movers.length);
  return byAfter.map((mover, made) => {
    const rank = ranks.get(mover) ?? 0;
    waiting.remove(rank);
    const madeBefore = Math.min(
      made,
      countWhile(byAfter, (other) => other.afterGap <= mover.beforeGap),
    );
    const from = mover.beforeGap + madeBefore + waiting.countBelow(rank);
    const gapStart = countWhile(byBefore, (other) => other.beforeGap < mover.afterGap);
    return { mover, from, to: mover.afterGap + made + waiting.countBelow(gapStart) };
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
