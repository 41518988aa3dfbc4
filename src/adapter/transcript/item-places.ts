import { countKept } from '../../core/tree/sameness.ts';

/** Where items are, by a field that names them. What was looked at once is not looked at again while a list keeps it. */
export class ItemPlaces {
  readonly #field: string;
  readonly #places = new Map<unknown, number>();
  #seen: readonly unknown[] = [];

  constructor(field: string) {
    this.#field = field;
  }

  /** The place of the first item of this name. */
  find(items: readonly unknown[], name: unknown): number | undefined {
    if (items !== this.#seen) this.#look(items);
    return this.#places.get(name);
  }

  forget(): void {
    this.#places.clear();
    this.#seen = [];
  }

  #look(items: readonly unknown[]): void {
    const before = this.#seen;
    const kept = countKept(items, before) ?? countCommon(items, before);
    for (let at = kept; at < before.length; at++) {
      const name = this.#nameOf(before[at]);
      if (this.#places.get(name) === at) this.#places.delete(name);
    }
    for (let at = kept; at < items.length; at++) {
      const name = this.#nameOf(items[at]);
      if (name !== undefined && !this.#places.has(name)) this.#places.set(name, at);
    }
    this.#seen = items;
  }

  #nameOf(item: unknown): unknown {
    return (item as { readonly [field: string]: unknown } | null)?.[this.#field];
  }
}

/** Lists change from some place on: what has the last element of another has all of it. */
function countCommon(items: readonly unknown[], before: readonly unknown[]): number {
  const { length } = before;
  return length <= items.length && items[length - 1] === before[length - 1] ? length : 0;
}
