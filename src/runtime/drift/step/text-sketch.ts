import { z } from 'zod';

const BUCKETS = 64;
const EMPTY = -1;

/** What is kept of a text that is only compared for equality: hashes of its words in their order, with and without its numbers. */
export const textMark = z.object({
  wordCount: z.int().nonnegative(),
  hash: z.int().nonnegative(),
  frame: z.int().nonnegative(),
});
export type TextMark = z.infer<typeof textMark>;

/**
 * A text as 64 numbers: for each of 64 buckets the smallest hash of the text's parts that fall into it, or -1. Two texts
 * that share a part of their words share about that part of their buckets (one-permutation MinHash), so comparing costs
 * the same for a line as for a page.
 */
const sketch = z.array(z.int().min(EMPTY)).length(BUCKETS);
type Sketch = readonly number[];

/** What is kept of a text instead of the text. `words` is over single words: how alike two texts are, whatever the order. */
export const textSketch = textMark.extend({ words: sketch });
export type TextSketch = z.infer<typeof textSketch>;

/** A text as just read: its sketch, and what is only looked at once. */
export type ReadText = {
  readonly sketch: TextSketch;
  /** Over runs of three words: what is new in a text. */
  readonly runs: Sketch;
  /** How many different words of it were not known before. */
  readonly newWords: number;
};

const NO_PARTS: readonly number[] = Array.from({ length: BUCKETS }, () => EMPTY);
/** Longer texts are read at both ends: what an agent repeats shows there, and a page of output must not cost more than a step. */
const MAX_HEAD_CHARS = 3000;
const MAX_TAIL_CHARS = 1000;
/** What lies between them is only compared for equality, up to here. */
const MAX_SKIMMED_CHARS = 100_000;

/** Where the words of a text are looked up and kept: new is what the first does not hold. */
type WordMemory = { readonly known: WordSet; readonly also?: WordSet };
type WordSet = { has(word: number): boolean; add(word: number): void };

/** Reads a text once into its sketch, and its words into a memory. */
export function sketchText(text: string, memory?: WordMemory): ReadText {
  const reader = new SketchReader(memory);
  if (text.length <= MAX_HEAD_CHARS + MAX_TAIL_CHARS) {
    reader.read(text, 0, text.length);
  } else {
    reader.read(text, 0, MAX_HEAD_CHARS);
    reader.skim(text, MAX_HEAD_CHARS, Math.min(MAX_SKIMMED_CHARS, text.length - MAX_TAIL_CHARS));
    reader.read(text, text.length - MAX_TAIL_CHARS, text.length);
    reader.read(String(text.length), 0, String(text.length).length);
  }
  return reader.finish();
}

/** A short text as one number. */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return mix(hash);
}

/** How much of two texts is the same, 0 to 1; two empty texts are the same. */
export function resemblance(a: Sketch, b: Sketch): number {
  let shared = 0;
  let used = 0;
  for (let at = 0; at < BUCKETS; at++) {
    const left = a[at] ?? EMPTY;
    const right = b[at] ?? EMPTY;
    if (left === EMPTY && right === EMPTY) continue;
    used++;
    if (left === right) shared++;
  }
  return used === 0 ? 1 : shared / used;
}

/** How many parts a sketch holds: at most how many different words the text has. */
export function partCount(sketch: Sketch): number {
  let count = 0;
  for (const part of sketch) if (part !== EMPTY) count++;
  return count;
}

/** Adds all parts of a text to what is known. */
export function learn(sketch: Sketch, known: { add(part: number): void }): void {
  for (const part of sketch) if (part !== EMPTY) known.add(part);
}

/** What fraction of a text's runs is not in `known`, 0 to 1; an empty text is not new. */
export function novelty(sketch: Sketch, known: { has(part: number): boolean }): number {
  let used = 0;
  let fresh = 0;
  for (const part of sketch) {
    if (part === EMPTY) continue;
    used++;
    if (!known.has(part)) fresh++;
  }
  return used === 0 ? 0 : fresh / used;
}

