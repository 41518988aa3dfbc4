import { isRecord } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { StepAttempt } from '../../manager/effect/effect-log.ts';
import { withoutMarks } from '../../manager/effect/input-digest.ts';
import { readRecorded } from '../../manager/effect/recordings.ts';
import type { Session } from '../../manager/session/session.ts';
import { askedOf, type EffectCall, type Effects } from '../agent/effects.ts';
import type { ToolCall } from '../model/chat-model.ts';
import { type ActingCall, isActing } from './guarded-tools.ts';
import type { WorkSession } from './work.ts';

/** A call of a tool, or a run of code, that was made after the checkpoint which its session was rewound to. */
type UndoneCall = { readonly key: string; readonly isOver: boolean; readonly result: unknown };

/** What a session was rewound to, and which calls were made since, by what was called and with what. */
export type Undone = { readonly rewoundTo: string; readonly calls: ReadonlyMap<string, readonly UndoneCall[]> };

type Recorded = Awaited<ReturnType<typeof readRecorded>>;
type DigestOf = WorkSession['digestOf'];

/** Finds what the session was rewound to, now or before its head was saved, and the calls made since that it did not ask for again. */
export async function readUndone(manager: CheckpointManager, session: Session): Promise<Undone | undefined> {
  const origin = await readOrigin(manager, session);
  if (origin === undefined) return undefined;
  const { id: sessionId, branch } = session;
  const digestOf: DigestOf = (value) => session.digestOf(value);
  const read = async (of: string, head?: Checkpoint) =>
    groupCalls(await readRecorded(manager.engine, { sessionId, branch: of, head }), digestOf);
  const made = [await read(origin.branch, origin)];
  for (const other of await findRewound(manager, session, origin)) made.push(await read(other));
  return { rewoundTo: origin.id, calls: subtract(longest(made), await read(branch)) };
}

/** What the current branch of a session began at, if it was begun by a rewind. */
async function readOrigin(manager: CheckpointManager, { id, branch, head }: Session): Promise<Checkpoint | undefined> {
  const said = head && findOrigin(head, branch);
  if (said === undefined || (await manager.currentBranch(id)) !== branch) return undefined;
  const origin = await manager.get(said);
  return origin?.branch === branch ? undefined : origin;
}

/** Other branches that were begun by a rewind to a checkpoint, or to a later one. */
async function findRewound(manager: CheckpointManager, { id, branch }: Session, origin: Checkpoint): Promise<string[]> {
  const found: string[] = [];
  for (const other of await manager.branches(id)) {
    const to: unknown = (await manager.get(other.headId))?.metadata?.rewoundTo;
    const isOther = other.branch !== branch && other.branch !== origin.branch;
    if (isOther && typeof to === 'string' && to >= origin.id) found.push(other.branch);
  }
  return found;
}

/** Before anything is saved the head is another branch's; a rewind with an edit saves that first. */
function findOrigin({ id, branch: of, metadata, trigger, parentId }: Checkpoint, branch: string): string | undefined {
  if (of !== branch) return id;
  if (typeof metadata?.rewoundTo === 'string') return metadata.rewoundTo;
  return trigger === 'edited' ? parentId : undefined;
}

type Grouped = ReadonlyMap<string, readonly UndoneCall[]>;

/** A call that was taken over on another branch is recorded there, too: of equal calls one branch has all there are. */
function longest(all: readonly Grouped[]): Grouped {
  const calls = new Map<string, readonly UndoneCall[]>();
  for (const one of all)
    for (const [place, made] of one) if (made.length > (calls.get(place)?.length ?? 0)) calls.set(place, made);
  return calls;
}

function subtract(calls: Grouped, used: Grouped): Grouped {
  return new Map([...calls].map(([place, made]) => [place, made.slice(used.get(place)?.length ?? 0)]));
}

/**
 * A model names its calls anew each time, so a tool's call is known by what the model asked for, and not by the name it gave it. What it
 * asked for was stored without secrets; the recording of the call has their marks.
 */
function groupCalls(effects: Recorded, digestOf: DigestOf): Grouped {
  const asked = effects.flatMap(({ name, value }) => (name.startsWith('model:') ? toolCallsOf(value) : []));
  const places = new Map(
    asked.map(({ id, name, input }) => [
      `tool:${name} ${withoutMarks(digestOf({ callId: id, input }))}`,
      `tool:${name} ${withoutMarks(digestOf(input))}`,
    ]),
  );
  const calls = new Map<string, UndoneCall[]>();
  for (const { name, inputDigest = '', idempotencyKey, status, value } of effects) {
    const stored = withoutMarks(inputDigest);
    const known = name.startsWith('code:') ? `${name} ${stored}` : places.get(`${name} ${stored}`);
    if (known === undefined) continue;
    const place = `${known}${inputDigest.slice(stored.length)}`;
    const isOver = status === 'done' && !(isRecord(value) && value.isError === true);
    calls.set(place, [...(calls.get(place) ?? []), { key: idempotencyKey, isOver, result: value }]);
  }
  for (const made of calls.values()) made.sort((a, b) => Number(b.isOver) - Number(a.isOver));
  return calls;
}

function toolCallsOf(reply: unknown): readonly ToolCall[] {
  return isRecord(reply) && Array.isArray(reply.toolCalls) ? reply.toolCalls : [];
}

/** Takes results of calls that were made before a rewind, so that nothing is done twice; what did not end, or failed, keeps its key. */
export class UndoneCalls implements Effects {
  readonly #effects: Effects;
  readonly #digestOf: DigestOf;
  readonly #calls: Map<string, readonly UndoneCall[]>;

  constructor(effects: Effects, digestOf: DigestOf, { calls }: Undone) {
    this.#effects = effects;
    this.#digestOf = digestOf;
    this.#calls = new Map(calls);
  }

  async run<Result>(call: EffectCall, perform: (attempt: StepAttempt) => Promise<Result>): Promise<Result> {
    if (!isActing(call)) return this.#effects.run(call, perform);
    return this.#effects.run(call, async (attempt) => {
      const undone = this.#take(call);
      if (undone?.isOver === true) return undone.result as Result;
      return perform(undone === undefined ? attempt : { ...attempt, idempotencyKey: undone.key });
    });
  }

  #take(call: ActingCall): UndoneCall | undefined {
    const place = `${call.kind}:${call.name} ${this.#digestOf(askedOf(call))}`;
    const [first, ...rest] = this.#calls.get(place) ?? [];
    this.#calls.set(place, rest);
    return first;
  }
}
