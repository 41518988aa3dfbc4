import { z } from 'zod';
import { InvalidInputError } from '../../../core/errors.ts';
import { DriftDetector, type DriftEvent, type DriftOptions, type DriftSnapshot } from '../../drift/index.ts';
import { type ErrorText, errorText } from '../state/error-text.ts';

/** What a watch thinks of an agent now. */
export type DriftReading = {
  readonly status: 'healthy' | 'suspect' | 'drifting';
  /** The strongest evidence; 1 is the alarm. */
  readonly score: number;
  /** Names of the signals that speak. */
  readonly signals: readonly string[];
  /** What is wrong, for the agent and for people; empty while all is well. */
  readonly summary: string;
  /** When it began, if that is known: what was saved later may be spoiled. */
  readonly sinceMs?: number;
};

/** Watches the events of an agent. The loop asks for nothing more, so that any detector can be put here. */
export interface DriftWatch {
  observe(event: DriftEvent): DriftReading;
  /** Like `observe`, once at the end of each turn; may take its time. */
  assess(event: DriftEvent): Promise<DriftReading>;
  /** Plain data to be saved with the agent. */
  snapshot(): unknown;
  restore(snapshot: unknown): void;
  /** Begins anew, as after a restore. */
  reset(): void;
}

/** What a watch says that has seen nothing. */
export const HEALTHY: DriftReading = Object.freeze({ status: 'healthy', score: 0, signals: [], summary: '' });

type Sighting = { readonly index: number; readonly atMs: number };

/** Drifts that began longer ago than so many events are dated by the oldest of these. */
const MAX_SIGHTINGS = 500;

/** The built-in detector as a watch; adds when a drift began, by the clock. */
export class DetectorWatch implements DriftWatch {
  readonly #now: () => number;
  readonly #detector: DriftDetector;
  #sightings: Sighting[] = [];

  constructor(now: () => number, options: DriftOptions = {}) {
    this.#now = now;
    this.#detector = new DriftDetector(options);
  }

  observe(event: DriftEvent): DriftReading {
    const atMs = this.#now();
    return this.#read(this.#detector.observe({ at: atMs, ...event }), atMs);
  }

  async assess(event: DriftEvent): Promise<DriftReading> {
    const atMs = this.#now();
    return this.#read(await this.#detector.assess({ at: atMs, ...event }), atMs);
  }

  #read(assessment: ReturnType<DriftDetector['observe']>, atMs: number): DriftReading {
    const { index, status, scores, evidence, summary, onset } = assessment;
    this.#sightings.push({ index, atMs });
    if (this.#sightings.length > 2 * MAX_SIGHTINGS) this.#sightings = this.#sightings.slice(-MAX_SIGHTINGS);
    const sinceMs = onset === undefined ? undefined : this.#sightings.find((seen) => seen.index >= onset)?.atMs;
    return {
      status,
      score: Math.max(0, ...Object.values(scores)),
      signals: [...new Set(evidence.map(({ signal }) => signal))],
      summary,
      ...(sinceMs !== undefined && { sinceMs }),
    };
  }

  snapshot(): unknown {
    return { detector: this.#detector.snapshot(), sightings: this.#sightings.slice(-MAX_SIGHTINGS) };
  }

  restore(snapshot: unknown): void {
    const { detector, sightings } = snapshot as { detector: DriftSnapshot; sightings: Sighting[] };
    this.#detector.restore(detector);
    this.#sightings = [...sightings];
  }

  reset(): void {
    this.#detector.reset();
    this.#sightings = [];
  }
}

/**
 * A watch of which nothing escapes: an agent that works must not end because the one that watches it fails. Then the last reading
 * holds, and the failure is told: once, until it works again.
 */
export class GuardedWatch implements DriftWatch {
  readonly #watch: DriftWatch;
  readonly #failing = new Set<string>();
  #reading: DriftReading = HEALTHY;
  /** Hears of what the watch could not do. */
  onFailure: (error: ErrorText) => void = () => undefined;

  constructor(watch: DriftWatch) {
    this.#watch = watch;
  }

  /** Begins with what was thought of the agent before. */
  assume(reading: DriftReading): void {
    this.#reading = reading;
  }

  observe(event: DriftEvent): DriftReading {
    this.#attempt('observe', () => this.#accept('observe', this.#watch.observe(event)));
    return this.#reading;
  }

  async assess(event: DriftEvent): Promise<DriftReading> {
    try {
      this.#accept('assess', await this.#watch.assess(event));
      this.#failing.delete('assess');
    } catch (error) {
      this.#fail('assess', error);
    }
    return this.#reading;
  }

  /** A copy, because what a watch goes on changing, or cannot be stored, must not be part of a state; undefined if there is none. */
  snapshot(): unknown {
    let copy: unknown;
    this.#attempt('snapshot', () => {
      copy = structuredClone(this.#watch.snapshot());
    });
    return copy;
  }

  /** What another watch remembered may mean nothing to this one; then it begins anew. */
  restore(snapshot: unknown): void {
    if (!this.#attempt('restore', () => this.#watch.restore(snapshot))) this.reset();
  }

  reset(): void {
    this.#reading = HEALTHY;
    this.#attempt('reset', () => this.#watch.reset());
  }

  #attempt(what: string, run: () => void): boolean {
    try {
      run();
      this.#failing.delete(what);
      return true;
    } catch (error) {
      this.#fail(what, error);
      return false;
    }
  }

  #accept(what: string, reading: unknown): void {
    // Nobody waits for it; an error of it must not be one of the process.
    if (reading instanceof Promise) reading.catch(() => undefined);
    if (!isReading(reading))
      throw new InvalidInputError(`The watch's ${what} must answer a reading with status, score, signals and summary.`);
    this.#reading = reading;
  }

  #fail(what: string, error: unknown): void {
    if (this.#failing.has(what)) return;
    this.#failing.add(what);
    const { name, message } = errorText(error);
    this.onFailure({ name, message: `${what}: ${message}` });
  }
}

const READING = z.looseObject({
  status: z.enum(['healthy', 'suspect', 'drifting']),
  score: z.number(),
  signals: z.array(z.string()),
  summary: z.string(),
  sinceMs: z.number().optional(),
});

function isReading(value: unknown): value is DriftReading {
  return READING.safeParse(value).success;
}
