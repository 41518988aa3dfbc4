import { Serial } from '../../../core/time/serial.ts';

/**
 * Keeps saves and the beginnings and results of steps apart. A checkpoint counts the effects that were recorded before it as part of its
 * state: a result that is recorded while another step's checkpoint is taken would be counted, and not be there. And a step that begins
 * while a checkpoint is on its way stands on the one before it. So a save waits until what is under way has reached the state, and
 * steps wait at both ends while a save is taken.
 */
export class SaveGate {
  #settling = 0;
  #saves = 0;
  readonly #serial = new Serial();
  readonly #waiting: (() => void)[] = [];

  /** Lets a beginning or a result pass on its way to be recorded. Call what this answers when it is; a turn later it has reached the state. */
  async settle(): Promise<() => void> {
    while (this.#saves > 0) await this.#change();
    this.#settling++;
    return () => void setImmediate(() => this.#leave());
  }

  #leave(): void {
    this.#settling--;
    this.#wake();
  }

  /** Takes a save when no result is under way; one after the other. */
  async save<Result>(take: () => Promise<Result>): Promise<Result> {
    this.#saves++;
    try {
      return await this.#serial.run(async () => {
        while (this.#settling > 0) await this.#change();
        return take();
      });
    } finally {
      this.#saves--;
      this.#wake();
    }
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }
}
