/** What was made lately, so that it need not be made again. Holds no more than so many. */
export class Recent<Key, Value> {
  readonly #max: number;
  #young = new Map<Key, Value>();
  #old = new Map<Key, Value>();

  constructor(max: number) {
    this.#max = max;
  }

  find(key: Key): Value | undefined {
    return this.#young.get(key) ?? this.#old.get(key);
  }

  set(key: Key, value: Value): void {
    if (this.#young.size >= this.#max / 2) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, value);
  }

  get(key: Key, make: () => Value): Value {
    const found = this.#young.get(key);
    if (found !== undefined) return found;
    const value = this.#old.get(key) ?? make();
    this.set(key, value);
    return value;
  }

  delete(key: Key): void {
    this.#young.delete(key);
    this.#old.delete(key);
  }
}
