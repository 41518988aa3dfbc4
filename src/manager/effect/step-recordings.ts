import { ReplayMismatchError, UnsupportedError } from '../../core/errors.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import { WholeCheckpointStorage } from '../../storage/whole/whole-storage.ts';
import type { Engine } from '../engine/engine.ts';
import type { RecordedEffect } from './effect-record.ts';
import { givenForm, type InputDigest, isSameInput, sortedForm, withoutMarks } from './input-digest.ts';

/** What a step is known by: its name, its input, and, in a work, which of several equal calls it is. */
export type StepIdentity = {
  readonly name: string;
  readonly inputDigest?: InputDigest | undefined;
  readonly work?: string | undefined;
  readonly nth?: number | undefined;
};

/** The recordings that a session may use, and where its own log goes on. */
export type OpenedLog = {
  readonly recordings: readonly RecordedEffect[];
  readonly nextOrdinal: number;
  /** Whether the program runs again from its start: no state that it saves holds what it has not asked for. */
  readonly isFromStart?: boolean;
  /** A branch of which recordings are wanted that were dropped: no step can tell which is its own. */
  readonly dropped?: string | undefined;
};

/** What a checkpoint says about the log of its branch. */
export type LogPosition = Pick<CheckpointHeader, 'effectCount' | 'effectsInFlight'>;

/** Failed steps that are remembered for a retry; who retries does so before this many others failed. */
const MAX_FAILED = 1000;

/** A step that did not end well is left to later processes until so many have begun after it: whoever opens the session reads all since. */
const MAX_BEHIND = 1000;

/** The recordings that steps may use, each once. Steps with an input find theirs in any order, others in the order of the calls. */
export class StepRecordings {
  readonly #log: OpenedLog & { readonly branch: string };
  /** Those that were not asked for yet, in order, by each key that they are looked for under. */
  readonly #index = new Map<string, Set<RecordedEffect>>();
  /** What failed in this process; oldest first. */
  readonly #failed = new Set<RecordedEffect>();
  /**
   * Those of the branch that no state holds, by ordinal, in order: a checkpoint leaves them to whoever goes on from it. From the start
   * on that is all that was not asked for, else the calls of works, and what has no result.
   */
  readonly #left = new Map<number, RecordedEffect>();
  /** From here to the end of what was found nothing was asked for. */
  #rest: number;

