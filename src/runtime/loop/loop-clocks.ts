import { onEveryPoint } from './deadline-grid.ts';
import type { LoopParts } from './loop-parts.ts';

type Watched = {
  /** Tells the loop that there is something to do. */
  readonly ring: () => void;
  /** Whether a turn takes too long. */
  readonly isOverdue: () => boolean;
};

/** The schedule of a loop: routine checkpoints, refreshes, heartbeats. */
export class LoopClocks {
  readonly #parts: LoopParts;
  readonly #watched: Watched;
  #cancels: (() => void)[] = [];
  #failure: { readonly error: unknown } | undefined;
  #isCollectionDue = false;
  isRefreshDue = false;

  constructor(parts: LoopParts, watched: Watched) {
    this.#parts = parts;
    this.#watched = watched;
  }

  start(): void {
    const { ports, settings, live, heartbeatMs, refreshMode } = this.#parts;
    const startMs = ports.now();
    // A process that ends at its refresh gives space back once, too.
    this.#isCollectionDue = refreshMode === 'exit';
    // Routine checkpoints keep to one grid over all restarts; a refresh counts from the start of the process.
    this.#every({ startMs: live.state.loop.gridStartMs, everyMs: settings.routineEveryMs }, () => void this.#save());
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
    this.#watched.ring();
  }

  /** What went wrong in the background is thrown where the loop can act on it. */
  throwIfFailed(): void {
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) throw failure.error;
  }

  #every(grid: { readonly startMs: number; readonly everyMs: number }, run: () => void): void {
    this.#cancels.push(onEveryPoint(this.#parts.ports, grid, run));
  }

  /** Also during a turn: the checkpoint then holds what the turn has done so far. */
  async #save(): Promise<void> {
    const { checkpoints, isPruning } = this.#parts;
    try {
      await checkpoints.tryTake({ type: 'routine', trigger: 'schedule' });
      if (isPruning) await this.#tidy();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Gives up what nothing goes on from any more, and from time to time its space. */
  async #tidy(): Promise<void> {
    const { manager, session } = this.#parts;
    await manager.prune({ sessionId: session.id });
    await manager.dropRecordings(session.id);
    if (!this.#isCollectionDue) return;
    this.#isCollectionDue = false;
    await manager.gc();
  }

  #callForRefresh(): void {
    this.isRefreshDue = true;
    this.#isCollectionDue = true;
    this.#watched.ring();
  }

  #beat(): void {
    if (!this.#watched.isOverdue()) this.#parts.tell({ kind: 'heartbeat' });
  }
}
