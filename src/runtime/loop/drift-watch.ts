import { DriftDetector, type DriftEvent, type DriftOptions, type DriftSnapshot } from '../drift/index.ts';

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
