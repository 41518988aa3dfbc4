import { z } from 'zod';

/** What a number takes in a list, with its comma. */
const CHARS_PER_NUMBER = 11;
/** A place tells the low bits of its number; the others fit into three bytes. */
const BYTES_PER_SLOT = 3;
const CHARS_PER_SLOT = 4;
const MAX_HASH = 2 ** 31 - 1;

/** The plain data of a set with so many slots: its numbers, or, once that is shorter, all its places as base64. */
export function recentSetState(slots: number) {
  const packed = z
    .string()
    .length(slots * CHARS_PER_SLOT)
    .regex(/^[A-Za-z0-9+/]*$/);
  return z.union([packed, z.array(z.int().min(0).max(MAX_HASH))]);
}
type RecentSetState = readonly number[] | string;

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
  snapshot(): number[] | string {
    const numbers = Array.from(this.#slots).filter((number) => number !== 0);
    const isFull = numbers.length * CHARS_PER_NUMBER > this.#slots.length * CHARS_PER_SLOT;
    return isFull ? pack(this.#slots) : numbers;
  }
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
