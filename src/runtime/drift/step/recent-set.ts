/** The plain data of a set: its numbers, or, once that is shorter, all its places as base64. */
export type RecentSetState = readonly number[] | string;

/** What a number takes in a list, with its comma. */
const CHARS_PER_NUMBER = 11;
/** A place tells the low bits of its number; the others fit into three bytes. */
const BYTES_PER_SLOT = 3;
const CHARS_PER_SLOT = 4;
const MAX_HASH = 2 ** 31 - 1;

/**
 * A set of positive 31-bit hashes in a table of fixed size: what is added overwrites what hashed to the same place, so that the
 * older a number, the likelier it is forgotten. Never claims to hold what it was not given.
 */
export class RecentSet {
  readonly #slots: Int32Array;
  readonly #mask: number;

  /** `slots` must be a power of two, from 2^8 on. */
  constructor(slots: number, state: RecentSetState = []) {
    this.#mask = slots - 1;
    this.#slots = typeof state === 'string' ? unpack(state, slots) : new Int32Array(slots);
    if (typeof state !== 'string') for (const number of state) this.add(number);
  }

  has(number: number): boolean {
    return this.#slots[number & this.#mask] === number;
  }

  add(number: number): void {
    this.#slots[number & this.#mask] = number;
  }

  /** What it holds: a set made from it is the same. */
  snapshot(): RecentSetState {
    const numbers = Array.from(this.#slots).filter((number) => number !== 0);
    const isFull = numbers.length * CHARS_PER_NUMBER > this.#slots.length * CHARS_PER_SLOT;
    return isFull ? pack(this.#slots) : numbers;
  }
}

/** Whether a value is the plain data of a set with so many slots. */
export function isRecentSetState(value: unknown, slots: number): value is RecentSetState {
  if (typeof value === 'string') return value.length === slots * CHARS_PER_SLOT && /^[A-Za-z0-9+/]*$/.test(value);
  return Array.isArray(value) && value.every((number) => Number.isInteger(number) && number >= 0 && number <= MAX_HASH);
}

function pack(slots: Int32Array): string {
  const bytes = Buffer.alloc(slots.length * BYTES_PER_SLOT);
  for (const [at, number] of slots.entries()) {
    // One more, so that 0 stays for an empty place.
    if (number !== 0) bytes.writeUIntLE(Math.floor(number / slots.length) + 1, at * BYTES_PER_SLOT, BYTES_PER_SLOT);
  }
  return bytes.toString('base64');
}

function unpack(packed: string, length: number): Int32Array {
  const bytes = Buffer.from(packed, 'base64');
  const slots = new Int32Array(length);
  for (let at = 0; at < length; at++) {
    const high = bytes.readUIntLE(at * BYTES_PER_SLOT, BYTES_PER_SLOT);
    if (high > 0) slots[at] = ((high - 1) * length + at) & MAX_HASH;
  }
  return slots;
}
