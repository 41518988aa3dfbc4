/** A run of elements that both sequences have. */
export type Match = { readonly before: number; readonly after: number; readonly length: number };

type Range = { readonly before: readonly [number, number]; readonly after: readonly [number, number] };

/** Above this many insertions and deletions the shortest script costs too much to find: its cost grows with the square. */
const MAX_EDITS = 256;

/** How often a range is split at elements that occur once; what is left then is taken as different. */
const MAX_SPLITS = 12;

/**
 * Finds what two sequences have in common, in order: the shortest edit script (Myers) if it is short, else a split at the
 * elements that occur once on each side (patience). Cost is near linear for any input; elements may stay unmatched.
 */
export function align(before: readonly string[], after: readonly string[]): Match[] {
  const aligner = new Aligner(before, after);
  aligner.align({ before: [0, before.length], after: [0, after.length] }, 0);
  return aligner.matches;
}

class Aligner {
  readonly matches: Match[] = [];
  readonly #before: readonly string[];
  readonly #after: readonly string[];

  constructor(before: readonly string[], after: readonly string[]) {
    this.#before = before;
    this.#after = after;
  }

  align(range: Range, splits: number): void {
    const [b, bEnd] = range.before;
    const [a, aEnd] = range.after;
    const limit = Math.min(bEnd - b, aEnd - a);
    let front = 0;
    while (front < limit && this.#before[b + front] === this.#after[a + front]) front++;
    let back = 0;
    while (back < limit - front && this.#before[bEnd - 1 - back] === this.#after[aEnd - 1 - back]) back++;
    this.#add(b, a, front);
    if (front + back < limit)
      this.#alignMiddle({ before: [b + front, bEnd - back], after: [a + front, aEnd - back] }, splits);
    this.#add(bEnd - back, aEnd - back, back);
  }

  #add(before: number, after: number, length: number): void {
    if (length > 0) this.matches.push({ before, after, length });
  }

  #alignMiddle(range: Range, splits: number): void {
    const trace = this.#trace(range);
    if (trace !== undefined) this.#follow(trace, range);
    else if (splits < MAX_SPLITS) this.#split(range, splits);
  }

  /** How far each diagonal reaches after 0, 1, 2... edits (Myers 1986); undefined if there are too many. */
  #trace({ before: [b, bEnd], after: [a, aEnd] }: Range): Int32Array[] | undefined {
    const limit = Math.min(bEnd - b + aEnd - a, MAX_EDITS);
    const trace: Int32Array[] = [];
    let last = ORIGIN;
    for (let edits = 0; edits <= limit; edits++) {
      const reach = new Int32Array(2 * edits + 3); // diagonal k is at index k + edits + 1
      trace.push(reach);
      for (let k = -edits; k <= edits; k += 2) {
        let x = b + firstStep(last, edits, k);
        let y = a + x - b - k;
        while (x < bEnd && y < aEnd && this.#before[x] === this.#after[y]) {
          x++;
          y++;
        }
        reach[k + edits + 1] = x - b;
        if (x >= bEnd && y >= aEnd) return trace;
      }
      last = reach;
    }
    return undefined;
  }

  /** Walks the trace back from its end and notes the equal runs. */
  #follow(trace: readonly Int32Array[], { before: [b, bEnd], after: [a, aEnd] }: Range): void {
    const found: Match[] = [];
    let x = bEnd - b;
    let k = x - (aEnd - a);
    for (let edits = trace.length - 1; edits >= 0; edits--) {
      const last = trace[edits - 1] ?? ORIGIN;
      const start = firstStep(last, edits, k);
      if (x > start) found.push({ before: b + start, after: a + start - k, length: x - start });
      const isDown = isInsertion(last, edits, k);
      x = isDown ? start : start - 1;
      k = isDown ? k + 1 : k - 1;
    }
    this.matches.push(...found.reverse());
  }

  /** Anchors the range at elements that occur once on each side, and aligns what lies between them. */
  #split(range: Range, splits: number): void {
    const anchors = this.#anchors(range);
    let [b] = range.before;
    let [a] = range.after;
    if (anchors.length === 0) return;
    for (const [before, after] of anchors) {
      this.align({ before: [b, before], after: [a, after] }, splits + 1);
      this.#add(before, after, 1);
      b = before + 1;
      a = after + 1;
    }
    this.align({ before: [b, range.before[1]], after: [a, range.after[1]] }, splits + 1);
  }

  #anchors(range: Range): [number, number][] {
    const before = findUnique(this.#before, range.before);
    const after = findUnique(this.#after, range.after);
    const shared: [number, number][] = [];
    for (const [element, at] of before) {
      const other = after.get(element);
      if (at >= 0 && other !== undefined && other >= 0) shared.push([at, other]);
    }
    return findIncreasing(shared.map(([, at]) => at)).map((index) => shared[index] as [number, number]);
  }
}

const ORIGIN = new Int32Array(3);

function isInsertion(last: Int32Array, edits: number, k: number): boolean {
  return k === -edits || (k !== edits && reachAt(last, edits, k - 1) < reachAt(last, edits, k + 1));
}

/** Where diagonal `k` starts after one more edit than `last` has. */
function firstStep(last: Int32Array, edits: number, k: number): number {
  if (edits === 0) return 0;
  return isInsertion(last, edits, k) ? reachAt(last, edits, k + 1) : reachAt(last, edits, k - 1) + 1;
}

/** What the step before, which had one edit less, reached on diagonal `k`. */
function reachAt(last: Int32Array, edits: number, k: number): number {
  return last[k + edits] as number;
}

/** The place of each element, or -1 if it occurs more than once. */
function findUnique(elements: readonly string[], [from, to]: readonly [number, number]): Map<string, number> {
  const places = new Map<string, number>();
  for (let at = from; at < to; at++) {
    const element = elements[at] as string;
    places.set(element, places.has(element) ? -1 : at);
  }
  return places;
}

/** The indexes of a longest increasing subsequence. */
export function findIncreasing(values: readonly number[]): number[] {
  const tails: number[] = [];
  const previous: number[] = [];
  values.forEach((value, index) => {
    let low = 0;
    let high = tails.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((values[tails[middle] as number] as number) < value) low = middle + 1;
      else high = middle;
    }
    previous[index] = tails[low - 1] ?? -1;
    tails[low] = index;
  });
  const found: number[] = [];
  for (let at = tails.at(-1) ?? -1; at >= 0; at = previous[at] as number) found.push(at);
  return found.reverse();
}
