import { z } from 'zod';
import { InvalidInputError } from '../../../core/errors.ts';
import { withDeadline } from '../../../core/time/deadline.ts';
import type { ManagerPorts } from '../../../manager/engine/engine.ts';
import type { DriftAssessment, DriftEvent } from '../../drift/index.ts';
import { errorText } from '../state/error-text.ts';
import type { LoopEvents } from './loop-events.ts';

/** What a watch thinks of an agent now. */
export type DriftReading = Pick<DriftAssessment, 'status' | 'score' | 'signals' | 'summary' | 'sinceMs'>;

/** Watches the events of an agent. A `DriftDetector` is one; the loop asks for nothing more, so any other can be put here. */
export interface DriftWatch {
  observe(event: DriftEvent): DriftReading;
  /** Like `observe`, once at the end of each turn; may take its time. */
  assess(event: DriftEvent): Promise<DriftReading>;
  /** Plain data to be saved with the agent. */
  snapshot(): unknown;
  restore(snapshot: never): void;
  /** Begins anew, as after a restore. */
  reset(): void;
}

/** What a watch says that has seen nothing. */
export const HEALTHY: DriftReading = Object.freeze({ status: 'healthy', score: 0, signals: [], summary: '' });

const READING = z.looseObject({
  status: z.enum(['healthy', 'suspect', 'drifting']),
  score: z.number(),
  signals: z.array(z.string()),
  summary: z.string(),
  sinceMs: z.number().optional(),
});

/** Who is watched, and how long an assessment may take. */
type Watched = {
  readonly agentId: string;
  readonly ports: Pick<ManagerPorts, 'now' | 'setTimer'>;
  readonly timeoutMs: number;
  readonly tell: LoopEvents['tell'];
};

/**
 * The watch over one agent, if there is one, and its last reading. An agent that works must not end because the one that watches
 * it fails: then the last reading holds, and the failure is told, once until it works again.
 */
export class Watch {
  readonly #watch: DriftWatch | undefined;
  readonly #watched: Watched;
  readonly #failing = new Set<string>();
  readonly #stopping = new AbortController();
  #toldGoals = '';
  reading: DriftReading = HEALTHY;

  constructor(watch: DriftWatch | undefined, watched: Watched) {
    this.#watch = watch;
    this.#watched = watched;
  }

  /** Lets the watch know what the agent is there for, unless it knows. What it thinks of the agent does not follow from that. */
  tellGoals(goals: readonly string[]): void {
    const text = goals.join(' ');
    if (text === this.#toldGoals) return;
    this.#toldGoals = text;
    if (text !== '') this.#attempt('observe', (watch) => watch.observe(this.#complete({ kind: 'goal', text })));
  }

  observe(event: DriftEvent): DriftReading {
    this.#attempt('observe', (watch) => this.#read('observe', watch.observe(this.#complete(event))));
    return this.reading;
  }

  /** One that takes longer than it may is not waited for: what was last observed holds. */
  async assess(event: DriftEvent): Promise<void> {
    const { timeoutMs, ports } = this.#watched;
    const watch = this.#watch;
    if (watch === undefined) return;
    const onTimeout = () => new DOMException(`it took longer than ${timeoutMs} ms.`, 'TimeoutError');
    const deadline = { timeoutMs, onTimeout, setTimer: ports.setTimer, signal: this.#stopping.signal };
    try {
      this.#read('assess', await withDeadline(deadline, () => watch.assess(this.#complete(event))));
      this.#failing.delete('assess');
    } catch (error) {
      if (!this.#stopping.signal.aborted) this.#fail('assess', error);
    }
  }

  /** Drift holds until it is dealt with: what was under way then may look well again, and is undone all the same. */
  #read(what: string, reading: DriftReading): void {
    // Nobody waits for it; an error of it must not be one of the process.
    if (reading instanceof Promise) reading.catch(() => undefined);
    if (!READING.safeParse(reading).success)
      throw new InvalidInputError(`The watch's ${what} must return a reading with status, score, signals and summary.`);
    if (this.reading.status !== 'drifting') this.reading = reading;
  }

  stop(): void {
    this.#stopping.abort();
  }

  /** A copy, because what a watch goes on changing must not be part of a state; undefined if there is none. */
  snapshot(): unknown {
    let copy: unknown;
    this.#attempt('snapshot', (watch) => {
      copy = structuredClone(watch.snapshot());
    });
    return copy;
  }

  /** What another watch remembered may mean nothing to this one; then it begins anew. */
  restore(snapshot: unknown): void {
    if (!this.#attempt('restore', (watch) => watch.restore(snapshot as never))) this.reset();
  }

  /** Is not blamed for what was before. */
  reset(): void {
    this.reading = HEALTHY;
    this.#toldGoals = '';
    this.#attempt('reset', (watch) => watch.reset());
  }

  #complete(event: DriftEvent): DriftEvent {
    return { at: this.#watched.ports.now(), agent: this.#watched.agentId, ...event };
  }

  #attempt(what: string, run: (watch: DriftWatch) => unknown): boolean {
    if (this.#watch === undefined) return true;
    try {
      run(this.#watch);
      this.#failing.delete(what);
      return true;
    } catch (error) {
      this.#fail(what, error);
      return false;
    }
  }

  #fail(what: string, error: unknown): void {
    if (this.#failing.has(what)) return;
    this.#failing.add(what);
    const { name, message } = errorText(error);
    this.#watched.tell({ kind: 'watch_failed', error: { name, message: `${what}: ${message}` } });
  }
}
