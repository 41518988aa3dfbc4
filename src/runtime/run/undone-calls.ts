import { isRecord } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { withoutMarks } from '../../manager/effect/input-digest.ts';
import { readRecorded } from '../../manager/effect/recordings.ts';
import type { EarlierAttempt, StepAttempt } from '../../manager/effect/step.ts';
import { readPath } from '../../manager/engine/records.ts';
import type { Session } from '../../manager/session/session.ts';
import { askedOf, type EffectCall, type Effects } from '../agent/effects.ts';
import type { ToolCall } from '../model/chat-model.ts';
import { type ActingCall, isActing } from './guarded-tools.ts';
import type { DoneCall, OpenWork, WorkSession } from './work.ts';

/** A call of a tool, or a run of code, that was made after the checkpoint which its session was rewound to. */
type UndoneCall = {
  /** What was called and with what. */
  readonly place: string;
  readonly key: string;
  readonly attempt: number;
  readonly isOver: boolean;
  readonly result: unknown;
};

/** What a session was rewound to, which calls were made since, and the keys of those that it asked for again. */
export type Undone = {
  readonly rewoundTo: string;
  readonly calls: readonly UndoneCall[];
  readonly used: ReadonlySet<string>;
};

type Recorded = Awaited<ReturnType<typeof readRecorded>>;
type DigestOf = WorkSession['digestOf'];
type Reply = Pick<DoneCall, 'name' | 'result'>;
/** What a tool was called with, by what is recorded of the call. */
type Places = Map<string, string>;

/** Finds what the session was rewound to, now or before its head was saved, and the calls made since. A call keeps its key on every branch. */
export async function readUndone(
  manager: CheckpointManager,
  session: Session,
  worksOf: (state: unknown) => readonly OpenWork[],
): Promise<Undone | undefined> {
  const origin = await readOrigin(manager, session);
  if (origin === undefined) return undefined;
  const { id: sessionId, branch } = session;
  const digestOf: DigestOf = (value) => session.digestOf(value);
  const places: Places = new Map();
  const note = (replies: readonly Reply[]): void => notePlaces(places, replies, digestOf);
  const read = async (of: string, head?: Checkpoint) => {
    const effects = await readRecorded(manager.engine, { sessionId, branch: of, head });
    note(effects.map(({ name, value: result }) => ({ name, result })));
    return findCalls(effects, places);
  };
  /** A checkpoint in the middle of a move holds what models asked for before it. */
  const readSince = async (checkpoint: Checkpoint) => {
    note(worksOf(await manager.load(checkpoint.id)).flatMap(({ done }) => done));
    return read(checkpoint.branch, checkpoint);
  };
  let first = origin;
  const made = await readSince(first);
  const used = new Set((await read(branch)).map(({ key }) => key));
  const readBefore = () => findOrigin(manager, first, first.branch);
  for (let before = await readBefore(); before !== undefined; before = await readBefore()) {
    const since = new Set((await read(first.branch, first)).map(({ key }) => key));
    const earlier = await readSince(before);
    for (const { key } of await read(first.branch)) if (!since.has(key)) used.add(key);
    first = before;
    made.push(...earlier);
  }
  for (const other of await findRewound(manager, session, first)) made.push(...(await read(other)));
  return { rewoundTo: origin.id, calls: unite(made), used };
}

/** What the current branch of a session began at, if it was begun by a rewind. */
async function readOrigin(manager: CheckpointManager, { id, branch, head }: Session): Promise<Checkpoint | undefined> {
  if (head === undefined || (await manager.currentBranch(id)) !== branch) return undefined;
  return findOrigin(manager, head, branch);
}

/** Other branches that were begun by a rewind to a checkpoint or to a later one, of its branch or of one of these. */
async function findRewound(manager: CheckpointManager, { id, branch }: Session, first: Checkpoint): Promise<string[]> {
  const begun: { readonly branch: string; readonly to: Checkpoint }[] = [];
  for (const other of await manager.branches(id)) {
    const head = other.branch === branch ? null : await manager.get(other.headId);
    const to = head && (await findOrigin(manager, head, other.branch));
    if (to && to.id >= first.id) begun.push({ branch: other.branch, to });
  }
  const found = new Set([first.branch]);
  for (const { branch: other, to } of begun.toSorted((a, b) => (a.to.id < b.to.id ? -1 : 1)))
    if (found.has(to.branch)) found.add(other);
  return [...found].slice(1);
}

