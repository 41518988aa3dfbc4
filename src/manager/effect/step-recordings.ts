import { ReplayMismatchError, UnsupportedError } from '../../core/errors.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import { WholeCheckpointStorage } from '../../storage/whole/whole-storage.ts';
import type { Engine } from '../engine/engine.ts';
import type { RecordedEffect } from './effect-record.ts';
import { givenForm, type InputDigest, isSameInput, sortedForm, withoutMarks } from './input-digest.ts';
import { LeftSteps } from './left-steps.ts';

/** What a step is known by: its name, its input, and, in a work, which of several equal calls it is. */
export type StepIdentity = {
  readonly name: string;
  readonly inputDigest?: InputDigest | undefined;
  readonly work?: string | undefined;
  readonly nth?: number | undefined;
};

/** What stays the same in every attempt. */
export function identityOf(given: StepIdentity & { readonly idempotencyKey: string }) {
  const { name, idempotencyKey, inputDigest, work, nth } = given;
  return {
    name,
    idempotencyKey,
    ...(inputDigest !== undefined && { inputDigest }),
    ...(work !== undefined && { work }),
    ...(nth !== undefined && { nth }),
  };
}

/** The recordings that a session may use, and where its own log goes on. */
export type OpenedLog = {
  readonly recordings: readonly RecordedEffect[];
  readonly nextOrdinal: number;
  /** Whether the program runs again from its start. */
  readonly isFromStart?: boolean;
  /** A branch of which recordings are wanted that were dropped: no step can tell which is its own. */
  readonly dropped?: string | undefined;
};

/** What a checkpoint says about the log of its branch. */
type LogPosition = Pick<CheckpointHeader, 'effectCount' | 'effectsInFlight'>;

/** Failed steps that are remembered for a retry; who retries does so before this many others failed. */
const MAX_FAILED = 1000;

/** The recordings that steps may use, each once. Steps with an input find theirs in any order, others in the order of the calls. */
export class StepRecordings {
  readonly #recordings = new Map<string, RecordedEffect[]>();
  /** Those with an input, by what it is without its secrets, as given and with sorted keys. */
  readonly #alike = new Map<string, Set<RecordedEffect>>();
  /** Those of works, which may be asked for until their work is over. */
  readonly #works = new Map<string, Set<RecordedEffect>>();
  /** What failed in this process; oldest first. */
  readonly #failed = new Set<RecordedEffect>();
  readonly #left: LeftSteps;
  readonly #dropped: string | undefined;

  constructor(log: OpenedLog & { readonly branch: string }) {
    this.#dropped = log.dropped;
    this.#left = new LeftSteps(log);
    for (const recorded of log.recordings) {
      this.#add(recorded, 'last');
      if (recorded.work === undefined) continue;
      const ofWork = this.#works.get(recorded.work) ?? new Set();
      this.#works.set(recorded.work, ofWork.add(recorded));
    }
  }

  /** What a checkpoint saved now says, if so many effects are stored and these are running. */
  positionAt(storedCount: number, running: ReadonlySet<number>): LogPosition {
    const { count, left } = this.#left.before(storedCount);
    if (count === 0) return {};
    const open = new Set([...running, ...left]);
    const inFlight = [...open].filter((ordinal) => ordinal < count).toSorted((a, b) => a - b);
    return { effectCount: count, ...(inFlight.length > 0 && { effectsInFlight: inFlight }) };
  }

