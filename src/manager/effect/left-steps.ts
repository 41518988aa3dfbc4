import type { RecordedEffect } from './effect-record.ts';

/** A step that did not end well is left to later processes until so many have begun after it: whoever opens the session reads all since. */
const MAX_BEHIND = 1000;

/** The log of a branch as a session found it. */
type FoundLog = {
  readonly branch: string;
  readonly recordings: readonly RecordedEffect[];
  readonly nextOrdinal: number;
  /** Whether the program runs again from its start: no state that it saves holds what it has not asked for. */
  readonly isFromStart?: boolean;
};

/**
 * The recordings of a branch that a step may still be given and that no state holds: a checkpoint leaves them to whoever goes on from it.
 * From the start on that is all that was not asked for, else the calls of works, and what has no result.
 */
export class LeftSteps {
  readonly #log: FoundLog;
  /** Of those that were found, by ordinal, in order. */
  readonly #found: Map<number, RecordedEffect>;
  /** Of those that failed since. */
  readonly #failed = new Map<number, RecordedEffect>();
  /** From here to the end of what was found nothing was asked for. */
  #rest: number;

  constructor(log: FoundLog) {
    this.#log = log;
    const own = log.recordings.filter((recorded) => recorded.branch === log.branch && this.#isLeft(recorded));
    this.#found = new Map(
      own.toSorted((a, b) => a.ordinal - b.ordinal).map((recorded) => [recorded.ordinal, recorded]),
    );
    this.#rest = log.nextOrdinal;
    if (log.isFromStart === true) while (this.#found.has(this.#rest - 1)) this.#rest--;
  }

  #isLeft({ work, status }: RecordedEffect): boolean {
    return this.#log.isFromStart === true || work !== undefined || status === 'started' || status === 'failed';
  }

  /** Adds a step that failed; a work names its calls itself, so those keep their keys without. */
  addFailed(failed: RecordedEffect): void {
    if (failed.work === undefined) this.#failed.set(failed.ordinal, failed);
  }

  remove({ branch, ordinal }: RecordedEffect): void {
    if (branch !== this.#log.branch) return;
    this.#failed.delete(ordinal);
    if (this.#found.delete(ordinal)) this.#rest = Math.max(this.#rest, ordinal + 1);
  }

  clear(): void {
    this.#found.clear();
    this.#failed.clear();
    this.#rest = this.#log.nextOrdinal;
  }

  /** How many effects a checkpoint counts, of so many that are stored, and which of them are left all the same. */
  before(storedCount: number): { readonly count: number; readonly left: readonly number[] } {
    const count = storedCount > this.#log.nextOrdinal ? storedCount : this.#rest;
    const left = [...this.#failed.values()];
    for (const recorded of this.#found.values()) {
      if (recorded.ordinal >= count) break;
      left.push(recorded);
    }
    const isNear = ({ work, ordinal }: RecordedEffect) => work !== undefined || count - ordinal <= MAX_BEHIND;
    return { count, left: left.filter(isNear).map(({ ordinal }) => ordinal) };
  }
}
