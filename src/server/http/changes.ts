import { ConflictError } from '../../core/errors.ts';
import { Serial } from '../../core/time/serial.ts';

/** A change that was asked for. */
export type ChangeRequest = {
  readonly idempotencyKey: string | undefined;
  /** What was asked, to tell a repetition from another request with the same key. */
  readonly fingerprint: string;
  /** Whether others need not wait for it: an import reads as slowly as it is sent, and holds its session by itself. */
  readonly isApart: boolean;
};

type Known = { readonly fingerprint: string; readonly response: Promise<Response> };

/** Keys are remembered for as many changes as this. */
const MAX_KEYS = 1_000;

/** Makes changes one after the other, each key once. */
export class Changes {
  readonly #known = new Map<string, Known>();
  readonly #line = new Serial();

  async make(
    { idempotencyKey: key, fingerprint, isApart }: ChangeRequest,
    change: () => Promise<Response>,
  ): Promise<Response> {
    const known = key === undefined ? undefined : this.#known.get(key);
    if (known !== undefined && known.fingerprint !== fingerprint)
      throw new ConflictError(`The Idempotency-Key "${key}" was used for another request. Use a new one.`);
    if (known !== undefined) return (await known.response).clone();
    const response = isApart ? change() : this.#line.run(change);
    if (key !== undefined) this.#remember(key, { fingerprint, response });
    return (await response).clone();
  }

  /** What failed may be tried again with the same key. */
  #remember(key: string, known: Known): void {
    this.#known.set(key, known);
    known.response.catch(() => this.#known.delete(key));
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_KEYS && oldest !== undefined) this.#known.delete(oldest);
  }
}
