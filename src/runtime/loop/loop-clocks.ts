import { MAX_DELAY_MS, type SetTimer } from '../../core/time/timer.ts';
import type { LoopParts } from './loop-options.ts';

type Grid = { readonly startMs: number; readonly everyMs: number };

/** The schedule of a loop: routine checkpoints, refreshes, heartbeats. */
export class LoopClocks {
  readonly #parts: LoopParts;
  readonly #alarm: Alarm;
  readonly #isOverdue: () => boolean;
  #cancels: (() => void)[] = [];
  #failure: { readonly error: unknown } | undefined;
  #isCollectionDue = false;
  isRefreshDue = false;

  constructor(parts: LoopParts, alarm: Alarm, isOverdue: () => boolean) {
    this.#parts = parts;
    this.#alarm = alarm;
    this.#isOverdue = isOverdue;
  }

  start(): void {
    const { ports, settings, live, session, heartbeatMs, refreshMode } = this.#parts;
    const startMs = ports.now();
    const grid = { startMs: live.loop.gridStartMs, everyMs: settings.routineEveryMs };
    // A process that ends at its refresh gives space back once, too.
    this.#isCollectionDue = refreshMode === 'exit';
    // Routine checkpoints keep to one grid over all restarts; a refresh counts from the start of the process.
    this.#every(grid, () => void this.#inBackground(() => this.#save()));
    // Processes that are killed before a routine checkpoint is due leave the tidying to the next one.
    const lastMs = session.head?.timestamp.getTime() ?? startMs;
    if (nextPoint(grid, lastMs) <= startMs) void this.#inBackground(() => this.tidy());
    this.#every({ startMs, everyMs: settings.refreshEveryMs }, () => this.#callForRefresh());
    if (heartbeatMs !== undefined) this.#every({ startMs, everyMs: heartbeatMs }, () => this.#beat());
  }

  stop(): void {
    for (const cancel of this.#cancels) cancel();
    this.#cancels = [];
  }

  /** Takes note of what went wrong in the background. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#alarm.ring();
  }

  /** What went wrong in the background is thrown where the loop can act on it. */
  throwIfFailed(): void {
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) throw failure.error;
  }

  #every(grid: Grid, run: () => void): void {
    this.#cancels.push(onEveryPoint(this.#parts.ports, grid, run));
  }

  async #inBackground(run: () => Promise<void>): Promise<void> {
    try {
      await run();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Also during a turn: the checkpoint then holds what the turn has done so far. */
  async #save(): Promise<void> {
    await this.#parts.checkpoints.tryTake({ type: 'routine', trigger: 'schedule' });
    await this.tidy();
  }

  /** Gives up what nothing goes on from any more, and from time to time its space. */
  async tidy(): Promise<void> {
    const { manager, session, isPruning } = this.#parts;
    if (!isPruning) return;
    await manager.prune({ sessionId: session.id });
    await manager.dropRecordings(session.id);
    if (!this.#isCollectionDue) return;
    this.#isCollectionDue = false;
    await manager.gc();
  }

  #callForRefresh(): void {
    this.isRefreshDue = true;
    this.#isCollectionDue = true;
    this.#alarm.ring();
  }

  #beat(): void {
    if (!this.#isOverdue()) this.#parts.tell({ kind: 'heartbeat' });
  }
}

/**
 * Wakes one waiter when told to; what is told while nobody waits is not forgotten. Says how long it has to rest, which is
 * measured by timers and not by the clock: that may be set back meanwhile, and a rest of a second would last for hours.
 */
export class Alarm {
  readonly #setTimer: SetTimer;
  readonly #rests = new Set<() => void>();
  #isRung = false;
  #isStopped = false;
  #wake: (() => void) | undefined;

  constructor({ setTimer }: { readonly setTimer: SetTimer }) {
    this.#setTimer = setTimer;
  }

  ring(): void {
    this.#isRung = true;
    this.#wake?.();
  }

  /** Rings, and lets nobody rest any more. */
  stop(): void {
    this.#isStopped = true;
    for (const cancel of this.#rests) cancel();
    this.#rests.clear();
    this.ring();
  }

  get isResting(): boolean {
    return this.#rests.size > 0;
  }

  /** Begins a rest and rings at its end. Of several, the longest counts. */
  rest(durationMs: number): void {
    if (this.#isStopped || !(durationMs > 0)) return;
    const end = (): void => {
      this.#rests.delete(cancel);
      this.ring();
    };
    const cancel = this.#setTimer(end, { delayMs: Math.min(durationMs, MAX_DELAY_MS), keepsProcessAlive: true });
    this.#rests.add(cancel);
  }

  /** Resolves at the next ring. The caller looks for itself what there is to do. */
  async wait(): Promise<void> {
    if (!this.#isRung) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
    this.#isRung = false;
  }
}

/** The first point of a grid after a moment. Points do not move, however late one is noticed. */
export function nextPoint({ startMs, everyMs }: Grid, nowMs: number): number {
  return startMs + (Math.floor((nowMs - startMs) / everyMs) + 1) * everyMs;
}

/** Timers and clocks do not go alike; a point is met if it is missed by no more than this part of the interval. */
const EARLY_PART = 0.01;
/** Both are rounded to a millisecond. */
const EARLY_MS = 2;

/**
 * Calls a function at every point of a grid; points missed together are one call. Each wait is no longer than the interval,
 * and what was waited for counts even if the clock was set back meanwhile: the call after it is on the grid again.
 * Returns how to stop.
 */
export function onEveryPoint(
  { now, setTimer }: { readonly now: () => number; readonly setTimer: SetTimer },
  grid: Grid,
  run: () => void,
): () => void {
  let cancel = (): void => undefined;
  const wait = (dueMs: number): void => {
    const delayMs = Math.min(dueMs - now(), MAX_DELAY_MS);
    cancel = setTimer(() => arrive(dueMs), { delayMs, keepsProcessAlive: true });
  };
  const arrive = (dueMs: number): void => {
    const earlyMs = dueMs - now();
    const isMet = earlyMs > 0 && earlyMs <= Math.max(EARLY_MS, grid.everyMs * EARLY_PART);
    wait(nextPoint(grid, isMet ? dueMs : now()));
    run();
  };
  wait(nextPoint(grid, now()));
  return () => cancel();
}
