/** Time between two calls that is no accident: whoever lets it pass waits for something. */
const WAIT_MS = 1000;

/**
 * Counts how often an agent waited before it went on. What it lets pass inside a call, such as that of a model, is none of it: so
 * a poll can be told from a loop, whose calls follow each other.
 */
export class Waits {
  readonly #now: () => number;
  #quietSinceMs: number;
  #open = 0;
  /** Waits of the agent's own, in the middle of a turn or at its end. */
  own = 0;
  /** Pauses that the loop made between two turns. */
  pauses = 0;

  constructor(now: () => number) {
    this.#now = now;
    this.#quietSinceMs = now();
  }

  /** A call begins; returns what is to be called when it ends. */
  begin(): () => void {
    this.own += this.#take();
    this.#open++;
    return () => {
      this.#open--;
      this.#quietSinceMs = this.#now();
    };
  }

  /** A pause counts whatever its length. */
  beginTurn(isAfterPause: boolean): void {
    this.#open = 0; // what an earlier turn left under way is not waited for
    const waits = this.#take();
    this.pauses += isAfterPause ? 1 : waits;
  }

  endTurn(): void {
    this.own += this.#take();
  }

  /** 1 if nothing was done for a while, else 0; begins to count anew. */
  #take(): number {
    const nowMs = this.#now();
    const isWait = this.#open === 0 && nowMs - this.#quietSinceMs >= WAIT_MS;
    this.#quietSinceMs = nowMs;
    return isWait ? 1 : 0;
  }
}
