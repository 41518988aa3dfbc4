import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { Breather } from '../../storage/breather.ts';
import type { Ref } from '../../storage/contract.ts';
import type { Engine } from '../engine/engine.ts';
import { findCurrentBranch } from '../engine/records.ts';
import { groupOfPin } from '../group/group-pins.ts';
import { parseDue, parseHolder } from '../lease/lease-refs.ts';
import { answeredBranches } from '../revision/ref-name.ts';
import type { RetentionCase } from './retention.ts';
import { MAX_REASONS } from './retention-groups.ts';
import { DAY_MS } from './retention-policy.ts';

/** What the refs of some sessions say about what must stay. */
export type Protections = Required<
  Pick<RetentionCase, 'protections' | 'heads' | 'current' | 'answers' | 'completed' | 'cleared' | 'held' | 'groups'>
> & {
  /** The refs this was read from. */
  readonly refs: ReadonlyMap<SessionId, readonly Ref[]>;
};

/** Reads what protects checkpoints of some sessions, or of all (`undefined`). Pins of the given names protect nothing any more. */
export async function readProtections(
  { repository, ports, keepers }: Engine,
  sessionIds: Iterable<SessionId | undefined>,
  stalePins: ReadonlySet<string>,
): Promise<Protections> {
  const breather = new Breather();
  const found = new ProtectionReader(ports.now(), stalePins);
  for (const sessionId of sessionIds) {
    const refs = await repository.readRefs(sessionId === undefined ? {} : { sessionId });
    await breather.each(refs, (ref) => found.add(ref));
  }
  for (const { openBranches = [] } of keepers) for (const open of openBranches) found.addOpen(open);
  return found.finish();
}

/** Refs without pins that were removed since. */
export function withoutPins(refs: Protections['refs'], pins: readonly Ref[]): Protections['refs'] {
  if (pins.length === 0) return refs;
  const names = new Set(pins.map(({ name }) => name));
  const isLeft = ({ kind, name }: Ref): boolean => kind !== 'pin' || !names.has(name);
  return new Map([...refs].map(([sessionId, known]) => [sessionId, known.filter(isLeft)]));
}

/** Sorts refs by what they mean for retention. */
class ProtectionReader {
  readonly protections = new Map<CheckpointId, string[]>();
  readonly heads = new Map<CheckpointId, string[]>();
  readonly current = new Set<CheckpointId>();
  readonly answers = new Map<CheckpointId, CheckpointId[]>();
  readonly completed = new Set<CheckpointId>();
  readonly cleared = new Set<CheckpointId>();
  readonly held = new Set<SessionId>();
  readonly groups = new Map<CheckpointId, CheckpointId[]>();
  readonly refs = new Map<SessionId, Ref[]>();
  readonly #nowMs: number;
  readonly #stalePins: ReadonlySet<string>;

  constructor(nowMs: number, stalePins: ReadonlySet<string>) {
    this.#nowMs = nowMs;
    this.#stalePins = stalePins;
  }

  add(ref: Ref): void {
    const known = this.refs.get(ref.sessionId);
    if (known === undefined) this.refs.set(ref.sessionId, [ref]);
    else known.push(ref);
    const id = ref.target as CheckpointId;
    if (ref.kind === 'branch') note(this.heads, id, `head of branch ${ref.name}`);
    else if (ref.kind === 'tag') this.#protect(ref, `tagged ${ref.name}`);
    else if (ref.kind === 'pin' && !this.#stalePins.has(ref.name)) this.#addPin(ref);
    else if (ref.kind === 'mark') this.#addMark(ref);
    else if (ref.kind === 'group') this.held.add(ref.sessionId); // it is being saved
  }

  /** A branch that somebody here saves to is like the current one. */
  addOpen({ id, branch }: { readonly id: SessionId; readonly branch: string }): void {
    const head = this.refs.get(id)?.find(({ kind, name }) => kind === 'branch' && name === branch);
    if (head !== undefined) this.current.add(head.target as CheckpointId);
  }

  /** What a group checkpoint pins goes with it. */
  #addPin(ref: Ref): void {
    const groupId = groupOfPin(ref);
    if (groupId === undefined) this.#protect(ref, 'pinned');
    else this.groups.set(groupId, [...(this.groups.get(groupId) ?? []), ref.target as CheckpointId]);
  }

  #protect(ref: Ref, reason: string): void {
    note(this.protections, ref.target as CheckpointId, reason);
    this.held.add(ref.sessionId);
  }

  #addMark({ name, target, sessionId }: Ref): void {
    if (name.startsWith('completed:')) this.completed.add(target as CheckpointId);
    else if (name.startsWith('cleared:')) this.cleared.add(target as CheckpointId);
    else if (name === KEEP_MARK) this.held.add(sessionId);
  }

  finish(): Protections {
    for (const refs of this.refs.values()) this.#finishSession(refs);
    return this;
  }

  /** What needs the branches of a session to be known. */
  #finishSession(refs: readonly Ref[]): void {
    const branches = new Map(refs.filter(({ kind }) => kind === 'branch').map(({ name, target }) => [name, target]));
    const dues = new Map(refs.filter(({ kind }) => kind === 'due').map(({ name, target }) => [name, target]));
    const current = findCurrentBranch(refs);
    this.current.add(branches.get(current) as CheckpointId);
    for (const ref of refs) {
      const isHeld = ref.kind === 'lease' && this.#isHeld(ref.target, dues.get(ref.name));
      const target = branches.get(ref.name);
      if (ref.kind === 'branch') this.#addAnswer(ref, branches);
      if (isHeld && target !== undefined) this.#protect({ ...ref, target }, describeLease(ref));
    }
  }

  #addAnswer({ name, target }: Ref, branches: ReadonlyMap<string, string>): void {
    const asking = [...answeredBranches(name)].flatMap((branch) => branches.get(branch) ?? []);
    if (asking.length > 0) this.answers.set(target as CheckpointId, asking as CheckpointId[]);
  }

  /** What a crashed worker left waits a day for its recovery. */
  #isHeld(lease: string, due: string | undefined): boolean {
    if (parseHolder(lease).holder === '') return false;
    return due === undefined || parseDue(due).dueAtMs + DAY_MS > this.#nowMs;
  }
}

/** The name of a mark that keeps a session from being ended by limits and age: for what is no history, such as a store. */
export const KEEP_MARK = 'keep';

function note(reasons: Map<CheckpointId, string[]>, id: CheckpointId, reason: string): void {
  const known = reasons.get(id);
  if (known === undefined) reasons.set(id, [reason]);
  else if (known.length < MAX_REASONS) known.push(reason);
  else if (known.length === MAX_REASONS) known.push('and more');
}

function describeLease({ target, name }: Ref): string {
  const { owner } = parseHolder(target);
  return `branch ${name} is leased${owner === undefined ? '' : ` by ${owner}`}`;
}
