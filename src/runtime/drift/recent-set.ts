/**
 * A set of positive 31-bit hashes in a table of fixed size: what is added overwrites what hashed to the same place, so that the
 * older a number, the likelier it is forgotten. Never claims to hold what it was not given.
 */
export class RecentSet {
  readonly #slots: Int32Array;
  readonly #mask: number;

  /** `slots` must be a power of two. */
  constructor(slots: number, numbers: Iterable<number> = []) {
    this.#slots = new Int32Array(slots);
    this.#mask = slots - 1;
    for (const number of numbers) this.add(number);
  }

  has(number: number): boolean {
    return this.#slots[number & this.#mask] === number;
  }

  add(number: number): void {
    this.#slots[number & this.#mask] = number;
  }

  /** The numbers, each in its place's order: a set made from them is the same. */
  toArray(): number[] {
    return Array.from(this.#slots).filter((number) => number !== 0);
  }
}
