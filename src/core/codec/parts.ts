import type { Digest } from '../tree/chunk.ts';
import type { ClassCodecs } from '../value/class-codec.ts';
import type { ReadBudget, Totals } from './read-budget.ts';

/** What is in a container: its elements, or the values of an object with their keys. Of a map keys and values alternate. */
export type Content = { readonly kind: string; readonly keys: readonly string[]; readonly values: readonly unknown[] };

/** What is in a container, as far as it was read. */
export type Elements = { readonly kind: string; readonly keys: string[]; readonly values: unknown[] };

export function append(into: Elements, { keys, values }: Content): void {
  for (const key of keys) into.keys.push(key);
  for (const value of values) into.values.push(value);
}

/** How many elements. */
export function countIn({ kind, values }: Content): number {
  return kind === 'Map' ? values.length / 2 : values.length;
}

/** A chunk that is asked for, and in how many containers it is. */
export type PartPlace = {
  readonly digest: Digest;
  /** What it stands for: a `value`, or a node of this height of a tree of this kind. */
  readonly kind: string;
  readonly height: number;
  readonly depth: number;
  readonly codecs: ClassCodecs;
  /** Whether it is told apart by what it is, as elements of sets and keys of maps are, so that it must not be shared. */
  readonly isDistinct: boolean;
};

/** Parts of states that need not be decoded, because they were before. */
export interface Parts {
  /** The value, or the content of the node; decodes it if it is not at hand. */
  take<Decoded>(place: PartPlace, budget: ReadBudget, decode: () => Decoded): Decoded;
}

/** What was decoded from a chunk: how much it is, and in how many containers it was found to be not too deep. */
type Part = Totals & { readonly decoded: unknown; readonly depth: number };

/** What was used in one turn: parts by what they were decoded from and as, and the chunks among them. */
class Turn {
  readonly parts = new Map<string, Part>();
  readonly digests = new Set<Digest>();
}

/**
 * Remembers what was decoded, so that what many states share, or one holds many times, is read once. Keeps what was used in two turns.
 * What it gives out is shared: nobody may change it.
 */
export class DecodedParts implements Parts {
  readonly #turnBytes: number;
  #now = new Turn();
  #before = new Turn();
  /** How much was decoded in this turn. */
  #bytes = 0;

  /** A turn ends after so many bytes, or when it is said. */
  constructor(turnBytes = Number.POSITIVE_INFINITY) {
    this.#turnBytes = turnBytes;
  }

  /** Forgets what was not used in the last turn, and begins another. */
  turn(): void {
    [this.#before, this.#now] = [this.#now, new Turn()];
    this.#bytes = 0;
  }

  get isEmpty(): boolean {
    return this.#now.parts.size + this.#before.parts.size === 0;
  }

  has(digest: Digest): boolean {
    return this.#now.digests.has(digest) || this.#before.digests.has(digest);
  }

  /** A part as it was decoded, counted again; decodes it if it was not, or not as deep. */
  take<Decoded>(
    { digest, kind, height, depth, isDistinct }: PartPlace,
    budget: ReadBudget,
    decode: () => Decoded,
  ): Decoded {
    if (isDistinct) return decode();
    const key = `${kind} ${height} ${digest}`;
    const known = this.#now.parts.get(key) ?? this.#before.parts.get(key);
    if (known !== undefined && depth <= known.depth) {
      this.#keep(key, digest, known);
      budget.countAll(known);
      return known.decoded as Decoded;
    }
    if (this.#bytes > this.#turnBytes) this.turn();
    const before = this.#bytes;
    const from = budget.totals;
    const decoded = decode();
    const to = budget.totals;
    const bytes = to.bytes - from.bytes;
    this.#keep(key, digest, { decoded, depth, nodes: to.nodes - from.nodes, bytes });
    this.#bytes = before + bytes; // with all parts inside, which were added on the way
    return decoded;
  }

  #keep(key: string, digest: Digest, part: Part): void {
    this.#now.parts.set(key, part);
    this.#now.digests.add(digest);
  }
}
