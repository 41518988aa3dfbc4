import { addTo } from '../../core/group-by.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { Breather } from '../../storage/breather.ts';
import type { Ref } from '../../storage/contract.ts';
import { readEffects } from '../effect/recordings.ts';
import type { Engine } from '../engine/engine.ts';
import { findCurrentBranch } from '../engine/records.ts';
import { groupOfPin } from '../group/group-pins.ts';
import { parseDue, parseHolder } from '../lease/lease-refs.ts';
import { answeredBranches, isAnswerBranch } from '../revision/ref-name.ts';
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
    addTo(this.refs, ref.sessionId, ref);
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
    else addTo(this.groups, groupId, ref.target as CheckpointId);
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
  const count = reasons.get(id)?.length ?? 0;
  if (count <= MAX_REASONS) addTo(reasons, id, count < MAX_REASONS ? reason : 'and more');
}

function describeLease({ target, name }: Ref): string {
  const { owner } = parseHolder(target);
  return `branch ${name} is leased${owner === undefined ? '' : ` by ${owner}`}`;
}

/** The step by which an agent loop accepts a message: it is acknowledged from then on. What it records of none is `null`. */
export const ACCEPT_STEP = 'deliver';
const NO_MESSAGE = 'null';

/** What the reason of a verdict says of whoever waits. */
export const STILL_WAITS = 'still waits';

/** Heads that somebody waits for, each with the reason: a run that asks a person or was answered, an agent with messages. Age alone does not end them. */
export async function findWaiting(
  engine: Engine,
  headers: readonly CheckpointHeader[],
  { refs: sessions, answers }: Pick<Protections, 'refs' | 'answers'>,
): Promise<Map<CheckpointId, string>> {
  const byId = new Map(headers.map((header) => [header.id, header]));
  const found = findAnswered(answers);
  const breather = new Breather();
  for (const refs of sessions.values())
    for (const { kind, name, target } of refs) {
      const head = kind === 'branch' && !isAnswerBranch(name) ? byId.get(target as CheckpointId) : undefined;
      const what = head && (waitingStatus(head) ?? (await findAccepted(engine, head, { name, refs })));
      if (head !== undefined && what !== undefined) found.set(head.id, `${STILL_WAITS}: ${what}`);
      if (breather.isDue) await breather.breathe();
    }
  return found;
}

/** Heads that somebody answered, with nothing saved since. */
function findAnswered(answers: Protections['answers']): Map<CheckpointId, string> {
  const answered = [...answers].flatMap(([answer, asking]) => asking.filter((id) => id < answer));
  return new Map(answered.map((id) => [id, `${STILL_WAITS}: answered, and not resumed since`]));
}

/** How a run says that it asked somebody. A single agent says the same when it has replied: it rests. */
const ASKED = 'waiting_for_input';

function waitingStatus({ status, agentId }: CheckpointHeader): string | undefined {
  if (status === ASKED && agentId !== undefined) return undefined;
  return status?.startsWith('waiting') ? `status ${status}` : undefined;
}

/** Messages that were accepted after the head was saved are in no state yet. */
async function findAccepted(
  engine: Engine,
  { sessionId, branch, effectCount = 0 }: CheckpointHeader,
  { name, refs }: { readonly name: string; readonly refs: readonly Ref[] },
): Promise<string | undefined> {
  const fromOrdinal = branch === name ? effectCount : 0;
  const log = refs.find((ref) => ref.kind === 'log' && ref.name === name);
  if (Number(log?.target ?? 0) <= fromOrdinal) return undefined;
  const effects = await readEffects(engine, { sessionId, branch: name, fromOrdinal });
  const accepted = effects.filter(
    (effect) => effect.name === ACCEPT_STEP && effect.status === 'done' && effect.result?.text !== NO_MESSAGE,
  );
  return accepted.length === 0 ? undefined : `${accepted.length} accepted since its last checkpoint`;
}
