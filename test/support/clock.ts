import { setImmediate as nextTurn } from 'node:timers/promises';
import '../../src/manager/write/session-writer.ts'; // loaded at the first session otherwise, which takes turns without a call
import type { SetTimer } from '../../src/core/time/timer.ts';
import type { ChunkStorage } from '../../src/storage/contract.ts';

type Timer = { readonly atMs: number; readonly run: () => void };

/** Nothing starts by itself after so many turns of the event loop without a call under way. */
const QUIET_TURNS = 5;

/** The processor time of this process so far: what else the machine does is not in it. */
export function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** A clock that stands still until it is told to go on, and timers that go by it. */
export class TestClock {
  #nowMs = Date.UTC(2026, 0, 1);
  /** Calls under way. */
  #calls = 0;
  /** Calls so far: those that came and went within a turn of the event loop are followed by others. */
  #made = 0;
  readonly #timers = new Set<Timer>();

  readonly now = (): number => this.#nowMs;

  readonly setTimer: SetTimer = (run, { delayMs }) => {
    const timer = { atMs: this.#nowMs + delayMs, run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  };

  /** Moves the time on without waking anyone, as for a process that is paused. */
  skip(durationMs: number): void {
    this.#nowMs += durationMs;
  }

  /** Lets time pass. What is set for it happens in order, each with everything that follows from it. */
  async pass(durationMs: number): Promise<void> {
    const endMs = this.#nowMs + durationMs;
    await this.settle();
    for (let timer = this.#next(endMs); timer !== undefined; timer = this.#next(endMs)) {
      this.#timers.delete(timer);
      this.#nowMs = Math.max(this.#nowMs, timer.atMs);
      timer.run();
      await this.settle();
    }
    this.#nowMs = Math.max(this.#nowMs, endMs); // somebody may have skipped some of it
  }

  #next(endMs: number): Timer | undefined {
    const due = [...this.#timers].filter(({ atMs }) => atMs <= endMs);
    return due.sort((a, b) => a.atMs - b.atMs)[0];
  }

  /** Waits until no call to a watched storage is under way, and none follows. */
  async settle(): Promise<void> {
    let made = -1;
    for (let quiet = 0; quiet < QUIET_TURNS; quiet = this.#calls === 0 && this.#made === made ? quiet + 1 : 0) {
      made = this.#made;
      await nextTurn();
    }
  }

  /** The same storage; time waits for its calls, and if it has a clock, that is this one. */
  watch<Storage extends ChunkStorage>(storage: Storage): Storage {
    return new Proxy(storage, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        if (name === 'now' && value !== undefined) return async () => this.#nowMs;
        return typeof value === 'function' ? (...args: unknown[]) => this.#count(value.apply(target, args)) : value;
      },
    });
  }

  #count(result: unknown): unknown {
    if (!(result instanceof Promise)) return result;
    this.#calls++;
    this.#made++;
    return result.finally(() => {
      this.#calls--;
    });
  }
}
