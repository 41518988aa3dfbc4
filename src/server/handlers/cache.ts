/** Keeps the last results by key, up to a weight in all; those that fail are forgotten. */
export class Cache<Value> {
  readonly #kept = new Map<string, { readonly value: Promise<Value>; readonly weight: number }>();
  readonly #maxWeight: number;
  #weight = 0;

  constructor(maxWeight: number) {
    this.#maxWeight = maxWeight;
  }

  /** The kept result, or a new one. */
  get(key: string, make: () => Promise<Value>, weight = 1): Promise<Value> {
    const known = this.#kept.get(key);
    if (known !== undefined) {
      this.#kept.delete(key);
      this.#kept.set(key, known);
      return known.value;
    }
    const value = make();
    this.#kept.set(key, { value, weight });
    this.#weight += weight;
    value.catch(() => this.#drop(key));
    for (const oldest of this.#kept.keys()) {
      if (this.#weight <= this.#maxWeight || oldest === key) break;
      this.#drop(oldest);
    }
    return value;
  }

  #drop(key: string): void {
    this.#weight -= this.#kept.get(key)?.weight ?? 0;
    this.#kept.delete(key);
  }
}
