import { isBindable } from '../../sql-text.ts';

/** Collects the conditions of a statement whose filters are optional. The tenant is always the first; values are always bound. */
export class Conditions {
  readonly values: unknown[];
  readonly #texts: string[] = ['tenant = $1'];

  constructor(tenant: string) {
    this.values = [tenant];
  }

  /** A condition with `?` for its value; absent values make none. A text that PostgreSQL cannot take is nowhere to be found. */
  add(text: string, value: string | number | boolean | undefined): void {
    if (value === undefined) return;
    if (typeof value === 'string' && !isBindable(value)) this.#texts.push('FALSE');
    else this.#texts.push(text.replace('?', this.#bind(value)));
  }

  /** A condition on a place in an order, which need not be a place where something is. */
  addCursor(text: string, value: string | undefined): void {
    // No name holds what is replaced here, so that the order of names around this place stays.
    this.add(text, value?.replaceAll('\0', '\u0001').replace(/\p{Cs}/gu, '\ufffd'));
  }

  /** `LIMIT`, unless there is none. */
  limit(count: number): string {
    return Number.isFinite(count) ? `LIMIT ${this.#bind(count)}` : '';
  }

  offset(count: number): string {
    return count === 0 ? '' : `OFFSET ${this.#bind(count)}`;
  }

  get sql(): string {
    return `WHERE ${this.#texts.join(' AND ')}`;
  }

  #bind(value: unknown): string {
    this.values.push(value);
    return `$${this.values.length}`;
  }
}
