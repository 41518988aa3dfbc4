import type { ReadBudget, Totals } from './read-budget.ts';

/** What was decoded from a chunk: how much it is, and in how many containers it was found to be not too deep. */
type Part = Totals & { readonly value: unknown; readonly depth: number };

/**
 * Parts of states that were decoded, so that what many states share, or one holds many times, is read once. Keeps those of two states:
 * the one being read and the one before. Nothing of it may be handed out.
 */
export class DecodedParts {
  #now = new Map<string, Part>();
  #before = new Map<string, Part>();

  /** Another state begins. */
  turn(): void {
    [this.#before, this.#now] = [this.#now, new Map()];
  }

  /** A part as it was decoded, counted again; decodes it if it was not, or not as deep. The key says what it was decoded as. */
  take<Value>(place: { key: string; depth: number }, budget: ReadBudget, decode: () => Value): Value {
    const { key, depth } = place;
    const known = this.#now.get(key) ?? this.#before.get(key);
    if (known !== undefined && depth <= known.depth) {
      this.#now.set(key, known);
      budget.countAll(known);
      return known.value as Value;
    }
    const from = budget.totals;
    const value = decode();
    const to = budget.totals;
    this.#now.set(key, { value, depth, nodes: to.nodes - from.nodes, bytes: to.bytes - from.bytes });
    return value;
  }
}
