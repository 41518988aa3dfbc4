import { type FieldTrace, isUntouchedBetween } from '../value/field-trace.ts';
import { countSame } from './sameness.ts';
import { Shadow } from './shadow.ts';

/** How far a look into a long list goes: so many of its last elements each time, and so many of the others in turn. */
export type Look = { readonly recent: number; readonly inTurn: number };

/**
 * The traces of the first elements of a list, one after the other. A save of a long conversation spends most of its time here, and
 * memory that is read from front to back costs least.
 */
export class ListTrace {
  readonly #cells: unknown[] = [];
  readonly #sources: unknown[] = [];
  /** Where the trace of each element ends. */
  readonly #ends: number[] = [];
  /** Where the next look in turn begins. */
  #next = 0;

  get count(): number {
    return this.#ends.length;
  }

  push(trace: FieldTrace): void {
    this.#sources.push(trace[0]);
    for (const cell of trace) this.#cells.push(cell);
    this.#ends.push(this.#cells.length);
  }

  /** Forgets all but so many elements. */
  cut(count: number): void {
    if (count >= this.count) return;
    this.#cells.length = this.#ends[count - 1] ?? 0;
    this.#ends.length = count;
    this.#sources.length = count;
  }

  /**
   * How many of the first `limit` items are the objects they were, untouched. With a look only some are asked what they hold: one that
   * was touched is found when its turn comes.
   */
  countUntouched(items: readonly unknown[], limit: number, look?: Look): number {
    const count = countSame(items, this.#sources, Math.min(limit, this.count));
    if (look === undefined || count <= look.recent + look.inTurn) return this.#firstTouched(0, count);
    for (const [from, to] of this.#windows(count - look.recent, look.inTurn)) {
      const touched = this.#firstTouched(from, to);
      if (touched < to) return touched;
    }
    return this.#firstTouched(count - look.recent, count);
  }

  /** Whose turn it is among the first elements, from the front on: around the end it begins again. */
  #windows(older: number, inTurn: number): [from: number, to: number][] {
    const from = this.#next < older ? this.#next : 0;
    const end = from + inTurn;
    this.#next = end % older;
    return end <= older
      ? [[from, end]]
      : [
          [0, end - older],
          [from, older],
        ];
  }

  /** The first element between two places that was touched; the end, if none was. */
  #firstTouched(from: number, to: number): number {
    let start = this.#ends[from - 1] ?? 0;
    for (let at = from; at < to; at++) {
      const end = this.#ends[at] as number;
      if (!isUntouchedBetween(this.#cells, start, end)) return at;
      start = end;
    }
    return to;
  }
}

/** Takes the traces over from an older shadow, as far as its elements are there, and adds those of the elements that follow. */
export function withTraces(shadow: Shadow, old: Shadow | undefined, prefix = 0): Shadow {
  const [first] = shadow.children;
  if (!(first instanceof Shadow) || first.trace === undefined) return shadow;
  const traces = old?.traces ?? new ListTrace();
  traces.cut(prefix);
  if (old !== undefined) old.traces = undefined;
  for (let at = traces.count; at < shadow.children.length; at++) {
    const child = shadow.children[at];
    if (!(child instanceof Shadow) || child.trace === undefined) break;
    traces.push(child.trace);
  }
  shadow.traces = traces;
  return shadow;
}