  constructor(log: OpenedLog & { readonly branch: string }) {
    this.#log = log;
    for (const recorded of log.recordings) this.#add(recorded);
    for (const recorded of log.recordings.toSorted((a, b) => a.ordinal - b.ordinal))
      if (recorded.branch === log.branch && (log.isFromStart === true || isUnheld(recorded)))
        this.#left.set(recorded.ordinal, recorded);
    this.#rest = log.nextOrdinal;
    if (log.isFromStart === true) while (this.#left.has(this.#rest - 1)) this.#rest--;
  }

  /** What a checkpoint saved now says, if so many effects are stored and these are running. */
  positionAt(storedCount: number, running: ReadonlySet<number>): LogPosition {
    const count = storedCount > this.#log.nextOrdinal ? storedCount : this.#rest;
    if (count === 0) return {};
    const open = new Set(running);
    const isNear = ({ work, ordinal }: RecordedEffect) => work !== undefined || count - ordinal <= MAX_BEHIND;
    // A work names its calls itself, so those that failed keep their keys without.
    for (const failed of this.#failed) if (failed.work === undefined && isNear(failed)) open.add(failed.ordinal);
    for (const left of this.#left.values()) {
      if (left.ordinal >= count) break;
      if (isNear(left)) open.add(left.ordinal);
    }
    const inFlight = [...open].filter((ordinal) => ordinal < count).toSorted((a, b) => a - b);
    return { effectCount: count, ...(inFlight.length > 0 && { effectsInFlight: inFlight }) };
  }

  /** Those of one work that it has not asked for yet. */
  unseenOf(work: string): RecordedEffect[] {
    return [...(this.#index.get(workKey(work)) ?? [])];
  }

  /** Lets go of what was recorded under a name, without an input. */
  letGo(name: string): void {
    for (const key of keysOf({ name })) for (const recorded of this.#index.get(key) ?? []) this.#remove(recorded);
  }

  /** Lets go of the recordings of a work that is over. */
  settle(work: string): void {
    for (const recorded of this.unseenOf(work)) this.#remove(recorded);
  }

  /**
   * The next recording of a step. `isExact` keeps to the order, else a finished one goes before its failed attempts. In a work equal
   * recordings are attempts at one call, so there it always does. `formerly` is the name under which an older version recorded it.
   */
  take(
    asked: StepIdentity & { readonly formerly?: string | undefined },
    { isExact }: { readonly isExact: boolean },
  ): RecordedEffect | undefined {
    if (this.#log.dropped !== undefined) throw describeDropped(asked.name, this.#log.dropped);
    const { inputDigest, formerly } = asked;
    const names = formerly === undefined ? [asked] : [asked, { name: formerly, inputDigest }, { name: formerly }];
    for (const identity of names) {
      const isInOrder = identity.work === undefined && (isExact || identity.inputDigest === undefined);
      const taken = this.#find(identity, isSame, isInOrder) ?? this.#find(identity, isAlike, isInOrder);
      if (taken !== undefined) this.#remove(taken);
      if (taken !== undefined) return taken;
    }
    return undefined;
  }

  #find(asked: StepIdentity, fits: typeof isSame, isInOrder: boolean): RecordedEffect | undefined {
    let unfinished: RecordedEffect | undefined;
    for (const key of keysOf(asked))
      for (const recorded of this.#index.get(key) ?? []) {
        if (!fits(asked, recorded)) continue;
        if (isInOrder || recorded.status === 'done' || recorded.status === 'dropped') return recorded;
        unfinished ??= recorded;
      }
    return unfinished;
  }

  /** The oldest recording of this name that is left: what was recorded instead. */
  findOther(name: string): RecordedEffect | undefined {
    const others = [...this.#index.values()].flatMap((some) => [...some].filter((recorded) => recorded.name === name));
    return others.toSorted((a, b) => a.ordinal - b.ordinal)[0];
  }

  /** Keeps the place and the key of a step that failed for the next call of the same identity. */
  keepForRetry(failed: RecordedEffect): void {
    for (const key of keysOf(failed)) this.#index.set(key, new Set([failed, ...(this.#index.get(key) ?? [])]));
    this.#failed.add(failed);
    for (const oldest of this.#failed) {
      if (this.#failed.size <= MAX_FAILED) break;
      this.#remove(oldest);
    }
  }

  #remove(recorded: RecordedEffect): void {
    this.#failed.delete(recorded);
    for (const key of [...keysOf(recorded), workKey(recorded.work)]) {
      const some = this.#index.get(key);
      some?.delete(recorded);
      if (some?.size === 0) this.#index.delete(key);
    }
    const { branch, ordinal } = recorded;
    if (branch === this.#log.branch && this.#left.delete(ordinal)) this.#rest = Math.max(this.#rest, ordinal + 1);
  }

  clear(): void {
    this.#index.clear();
    this.#failed.clear();
    this.#left.clear();
    this.#rest = this.#log.nextOrdinal;
  }

  #add(recorded: RecordedEffect): void {
    const keys = recorded.work === undefined ? keysOf(recorded) : [...keysOf(recorded), workKey(recorded.work)];
    for (const key of keys) this.#index.set(key, (this.#index.get(key) ?? new Set()).add(recorded));
  }
}

function isUnheld({ work, status }: RecordedEffect): boolean {
  return work !== undefined || status === 'started' || status === 'failed';
}

/** By its name and work, and its input without its secrets, as given and with sorted keys. */
function keysOf({ name, inputDigest, work }: StepIdentity): string[] {
  const digests =
    inputDigest === undefined ? [null] : [withoutMarks(inputDigest), withoutMarks(sortedForm(inputDigest))];
  return [...new Set(digests)].map((digest) => JSON.stringify([name, digest, work]));
}

function workKey(work: string | undefined): string {
  return JSON.stringify([work]);
}

function isSame({ inputDigest, nth }: StepIdentity, found: StepIdentity): boolean {
  return nth === found.nth && givenForm(inputDigest ?? '') === givenForm(found.inputDigest ?? '');
}

/** Whether the input is the same as far as is known: with its keys in another order, with fewer or more of its secrets. */
function isAlike({ inputDigest: asked = '' }: StepIdentity, { inputDigest: found = '' }: StepIdentity): boolean {
  return asked !== found && isSameInput(asked, found);
}

/** Throws if the storage cannot record steps: whoever needs them says so before anything is paid for. */
export function checkRecordsSteps({ storage }: Engine, what: string): void {
  if (!(storage instanceof WholeCheckpointStorage)) return;
  throw new UnsupportedError(
    `${what} needs a storage that records steps, and one of three methods (save, load, listByUser) does not. Use one of the built-in storages.`,
  );
}

/** Says that a step cannot be replayed, because nobody can tell which recording would be its own. */
function describeDropped(name: string, branch: string): ReplayMismatchError {
  return new ReplayMismatchError(
    `Step "${name}" cannot be replayed: recordings of branch "${branch}" were dropped. Go on from a checkpoint that is kept, not from the start.`,
    { details: { name, branch } },
  );
}

/** Says why a step cannot be replayed. */
export function describeMismatch(
  name: string,
  recorded: RecordedEffect | undefined,
  inputDigest: InputDigest | undefined,
): ReplayMismatchError {
  return new ReplayMismatchError(`Step "${name}" cannot be replayed: ${findReason(recorded, inputDigest)}.`, {
    details: { name, recordedInput: recorded?.inputDigest ?? null, input: inputDigest ?? null },
  });
}

function findReason(recorded: RecordedEffect | undefined, given: InputDigest | undefined): string {
  if (recorded === undefined) return 'it has no recording left';
  const { ordinal, status, inputDigest: found } = recorded;
  if (status === 'dropped')
    return `its result (effect ${ordinal}) was dropped. Go on from a checkpoint that is kept, not from the start`;
  if (status === 'started') return 'it was still running when the recording ends';
  return given !== undefined && found !== undefined && withoutMarks(given) === withoutMarks(found)
    ? `it got another secret in its input than its recording (effect ${ordinal})`
    : `it got another input than its recording (effect ${ordinal}): ${short(given)} instead of ${short(found)}`;
}

function short(digest: InputDigest | undefined): string {
  return digest === undefined ? 'none' : digest.slice(0, 12);
}
