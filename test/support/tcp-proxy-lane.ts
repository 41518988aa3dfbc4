import type { Socket } from 'node:net';

type Parcel = { readonly bytes: Buffer | 'end'; readonly dueMs: number };

/** How a lane is laid. */
export type LaneOptions = {
  readonly source: Socket;
  readonly target: Socket;
  /** Gets what has come to the end of the lane, and decides whether to `write` it to the target. */
  readonly deliver: (bytes: Buffer) => void;
};

/** One direction of a connection: passes bytes on in their order, at once, late, or not at all. */
export class Lane {
  readonly #source: Socket;
  readonly #target: Socket;
  readonly #deliver: (bytes: Buffer) => void;
  #parcels: Parcel[] = [];
  #delayMs = 0;
  #isStalled = false;
  #isFull = false;
  #isClosed = false;
  #timer: NodeJS.Timeout | undefined;

  constructor({ source, target, deliver }: LaneOptions) {
    this.#source = source;
    this.#target = target;
    this.#deliver = deliver;
    source.on('data', (bytes: Buffer) => this.#take(bytes));
    source.on('end', () => this.#take('end'));
    target.on('drain', () => {
      this.#isFull = false;
      this.#flow();
    });
  }

  /** Lets everything that comes from now on arrive later by so much. */
  delay(ms: number): void {
    this.#delayMs = ms;
  }

  stall(isStalled: boolean): void {
    this.#isStalled = isStalled;
    this.#flow();
    this.#flush();
  }

  /** Forgets what is under way and all that comes; goes on reading, so that the source is never in the way of itself. */
  close(): void {
    this.#isClosed = true;
    this.#parcels = [];
    clearTimeout(this.#timer);
    this.#flow();
  }

  /** Gives bytes to the target. */
  write(bytes: Buffer): void {
    if (bytes.length === 0 || this.#target.write(bytes)) return;
    this.#isFull = true;
    this.#flow();
  }

  #flow(): void {
    if (!this.#isClosed && (this.#isStalled || this.#isFull)) this.#source.pause();
    else this.#source.resume();
  }

  #take(bytes: Buffer | 'end'): void {
    if (this.#isClosed) return;
    const lastDueMs = this.#parcels.at(-1)?.dueMs ?? 0;
    this.#parcels.push({ bytes, dueMs: Math.max(performance.now() + this.#delayMs, lastDueMs) });
    this.#flush();
  }

  #flush(): void {
    clearTimeout(this.#timer);
    for (;;) {
      const next = this.#parcels[0];
      if (next === undefined || this.#isStalled) return;
      const waitMs = next.dueMs - performance.now();
      if (waitMs > 0) {
        this.#timer = setTimeout(() => this.#flush(), waitMs);
        return;
      }
      this.#parcels.shift();
      if (next.bytes === 'end') this.#target.end();
      else this.#deliver(next.bytes);
    }
  }
}
