import type { Digest } from '../tree/chunk.ts';
import type { ReadBudget, Totals } from './read-budget.ts';

/** What was decoded from a chunk: how much it is, and in how many containers it was found to be not too deep. */
type Part = Totals & { readonly value: unknown; readonly depth: number };

/** What is asked of parts: a chunk, what it stands for (a value, or a node of a tree), and in how many containers it is. */
type Asked = { readonly digest: Digest; readonly as: string; readonly depth: number };

/** What was used in one turn: parts by what they were decoded from and as, and the chunks among them. */
class Turn {
  readonly parts = new Map<string, Part>();
  readonly digests = new Set<Digest>();
}

/** Parts of states that were decoded, so that what many states share, or one holds many times, is read once. Keeps those used in two turns. */
export class DecodedParts {
  #now = new Turn();
  #before = new Turn();
  /** How much was decoded in this turn. */
  bytes = 0;

  /** Forgets what was not used in the last turn, and begins another. */
  turn(): void {
    [this.#before, this.#now] = [this.#now, new Turn()];
    this.bytes = 0;
  }

  has(digest: Digest): boolean {
    return this.#now.digests.has(digest) || this.#before.digests.has(digest);
  }

  /** A part as it was decoded, counted again; decodes it if it was not, or not as deep. Whoever gets it does not change it. */
  take<Value>({ digest, as, depth }: Asked, budget: ReadBudget, decode: () => Value): Value {
    const key = `${as} ${digest}`;
    const known = this.#now.parts.get(key) ?? this.#before.parts.get(key);
    if (known !== undefined && depth <= known.depth) {
      this.#keep(key, digest, known);
      budget.countAll(known);
      return known.value as Value;
    }
    const from = budget.totals;
    const value = decode();
    const to = budget.totals;
    const bytes = to.bytes - from.bytes;
    this.#keep(key, digest, { value, depth, nodes: to.nodes - from.nodes, bytes });
    this.bytes += bytes;
    return value;
  }

  #keep(key: string, digest: Digest, part: Part): void {
    this.#now.parts.set(key, part);
    this.#now.digests.add(digest);
  }
}
