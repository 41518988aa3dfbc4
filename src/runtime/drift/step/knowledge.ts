import { z } from 'zod';
import { mapValues } from '../../../core/map-values.ts';
import { hashText, learn, novelty, type ReadText, sketchText, type TextSketch } from './text-sketch.ts';

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

/** A text, and what of it was new to the run. */
type KnownText = {
  readonly sketch: TextSketch;
  /** The fraction of its runs of words that nobody had said before, 0 to 1. */
  readonly novelty: number;
  /** How many of its words were new: in a result to everyone, in anything else to those who speak. */
  readonly newWords: number;
};

/** Longer texts, and texts with spaces in them, are contents rather than names. */
const MAX_TARGET_CHARS = 200;

/** How much is remembered of what: about a hundred pages' worth. */
const SLOTS = {
  /** Runs of words. */
  runs: 8192,
  words: 8192,
  /** Words of tasks, messages and calls: what is said, not what is found. */
  spoken: 4096,
  /** What calls named, by tool. */
  targets: 2048,
  /** Words of tasks and plans. */
  planned: 2048,
} as const;
type Kind = keyof typeof SLOTS;

const { planned, ...required } = mapValues(SLOTS, recentSetState);

/** The plain data of what is known. */
export const knowledgeState = z.object({ ...required, planned: planned.optional() });

/** What has been said and seen in a run, by anyone; the older, the likelier it is forgotten. */
export class Knowledge {
  readonly #sets: Readonly<Record<Kind, RecentSet>>;

  constructor(state: { readonly [Name in Kind]?: RecentSetState | undefined } = {}) {
    this.#sets = mapValues(SLOTS, (slots, kind) => new RecentSet(slots, state[kind]));
  }

  /** Takes in what was said. */
  hear(text: string): KnownText {
    return this.#take(sketchText(text, { known: this.#sets.spoken, also: this.#sets.words }));
  }

  /** Takes in a task or a plan. */
  plan(text: string): KnownText {
    sketchText(text, { known: this.#sets.planned });
    return this.hear(text);
  }

  /** What part of a text's words no task and no plan has used, 0 to 1. */
  unplanned({ words }: TextSketch): number {
    return novelty(words, this.#sets.planned);
  }

  /** Takes in what a tool returned. */
  find(text: string): KnownText {
    return this.#take(sketchText(text, { known: this.#sets.words }));
  }

  /** Takes in what the parts of a call's input name (a file, a line, a key); returns whether some of it was never named to this tool for this job. */
  learnTargets(tool: string, leaves: readonly string[]): boolean {
    let isNew = false;
    for (const leaf of leaves) {
      if (leaf === '' || leaf.length > MAX_TARGET_CHARS || /\s/.test(leaf)) continue;
      const target = hashText(`${tool} ${leaf}`);
      isNew ||= !this.#sets.targets.has(target);
      this.#sets.targets.add(target);
    }
    return isNew;
  }

  snapshot(): z.infer<typeof knowledgeState> {
    return mapValues(this.#sets, (set) => set.snapshot());
  }

  #take({ sketch, runs, newWords }: ReadText): KnownText {
    const fresh = novelty(runs, this.#sets.runs);
    learn(runs, this.#sets.runs);
    return { sketch, novelty: fresh, newWords };
  }
}
