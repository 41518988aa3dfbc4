import { HttpError } from './problem.ts';

/** The time that a request may take, from its first byte on; over when its client is gone, too. */
export class Deadline {
  /** Aborted when it is over. */
  readonly signal: AbortSignal;
  readonly #late: AbortSignal;
  readonly #timeoutMs: number;

  constructor(request: Request, timeoutMs: number) {
    this.#late = AbortSignal.timeout(timeoutMs);
    this.#timeoutMs = timeoutMs;
    this.signal = AbortSignal.any([request.signal, this.#late]);
  }

  /** Throws if it is over: what has not begun by then does not begin. */
  check(): void {
    if (this.signal.aborted) throw this.#error();
  }

  /** What a piece of work returns, unless the time is over first. */
  async within<Result>(work: Promise<Result>): Promise<Result> {
    let stop: () => void = () => undefined;
    const over = new Promise<never>((_, reject) => {
      stop = () => reject(this.#error());
      this.signal.addEventListener('abort', stop, { once: true });
    });
    try {
      return await Promise.race([work, over]);
    } catch (error) {
      this.check();
      throw error;
    } finally {
      this.signal.removeEventListener('abort', stop);
    }
  }

  #error(): HttpError {
    return this.#late.aborted
      ? new HttpError(504, 'TIMEOUT', { message: `This took longer than ${this.#timeoutMs} ms.` })
      : new HttpError(499, 'TIMEOUT', { message: 'The client is gone.' });
  }
}
