import { isBindable } from '../sql-text.ts';

/** Collects the conditions of a statement whose filters are optional; values are always bound, never part of the text. */
export class Conditions<Value> {
  readonly values: Value[] = [];
  readonly #texts: string[] = [];
  readonly #sigil: '?' | '$';

  /** SQLite counts parameters as `?1`, PostgreSQL as `$1`. */
  constructor(sigil: '?' | '$') {
    this.#sigil = sigil;
  }

  /** A condition with `?` for its value; absent values make none. A string that a database cannot take is nowhere to be found. */
  add(text: string, value: Value | undefined): this {
    if (value === undefined) return this;
    const isFindable = typeof value !== 'string' || isBindable(value);
    return this.addPlain(isFindable ? text.replace('?', () => this.bind(value)) : 'FALSE');
  }

  /** A condition with a `?` for each of its values. */
  addAll(text: string, values: readonly Value[]): this {
    let at = 0;
    return this.addPlain(text.replace(/\?/g, () => this.bind(values[at++] as Value)));
  }

  addPlain(text: string): this {
    this.#texts.push(text);
    return this;
  }

  /** A condition on a place in an order, which need not be a place where something is. */
  addCursor(text: string, value: (Value & string) | undefined): this {
    // No name holds what is replaced here, so that the order of names around this place stays.
    return this.add(text, value?.replaceAll('\0', '\u0001').replace(/\p{Cs}/gu, '\ufffd') as Value | undefined);
  }

  /** The clause that ends the statement. */
  page(limit: Value & number, offset?: Value & number): string {
    const unlimited = this.#sigil === '?' ? '-1' : 'ALL';
    const end = `LIMIT ${Number.isFinite(limit) ? this.bind(limit) : unlimited}`;
    return offset === undefined ? end : `${end} OFFSET ${this.bind(offset)}`;
  }

  get sql(): string {
    return this.#texts.length === 0 ? '' : `WHERE ${this.#texts.join(' AND ')}`;
  }

  /** Binds a value that no condition holds; returns what stands for it. */
  bind(value: Value): string {
    this.values.push(value);
    return `${this.#sigil}${this.values.length}`;
  }
}