/**
 * What a branch began at, by one of its checkpoints, if it was begun by a rewind. Runs say it; what was edited says nothing, so the
 * checkpoint before it counts, down to the one of another branch. A run that does not say it went its own way.
 */
async function findOrigin(
  manager: CheckpointManager,
  checkpoint: Checkpoint,
  branch: string,
): Promise<Checkpoint | undefined> {
  for await (const { checkpoint: at, tombstone } of readPath(manager.engine.storage, checkpoint)) {
    if ((at ?? tombstone).branch !== branch) return at;
    if (at?.fingerprint === undefined) continue;
    const to = at.metadata?.rewoundTo;
    const origin = typeof to === 'string' ? await manager.get(to) : undefined;
    return origin?.branch === branch ? undefined : origin;
  }
  return undefined;
}

/** Of the attempts at a call the one that ended counts, or else the last; of equal calls those that are over come first. */
function unite(made: readonly UndoneCall[]): UndoneCall[] {
  const calls = new Map<string, UndoneCall>();
  for (const call of made.toSorted((a, b) => a.attempt - b.attempt))
    if (calls.get(call.key)?.isOver !== true) calls.set(call.key, call);
  const isOpen = ({ isOver }: UndoneCall): number => Number(!isOver);
  return made
    .flatMap(({ key }) => {
      const call = calls.get(key);
      calls.delete(key);
      return call ?? [];
    })
    .toSorted((a, b) => isOpen(a) - isOpen(b));
}

/**
 * A model names its calls anew each time, so a tool's call is known by what the model asked for, and not by the name it gave it. What it
 * asked for was stored without secrets; the recording of the call has their marks.
 */
function notePlaces(places: Places, replies: readonly Reply[], digestOf: DigestOf): void {
  const asked = replies.flatMap(({ name, result }) => (name.startsWith('model:') ? toolCallsOf(result) : []));
  for (const { id, name, input } of asked)
    places.set(
      `tool:${name} ${withoutMarks(digestOf({ callId: id, input }))}`,
      `tool:${name} ${withoutMarks(digestOf(input))}`,
    );
}

function findCalls(effects: Recorded, places: Places): UndoneCall[] {
  return effects.flatMap(({ name, inputDigest = '', idempotencyKey: key, attempt, status, value }) => {
    const stored = withoutMarks(inputDigest);
    const known = name.startsWith('code:') ? `${name} ${stored}` : places.get(`${name} ${stored}`);
    if (known === undefined) return [];
    const isOver = status === 'done' && !(isRecord(value) && value.isError === true);
    return { place: `${known}${inputDigest.slice(stored.length)}`, key, attempt, isOver, result: value };
  });
}

function toolCallsOf(reply: unknown): readonly ToolCall[] {
  return isRecord(reply) && Array.isArray(reply.toolCalls) ? reply.toolCalls : [];
}

/** Takes results of calls that were made before a rewind, so that nothing is done twice; what did not end, or failed, keeps its key. */
export class UndoneCalls implements Effects {
  readonly #effects: Effects;
  readonly #digestOf: DigestOf;
  readonly #calls: ReadonlyMap<string, UndoneCall>;
  readonly #unused: UndoneCall[];

  constructor(effects: Effects, digestOf: DigestOf, { calls, used }: Undone) {
    this.#effects = effects;
    this.#digestOf = digestOf;
    this.#calls = new Map(calls.map((call) => [call.key, call]));
    this.#unused = calls.filter(({ key }) => !used.has(key));
  }

  async run<Result>(call: EffectCall, perform: (attempt: StepAttempt) => Promise<Result>): Promise<Result> {
    if (!isActing(call)) return this.#effects.run(call, perform);
    return this.#effects.run({ ...call, recall: () => this.#take(call) }, async (attempt) => {
      const undone = this.#calls.get(attempt.idempotencyKey);
      return undone?.isOver === true ? (undone.result as Result) : perform(attempt);
    });
  }

  /** The attempt that the call goes on from; to take a result is no attempt. */
  #take(call: ActingCall): EarlierAttempt | undefined {
    const place = `${call.kind}:${call.name} ${this.#digestOf(askedOf(call))}`;
    const at = this.#unused.findIndex((one) => one.place === place);
    const [undone] = at < 0 ? [] : this.#unused.splice(at, 1);
    return undone && { idempotencyKey: undone.key, attempt: undone.attempt - Number(undone.isOver) };
  }
}
