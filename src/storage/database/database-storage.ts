import { ClosedError } from '../../core/errors.ts';

/** What a storage reads and writes through. */
export type Connection = { readonly place: string; close(): Promise<void> };

/** A storage on a connection of its own, which refuses every call from the moment it is closed. */
export abstract class DatabaseStorage<Opened extends Connection> {
  readonly #connection: Opened;
  #closing: Promise<void> | undefined;

  constructor(connection: Opened) {
    this.#connection = connection;
  }

  /** @internal */
  protected get connection(): Opened {
    this.checkOpen();
    return this.#connection;
  }

  /** @internal */
  protected checkOpen(): void {
    if (this.#closing !== undefined) throw new ClosedError(`The storage ${this.#connection.place} was closed.`);
  }

  /** Ends what is under way. @internal */
  protected async finish(): Promise<void> {
    // Nothing is, unless a storage says so.
  }

  /** Waits for what is under way. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.finish().then(() => this.#connection.close());
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