  /** Those of one work that it has not asked for yet. */
  unseenOf(work: string): RecordedEffect[] {
    return [...(this.#works.get(work) ?? [])];
  }

  /** Lets go of what was recorded under a name, without an input. */
  letGo(name: string): void {
    for (const recorded of this.#recordings.get(keyOf({ name }))?.slice() ?? []) this.#remove(recorded);
  }

  /** Lets go of the recordings of a work that is over. */
  settle(work: string): void {
    for (const recorded of this.#works.get(work) ?? []) this.#remove(recorded);
    this.#works.delete(work);
  }

  /**
   * The next recording of a step. `isExact` keeps to the order, else a finished one goes before its failed attempts. In a work equal
   * recordings are attempts at one call, so there it always does. `formerly` is the name under which an older version recorded it.
   */
  take(
    asked: StepIdentity & { readonly formerly?: string | undefined },
    how: { readonly isExact: boolean },
  ): RecordedEffect | undefined {
    const { inputDigest, formerly } = asked;
    const recorded = this.#take(asked, how);
    if (recorded !== undefined || formerly === undefined) return recorded;
    return this.#take({ name: formerly, inputDigest }, how) ?? this.#take({ name: formerly }, how);
  }

  #take(identity: StepIdentity, { isExact }: { readonly isExact: boolean }): RecordedEffect | undefined {
    if (this.#dropped !== undefined) throw describeDropped(identity.name, this.#dropped);
    const fitting = this.#recordings.get(keyOf(identity)) ?? this.#findAlike(identity);
    const isInOrder = identity.work === undefined && (isExact || identity.inputDigest === undefined);
    const taken = (isInOrder ? undefined : fitting.find(hasResult)) ?? fitting[0];
    if (taken !== undefined) this.#remove(taken);
    return taken;
  }

  /** Those whose input is the same as far as is known: with its keys in another order, with fewer or more of its secrets. */
  #findAlike(identity: StepIdentity): RecordedEffect[] {
    const { inputDigest: asked } = identity;
    const alike = new Set(alikeKeysOf(identity).flatMap((key) => [...(this.#alike.get(key) ?? [])]));
    return [...alike].filter(({ inputDigest: found }) => asked !== found && isSameInput(asked ?? '', found ?? ''));
  }

  /** The oldest recording of this name that is left: what was recorded instead. */
  findOther(name: string): RecordedEffect | undefined {
    const others = [...this.#recordings.values()].flat().filter((recorded) => recorded.name === name);
    return others.toSorted((a, b) => a.ordinal - b.ordinal)[0];
  }

  /** Keeps the place and the key of a step that failed for the next call of the same identity. */
  keepForRetry(failed: RecordedEffect): void {
    this.#add(failed, 'first');
    this.#failed.add(failed);
    this.#left.addFailed(failed);
    for (const oldest of this.#failed) {
      if (this.#failed.size <= MAX_FAILED) break;
      this.#remove(oldest);
    }
  }

  #remove(recorded: RecordedEffect): void {
    this.#failed.delete(recorded);
    this.#left.remove(recorded);
    this.#works.get(recorded.work ?? '')?.delete(recorded);
    for (const alike of alikeKeysOf(recorded)) this.#alike.get(alike)?.delete(recorded);
    const key = keyOf(recorded);
    const list = this.#recordings.get(key) ?? [];
    list.splice(list.indexOf(recorded), 1);
    if (list.length === 0) this.#recordings.delete(key);
  }

  clear(): void {
    this.#recordings.clear();
    this.#alike.clear();
    this.#works.clear();
    this.#failed.clear();
    this.#left.clear();
  }

  #add(recorded: RecordedEffect, place: 'first' | 'last'): void {
    const list = this.#recordings.get(keyOf(recorded)) ?? [];
    this.#recordings.set(keyOf(recorded), list);
    if (place === 'first') list.unshift(recorded);
    else list.push(recorded);
    for (const key of alikeKeysOf(recorded)) this.#alike.set(key, (this.#alike.get(key) ?? new Set()).add(recorded));
  }
}

function hasResult({ status }: RecordedEffect): boolean {
  return status === 'done' || status === 'dropped';
}

function keyOf({ name, inputDigest, work, nth }: StepIdentity): string {
  return JSON.stringify([name, inputDigest && givenForm(inputDigest), work, nth]);
}

function alikeKeysOf({ name, inputDigest, work }: StepIdentity): string[] {
  if (inputDigest === undefined) return [];
  const digests = new Set([withoutMarks(inputDigest), withoutMarks(sortedForm(inputDigest))]);
  return [...digests].map((digest) => JSON.stringify([name, digest, work]));
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
  const details = { name, recordedInput: recorded?.inputDigest ?? null, input: inputDigest ?? null };
  if (recorded === undefined)
    return new ReplayMismatchError(`Step "${name}" has no recording left to replay.`, { details });
  if (recorded.status === 'dropped')
    return new ReplayMismatchError(
      `The result of step "${name}" (effect ${recorded.ordinal}) was dropped. Go on from a checkpoint that is kept, not from the start.`,
      { details },
    );
  if (recorded.status === 'started')
    return new ReplayMismatchError(`Step "${name}" was still running when the recording ends.`, { details });
  return new ReplayMismatchError(
    `Step "${name}" (effect ${recorded.ordinal}) got another ${compare(inputDigest, recorded.inputDigest)}.`,
    { details },
  );
}

function compare(given: InputDigest | undefined, recorded: InputDigest | undefined): string {
  return given !== undefined && recorded !== undefined && withoutMarks(given) === withoutMarks(recorded)
    ? 'secret in its input than the recording'
    : `input than the recording: ${short(given)} instead of ${short(recorded)}`;
}

function short(digest: InputDigest | undefined): string {
  return digest === undefined ? 'none' : digest.slice(0, 12);
}
