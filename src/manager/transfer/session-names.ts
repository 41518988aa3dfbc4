import { CorruptError } from '../../core/errors.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import { type CheckpointId, isCheckpointId, isName } from '../../core/record/id.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import type { Ref } from '../../storage/contract.ts';
import { droppedMark } from '../effect/effect-refs.ts';
import { groupOfPin } from '../group/group-pins.ts';
import { findNameFault, isAnswerBranch } from '../revision/ref-name.ts';
import { atLine } from './lines.ts';

/** A name in an exported session. */
export type NameLine = Pick<Ref, 'kind' | 'name' | 'target'>;

/** What is known of a checkpoint or tombstone of the file. */
export type KnownRecord = {
  readonly digest: Digest;
  readonly isLive: boolean;
  readonly sequence: number;
  readonly branch: string;
};

type Placed<Value> = { readonly line: number; readonly value: Value };
type Counted = { readonly id: CheckpointId; readonly branch: string; readonly effectCount: number };

/** Gathers the names and logs of an exported session, and checks at its end that they fit its records. */
export class SessionNames {
  readonly #names = new Map<string, Placed<NameLine>>();
  /** The first effect that each log has, and where it ends. */
  readonly #logs = new Map<string, { readonly first: number; readonly end: number }>();
  /** Of each branch, the checkpoint that counts the most effects. */
  readonly #counted = new Map<string, Placed<Counted>>();

  get names(): NameLine[] {
    return [...this.#names.values()].map(({ value }) => value);
  }

  add(value: NameLine, line: number): void {
    const key = keyOf(value);
    const first = this.#names.get(key);
    if (first !== undefined) throw new CorruptError(`It names ${say(value)} again, as line ${first.line} does.`);
    this.#names.set(key, { line, value });
  }

  addEffect(branch: string, ordinal: number): void {
    const { first, end } = this.#logs.get(branch) ?? { first: ordinal, end: ordinal };
    if (ordinal !== end) throw new CorruptError(`Effect ${ordinal} of "${branch}" comes after ${end} others.`);
    this.#logs.set(branch, { first, end: end + 1 });
  }

  /** Where a log ends, if it begins with what was not dropped. */
  #endOf(branch: string): number {
    const dropped = Number(this.#names.get(keyOf(droppedMark(branch)))?.value.target ?? 0);
    const { first, end } = this.#logs.get(branch) ?? { first: dropped, end: dropped };
    if (first > dropped) throw new CorruptError(`Effect ${first} of "${branch}" comes after ${dropped} others.`);
    return end;
  }

  /** A checkpoint counts the effects of its branch, which come later in the file. */
  addCheckpoint({ id, branch, effectCount = 0, effectsInFlight = [] }: CheckpointHeader, line: number): void {
    const late = effectsInFlight.find((ordinal) => ordinal >= effectCount);
    if (late !== undefined)
      throw new CorruptError(`Checkpoint ${id} has effect ${late} in flight, and counts ${effectCount}.`);
    const most = this.#counted.get(branch)?.value.effectCount ?? 0;
    if (effectCount > most) this.#counted.set(branch, { line, value: { id, branch, effectCount } });
  }

  /** Throws a CorruptError that names the first line which does not fit the others. */
  check(records: ReadonlyMap<CheckpointId, KnownRecord>): void {
    if (this.#names.size === 0) throw new CorruptError('The exported session has no names: no branch, tag or mark.');
    each(this.#names.values(), (name) => this.#checkName(name, records));
    each(this.#counted.values(), ({ id, branch, effectCount }) => {
      const count = this.#endOf(branch);
      if (count < effectCount)
        throw new CorruptError(
          `Checkpoint ${id} counts ${effectCount} effects of "${branch}", and ${count} are in the file.`,
        );
    });
    const loose = [...this.#logs.keys()].find((name) => !this.#has('log', name));
    if (loose !== undefined)
      throw new CorruptError(`The exported session has effects of "${loose}", and no log of it.`);
  }

  #has(kind: Ref['kind'], name: string): boolean {
    return this.#names.has(keyOf({ kind, name }));
  }

  #checkName(name: NameLine, records: ReadonlyMap<CheckpointId, KnownRecord>): void {
    if (!isName(name.name)) throw new CorruptError(`It names ${say(name)}, which is no name.`);
    this.#checkChosen(name);
    const found = records.get(name.target as CheckpointId);
    if (name.kind === 'log') this.#checkLog(name);
    else if (name.kind === 'current') this.#checkCurrent(name, records);
    else if (name.kind === 'mark') checkMark(name, found !== undefined);
    else checkPointed(name, found?.isLive === true);
    if (name.kind === 'pin' && name.name !== name.target && groupOfPin(name) === undefined)
      throw new CorruptError(`The ${say(name)} is neither named after what it points at, nor a group's.`);
  }

  /** What people choose is held to the same as here. */
  #checkChosen(name: NameLine): void {
    if (name.kind !== 'branch' && name.kind !== 'tag') return;
    const fault = isAnswerBranch(name.name) ? undefined : findNameFault(name.name);
    const isHidden = name.kind === 'tag' && this.#has('branch', name.name);
    if (fault === undefined && !isHidden) return;
    const wrong = isHidden ? 'is called as a branch is' : `must not ${fault}`;
    throw new CorruptError(`The ${say(name)} ${wrong}. Give it another name where it comes from, and export again.`);
  }

  #checkLog({ name, target }: NameLine): void {
    const count = this.#endOf(name);
    if (count === 0 || target !== String(count))
      throw new CorruptError(
        `The log ${JSON.stringify(name)} counts ${JSON.stringify(target)} effects, and ${count} are in the file.`,
      );
  }

  /** A branch whose head was deleted may still be the current one. */
  #checkCurrent(name: NameLine, records: ReadonlyMap<CheckpointId, KnownRecord>): void {
    const isDeleted = ({ isLive, branch }: KnownRecord) => !isLive && branch === name.target;
    checkPointed(name, this.#has('branch', name.target) || [...records.values()].some(isDeleted));
  }
}

function each<Value>(placed: Iterable<Placed<Value>>, check: (value: Value) => void): void {
  for (const { line, value } of placed) {
    try {
      check(value);
    } catch (error) {
      throw atLine(line, error);
    }
  }
}

/** Marks may point at anything, but at no checkpoint of others; those that retention reads, at what their names say. */
function checkMark(mark: NameLine, isFound: boolean): void {
  checkPointed(mark, !isCheckpointId(mark.target) || isFound);
  const [what = '', id] = mark.name.split(':');
  const isSound = what === 'dropped' ? /^\d+$/.test(mark.target) : !READ_MARKS.has(what) || id === mark.target;
  if (!isSound) throw new CorruptError(`The ${say(mark)} says ${JSON.stringify(mark.target)}.`);
}

const READ_MARKS: ReadonlySet<string> = new Set(['completed', 'cleared']);

function checkPointed(name: NameLine, isFound: boolean): void {
  if (isFound) return;
  throw new CorruptError(`The ${say(name)} points at ${JSON.stringify(name.target)}, which is not in the file.`);
}

function keyOf({ kind, name }: Pick<NameLine, 'kind' | 'name'>): string {
  return JSON.stringify([kind, name]);
}

function say({ kind, name }: NameLine): string {
  return `${kind} ${JSON.stringify(name)}`;
}
