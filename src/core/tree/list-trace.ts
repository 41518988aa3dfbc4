import { type FieldTrace, isUntouchedBetween } from '../value/field-trace.ts';
import { Shadow } from './shadow.ts';

/**
 * The traces of the first elements of a list, one after the other. A save of a long conversation spends most of its time here, and
 * memory that is read from front to back costs least.
 */
export class ListTrace {
  readonly #cells: unknown[] = [];
  /** Where the trace of each element ends. */
  readonly #ends: number[] = [];

  get count(): number {
    return this.#ends.length;
  }

  push(trace: FieldTrace): void {
    for (const cell of trace) this.#cells.push(cell);
    this.#ends.push(this.#cells.length);
  }

  /** Forgets all but so many elements. */
  cut(count: number): void {
    if (count >= this.count) return;
    this.#cells.length = this.#ends[count - 1] ?? 0;
    this.#ends.length = count;
  }

  /** How many of the first `limit` items are the objects they were, untouched. */
  countUntouched(items: readonly unknown[], limit: number): number {
    const cells = this.#cells;
    const count = Math.min(limit, this.count);
    let from = 0;
    for (let at = 0; at < count; at++) {
      const to = this.#ends[at] as number;
      if (cells[from] !== items[at] || !isUntouchedBetween(cells, from, to)) return at;
      from = to;
    }
    return count;
  }
}

/** Takes the traces over from an older shadow, as far as its elements are there, and adds those of the elements that follow. */
export function withTraces(shadow: Shadow, old: Shadow | undefined, prefix = 0): Shadow {
  const traces = old?.traces ?? new ListTrace();
  traces.cut(prefix);
  if (old !== undefined) old.traces = undefined;
  for (let at = traces.count; at < shadow.children.length; at++) {
    const child = shadow.children[at];
    if (!(child instanceof Shadow) || child.trace === undefined) break;
    traces.push(child.trace);
  }
  if (traces.count > 0) shadow.traces = traces;
  return shadow;
}
