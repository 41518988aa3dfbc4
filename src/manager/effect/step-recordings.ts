import { UnsupportedError } from '../../core/errors.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import { WholeCheckpointStorage } from '../../storage/whole/whole-storage.ts';
import type { Engine } from '../engine/engine.ts';
import type { RecordedEffect } from './effect-record.ts';

/** What a step is known by: its name, its input, and, in a work, which of several equal calls it is. */
export type StepIdentity = {
  readonly name: string;
  readonly inputDigest?: Digest | undefined;
  readonly work?: string | undefined;
  readonly nth?: number | undefined;
};

/** Failed steps that are remembered for a retry; who retries does so before this many others failed. */
const MAX_FAILED = 1000;

/** The recordings that steps may use, each once. Steps with an input find theirs in any order, others in the order of the calls. */
export class StepRecordings {
  readonly #recordings = new Map<string, RecordedEffect[]>();
  /** Those of works, which may be asked for until their work is over. */
  readonly #works = new Map<string, Set<RecordedEffect>>();
  /** What failed in this process; oldest first. */
  readonly #failed = new Set<RecordedEffect>();

  constructor(recordings: readonly RecordedEffect[]) {
    for (const recorded of recordings) {
      this.#listOf(recorded).push(recorded);
      if (recorded.work === undefined) continue;
      const ofWork = this.#works.get(recorded.work) ?? new Set();
      this.#works.set(recorded.work, ofWork.add(recorded));
    }
  }

  /** Recordings that works have not asked for yet: no state that is saved now holds them. */
  get unseen(): RecordedEffect[] {
    return [...this.#works.values()].flatMap((ofWork) => [...ofWork]);
  }

  /** Lets go of the recordings of a work that is over. */
  settle(work: string): void {
    for (const recorded of this.#works.get(work) ?? []) this.#remove(recorded);
    this.#works.delete(work);
  }

  /** The next recording of a step. `isExact` keeps to the order, else a finished one goes before its failed attempts. */
  take(identity: StepIdentity, { isExact }: { readonly isExact: boolean }): RecordedEffect | undefined {
    const key = keyOf(identity);
    const list = this.#recordings.get(key);
    if (list === undefined) return undefined;
    const ended = isExact || identity.inputDigest === undefined ? 0 : list.findIndex(hasResult);
    const [taken] = list.splice(Math.max(0, ended), 1);
    if (list.length === 0) this.#recordings.delete(key);
    if (taken !== undefined) this.#forget(taken);
    return taken;
  }

  /** The oldest recording of this name that is left: what was recorded instead. */
  findOther(name: string): RecordedEffect | undefined {
    const others = [...this.#recordings.values()].flat().filter((recorded) => recorded.name === name);
    return others.toSorted((a, b) => a.ordinal - b.ordinal)[0];
  }

  /** Keeps the place and the key of a step that failed for the next call of the same identity. */
  keepForRetry(failed: RecordedEffect): void {
    this.#listOf(failed).unshift(failed);
    this.#failed.add(failed);
    for (const oldest of this.#failed) {
      if (this.#failed.size <= MAX_FAILED) break;
      this.#remove(oldest);
    }
  }

  #forget(recorded: RecordedEffect): void {
    this.#failed.delete(recorded);
    this.#works.get(recorded.work ?? '')?.delete(recorded);
  }

  #remove(recorded: RecordedEffect): void {
    this.#forget(recorded);
    const list = this.#listOf(recorded).filter((one) => one !== recorded);
    if (list.length === 0) this.#recordings.delete(keyOf(recorded));
    else this.#recordings.set(keyOf(recorded), list);
  }

  clear(): void {
    this.#recordings.clear();
    this.#works.clear();
    this.#failed.clear();
  }

  #listOf(identity: StepIdentity): RecordedEffect[] {
    const key = keyOf(identity);
    const list = this.#recordings.get(key) ?? [];
    this.#recordings.set(key, list);
    return list;
  }
}

function hasResult({ status }: RecordedEffect): boolean {
  return status === 'done' || status === 'dropped';
}

function keyOf({ name, inputDigest, work, nth }: StepIdentity): string {
  return JSON.stringify([name, inputDigest, work, nth]);
}

/** Throws if the storage cannot record steps: whoever needs them says so before anything is paid for. */
export function checkRecordsSteps({ storage }: Engine, what: string): void {
  if (!(storage instanceof WholeCheckpointStorage)) return;
  throw new UnsupportedError(
    `${what} needs a storage that records steps, and one of three methods (save, load, listByUser) does not. Use one of the built-in storages.`,
  );
}
