import { CorruptError } from '../../core/errors.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import { type CheckpointId, isCheckpointId, isName } from '../../core/record/id.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import type { Ref } from '../../storage/contract.ts';
import { refKey } from '../../storage/held-session.ts';
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

/** Gathers the names and logs of an exported session, and checks at its end that they fit its records. */
export class SessionNames {
  readonly #records: ReadonlyMap<CheckpointId, KnownRecord>;
  readonly #names = new Map<string, { readonly line: number; readonly name: NameLine }>();
  /** The first effect that each log has, and where it ends. */
  readonly #logs = new Map<string, { readonly first: number; readonly end: number }>();
  /** What can be said of a line only when all were read. */
  readonly #checks: { readonly line: number; readonly check: () => void }[] = [];

  constructor(records: ReadonlyMap<CheckpointId, KnownRecord>) {
    this.#records = records;
  }

  get names(): NameLine[] {
    return [...this.#names.values()].map(({ name }) => name);
  }

  add(name: NameLine, line: number): void {
    const first = this.#find(name);
    if (first !== undefined) throw new CorruptError(`It names ${say(name)} again, as line ${first.line} does.`);
    this.#names.set(refKey(name), { line, name });
    this.#checks.push({ line, check: () => this.#checkName(name) });
  }

  addEffect(branch: string, ordinal: number): void {
    const { first, end } = this.#logs.get(branch) ?? { first: ordinal, end: ordinal };
    if (ordinal !== end) throw new CorruptError(`Effect ${ordinal} of "${branch}" comes after ${end} others.`);
    this.#logs.set(branch, { first, end: end + 1 });
  }

  /** A checkpoint counts the effects of its branch, which come later in the file. */
  addCheckpoint({ id, branch, effectCount = 0, effectsInFlight = [] }: CheckpointHeader, line: number): void {
    const late = effectsInFlight.find((ordinal) => ordinal >= effectCount);
    if (late !== undefined)
      throw new CorruptError(`Checkpoint ${id} has effect ${late} in flight, and counts ${effectCount}.`);
    const check = () => {
      const found = this.#endOf(branch);
      if (found >= effectCount) return;
      throw new CorruptError(
        `Checkpoint ${id} counts ${effectCount} effects of "${branch}", and ${found} are in the file.`,
      );
    };
    if (effectCount > 0) this.#checks.push({ line, check });
  }

  /** Throws a CorruptError that names the first line which does not fit the others. */
  check(): void {
    if (this.#names.size === 0) throw new CorruptError('The exported session has no names: no branch, tag or mark.');
    for (const { line, check } of this.#checks) {
      try {
        check();
      } catch (error) {
        throw atLine(line, error);
      }
    }
    const loose = [...this.#logs.keys()].find((name) => this.#find({ kind: 'log', name }) === undefined);
    if (loose !== undefined)
      throw new CorruptError(`The exported session has effects of "${loose}", and no log of it.`);
  }

  /** Where a log ends, if it begins with what was not dropped. */
  #endOf(branch: string): number {
    const dropped = Number(this.#find(droppedMark(branch))?.name.target ?? 0);
    const { first, end } = this.#logs.get(branch) ?? { first: dropped, end: dropped };
    if (first > dropped) throw new CorruptError(`Effect ${first} of "${branch}" comes after ${dropped} others.`);
    return end;
  }

  #find(name: Pick<NameLine, 'kind' | 'name'>) {
    return this.#names.get(refKey(name));
  }

  #checkName(name: NameLine): void {
    if (!isName(name.name)) throw new CorruptError(`It names ${say(name)}, which is no name.`);
    this.#checkChosen(name);
    if (name.kind === 'log') this.#checkLog(name);
    else if (!this.#isPointing(name))
      throw new CorruptError(`The ${say(name)} points at ${JSON.stringify(name.target)}, which is not in the file.`);
    if (name.kind === 'mark' && !isSoundMark(name))
      throw new CorruptError(`The ${say(name)} says ${JSON.stringify(name.target)}.`);
    if (name.kind === 'pin' && name.name !== name.target && groupOfPin(name) === undefined)
      throw new CorruptError(`The ${say(name)} is neither named after what it points at, nor a group's.`);
  }

  /** What people choose is held to the same as here. */
  #checkChosen(name: NameLine): void {
    if (name.kind !== 'branch' && name.kind !== 'tag') return;
    const fault = isAnswerBranch(name.name) ? undefined : findNameFault(name.name);
    const isHidden = name.kind === 'tag' && this.#find({ kind: 'branch', name: name.name }) !== undefined;
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

  /** Marks may point at anything, but at no checkpoint of others. A branch whose head was deleted may still be the current one. */
  #isPointing({ kind, target }: NameLine): boolean {
    const found = this.#records.get(target as CheckpointId);
    if (kind === 'mark') return !isCheckpointId(target) || found !== undefined;
    if (kind !== 'current') return found?.isLive === true;
    const isDeleted = ({ isLive, branch }: KnownRecord) => !isLive && branch === target;
    return this.#find({ kind: 'branch', name: target }) !== undefined || [...this.#records.values()].some(isDeleted);
  }
}

/** Marks that retention reads say what their names say. */
function isSoundMark({ name, target }: NameLine): boolean {
  const [what = '', id] = name.split(':');
  if (what === 'dropped') return /^\d+$/.test(target);
  return (what !== 'completed' && what !== 'cleared') || id === target;
}

function say({ kind, name }: NameLine): string {
  return `${kind} ${JSON.stringify(name)}`;
}