class SketchReader {
  readonly #words: number[] = NO_PARTS.slice();
  readonly #runs: number[] = NO_PARTS.slice();
  #previous = 0;
  #beforePrevious = 0;
  #count = 0;
  #all = 0x811c9dc5;
  #frame = 0x811c9dc5;
  #newWords = 0;
  readonly #known: WordSet | undefined;
  readonly #also: WordSet | undefined;

  constructor(memory: WordMemory | undefined) {
    this.#known = memory?.known;
    this.#also = memory?.also;
  }

  read(text: string, from: number, to: number): void {
    let word = 0;
    let isNumber = false;
    for (let at = from; at < to; at++) {
      const code = lowerCode(text.charCodeAt(at));
      if (isWordCode(code)) {
        // "40", "53s" and "07z" are numbers, "iteration13" is a name.
        if (word === 0) isNumber = isDigit(code);
        word = Math.imul((word === 0 ? 0x811c9dc5 : word) ^ code, 0x01000193);
        if (code < IDEOGRAPHS) continue;
      }
      if (word !== 0) this.#add(word, isNumber);
      word = 0;
    }
    if (word !== 0) this.#add(word, isNumber);
  }

  /** Takes a part of the text into the hashes alone. */
  skim(text: string, from: number, to: number): void {
    for (let at = from; at < to; at++) {
      const code = text.charCodeAt(at);
      this.#all = Math.imul(this.#all ^ code, 0x01000193);
      if (!isDigit(code)) this.#frame = Math.imul(this.#frame ^ code, 0x01000193);
    }
  }

  finish(): ReadText {
    const sketch = { words: this.#words, wordCount: this.#count, hash: mix(this.#all), frame: mix(this.#frame) };
    return { sketch, runs: this.#runs, newWords: this.#newWords };
  }

  #add(word: number, isNumber: boolean): void {
    const hash = mix(word);
    if (!isNumber) this.#frame = Math.imul(this.#frame ^ hash, 0x01000193);
    if (this.#known?.has(hash) === false) {
      this.#newWords++;
      this.#known.add(hash);
    }
    this.#also?.add(hash);
    keepSmallest(this.#words, hash);
    const run = mix(hash ^ Math.imul(this.#previous, 31) ^ Math.imul(this.#beforePrevious, 131));
    keepSmallest(this.#runs, run);
    this.#beforePrevious = this.#previous;
    this.#previous = hash;
    this.#all = Math.imul(this.#all ^ hash, 0x01000193);
    this.#count++;
  }
}

function keepSmallest(buckets: number[], hash: number): void {
  const bucket = hash % BUCKETS;
  const kept = buckets[bucket] ?? EMPTY;
  if (kept === EMPTY || hash < kept) buckets[bucket] = hash;
}

/** From here on a character is a word of its own: scripts written without spaces. Below, from 0x2000, lie signs and boxes. */
const IDEOGRAPHS = 0x2e80;

function isWordCode(code: number): boolean {
  if (code < 128) return (code >= 97 && code <= 122) || (code >= 48 && code <= 57) || code === 95;
  return code > 0xbf && !(code >= 0x2000 && code < IDEOGRAPHS);
}

/** Letters become small, and digits of other scripts (Arabic, Persian, Devanagari, full width) those of ASCII. */
function lowerCode(code: number): number {
  if (code >= 65 && code <= 90) return code + 32;
  const zero = code < 0x660 ? undefined : ZEROS.find((first) => code >= first && code <= first + 9);
  return zero === undefined ? code : code - zero + 48;
}

const ZEROS = [0x660, 0x6f0, 0x966, 0xff10];

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** Spreads a hash over all its bits (the end of MurmurHash3), as a number from 0 to 2^31 - 1, which engines keep unboxed. */
function mix(hash: number): number {
  let mixed = hash | 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 1;
}
