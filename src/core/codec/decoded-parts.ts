import type { Digest } from '../tree/chunk.ts';
import type { ReadBudget, Totals } from './read-budget.ts';

/** What was decoded from a chunk: as what, how much it is, and in how many containers it was found to be not too deep. */
type Part = Totals & { readonly value: unknown; readonly as: string; readonly depth: number };

/** What is asked of parts: a chunk, what it stands for (a value, or a node of a tree), and in how many containers it is. */
type Asked = { readonly digest: Digest; readonly as: string; readonly depth: number };

/** Parts of states that were decoded, so that what many states share, or one holds many times, is read once. Keeps those used in two turns. */
export class DecodedParts {
  #now = new Map<Digest, Part>();
  #before = new Map<Digest, Part>();
  /** How much was decoded in this turn. */
  bytes = 0;

  /** Forgets what was not used in the last turn, and begins another. */
  turn(): void {
    [this.#before, this.#now] = [this.#now, new Map()];
    this.bytes = 0;
  }

  has(digest: Digest): boolean {
    return this.#now.has(digest) || this.#before.has(digest);
  }

  /** A part as it was decoded, counted again; decodes it if it was not, or not as deep. Whoever gets it does not change it. */
  take<Value>({ digest, as, depth }: Asked, budget: ReadBudget, decode: () => Value): Value {
    const known = this.#now.get(digest) ?? this.#before.get(digest);
    if (known !== undefined && known.as === as && depth <= known.depth) {
      this.#now.set(digest, known);
      budget.countAll(known);
      return known.value as Value;
    }
    const from = budget.totals;
    const value = decode();
    const { nodes, bytes } = budget.totals;
    this.#now.set(digest, { value, as, depth, nodes: nodes - from.nodes, bytes: bytes - from.bytes });
    this.bytes += bytes - from.bytes;
    return value;
  }
}
