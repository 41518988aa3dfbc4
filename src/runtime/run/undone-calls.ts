import { isRecord } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { EarlierAttempt, StepAttempt } from '../../manager/effect/effect-log.ts';
import { withoutMarks } from '../../manager/effect/input-digest.ts';
import { readRecorded } from '../../manager/effect/recordings.ts';
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
  for (let before = await readBefore(manager, first); before !== undefined; before = await readBefore(manager, first)) {
    const since = new Set((await read(first.branch, first)).map(({ key }) => key));
    const earlier = await readSince(before);
    for (const { key } of await read(first.branch)) if (!since.has(key)) used.add(key);
    first = before;
    made.push(...earlier);
  }
  for (const other of await findRewound(manager, session, first)) made.push(...(await read(other)));
  return { rewoundTo: origin.id, calls: unite(made), used };
}

/** What the branch of a checkpoint began at, if it was begun by a rewind. */
async function readBefore(manager: CheckpointManager, checkpoint: Checkpoint): Promise<Checkpoint | undefined> {
  const to = findOrigin(checkpoint, checkpoint.branch);
  return to === undefined ? undefined : ((await manager.get(to)) ?? undefined);
}

/** What the current branch of a session began at, if it was begun by a rewind. */
async function readOrigin(manager: CheckpointManager, { id, branch, head }: Session): Promise<Checkpoint | undefined> {
  const said = head && findOrigin(head, branch);
  if (said === undefined || (await manager.currentBranch(id)) !== branch) return undefined;
  const origin = await manager.get(said);
  return origin?.branch === branch ? undefined : origin;
}

/** Other branches that were begun by a rewind to a checkpoint or to a later one, of its branch or of one of these. */
async function findRewound(manager: CheckpointManager, { id, branch }: Session, first: Checkpoint): Promise<string[]> {
  const begun: { readonly branch: string; readonly to: string }[] = [];
  for (const other of await manager.branches(id)) {
    const head = other.branch === branch ? null : await manager.get(other.headId);
    const to = head && findOrigin(head, other.branch);
    if (typeof to === 'string' && to >= first.id) begun.push({ branch: other.branch, to });
  }
  const found = new Set([first.branch]);
  for (const other of begun.toSorted((a, b) => (a.to < b.to ? -1 : 1))) {
    const of = (await manager.get(other.to))?.branch;
    if (of !== undefined && found.has(of)) found.add(other.branch);
  }
  return [...found].slice(1);
}

/** Before anything is saved the head is another branch's; a rewind with an edit saves that first. */
function findOrigin({ id, branch: of, metadata, trigger, parentId }: Checkpoint, branch: string): string | undefined {
  if (of !== branch) return id;
  if (typeof metadata?.rewoundTo === 'string') return metadata.rewoundTo;
  return trigger === 'edited' ? parentId : undefined;
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
