import { withoutUndefined } from '../../core/defined.ts';
import { formatPath, type PathStep } from '../../core/path.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { readEffects } from '../../manager/effect/recordings.ts';
import { placeOfMessage } from '../../manager/revision/item-messages.ts';
import { type CountedCheckpoint, countBack, countedMessages, readLive } from '../../manager/revision/rounds.ts';
import { listMessages } from '../../manager/revision/transcript.ts';
import { CallBook } from '../../view/call-book.ts';
import { toJsonForm } from '../../view/json-form.ts';
import { type MessageResult, readParts } from '../../view/messages.ts';
import { recordedAt, toEffect } from '../../view/record-output.ts';
import { parseStatePath } from '../../view/state-path.ts';
import { viewOf } from '../../view/state-view.ts';
import { readMetadata } from '../../view/usage.ts';
import type { Call } from './call.ts';

const DEFAULT_MESSAGES = 200;
const MAX_TEXT_CHARS = 20_000;

type Asking = Call<'GET /v1/checkpoints/{checkpoint}/messages'>;
type Effect = ReturnType<typeof toEffect>;

/** The messages of a state, with what was recorded about each. */
export async function listMessagesOf(call: Asking) {
  const { manager, states, params, query } = call;
  const state = await states.load(params.checkpoint);
  const list = listMessages(state);
  if (list === undefined) return { total: 0, items: [] };
  const { from, to, next } = spanOf(list.length, DEFAULT_MESSAGES, query);
  const { transcript } = viewOf(state);
  const path = parseStatePath(transcript ?? '$.messages');
  const book = new CallBook(list);
  const originOf = await findOrigins(call, await manager.open(params.checkpoint), from);
  const items = list.slice(from, to).map((raw, at) => {
    const index = from + at;
    const { effects, ...origin } = originOf(index);
    const message = toMessage(raw, index, { path, later: book.later(index) });
    const recorded = recordedCalls(message.calls, effects);
    return {
      ...message,
      calls: message.calls.map((each, n) => ({ ...each, ...book.alike(index, n), ...recorded[n] })),
      ...withoutUndefined({ answers: book.answers(index) }),
      ...usageOfMessage(raw, effects),
      ...origin,
    };
  });
  return { total: list.length, ...(transcript !== undefined && { transcript }), items, ...next };
}

type Span = {
  readonly limit?: number | undefined;
  readonly last?: boolean | undefined;
  readonly cursor?: string | undefined;
};

/** Which part of a list is asked for, and where the next one begins: going on, or, from the end, going back. */
export function spanOf(total: number, most: number, { limit = most, last = false, cursor }: Span) {
  if (!last) {
    const from = Number(cursor ?? 0);
    const to = from + limit;
    return { from, to, next: to < total ? { next: String(to) } : {} };
  }
  const to = Number(cursor ?? total);
  const from = Math.max(0, to - limit);
  return { from, to, next: from > 0 ? { next: String(from) } : {} };
}

type Origin = { readonly checkpointId?: string; readonly sequence?: number; readonly effects: readonly Effect[] };

/** Which checkpoint brought a message, and what was recorded on the way to it, from an index on; where checkpoints say how many there are. */
async function findOrigins(call: Asking, head: Checkpoint, from: number): Promise<(index: number) => Origin> {
  if (countedMessages(head) === undefined) return () => ({ effects: [] });
  const counted: CountedCheckpoint[] = [];
  const path = call.watch(readLive(call.manager.engine.storage, head), undefined);
  for await (const each of countBack(path)) {
    counted.push(each);
    if (each.messages <= from) break;
  }
  const oldestFirst = counted.reverse();
  const [first] = oldestFirst;
  const floor = first !== undefined && first.messages <= from ? first.checkpoint : undefined;
  const effectsOf = await readBranches(
    call,
    oldestFirst.flatMap(({ checkpoint }) => checkpoint ?? []),
    floor,
  );
  return (index) => {
    const at = oldestFirst.findIndex(({ messages }) => messages > index);
    const [before, origin] = [oldestFirst[at - 1]?.checkpoint, oldestFirst[at]?.checkpoint];
    if (origin === undefined) return { effects: [] };
    return { checkpointId: origin.id, sequence: origin.sequence, effects: effectsOf(before, origin) };
  };
}

/** What the branches of a path recorded between two checkpoints of it; nothing before the floor is asked for. */
async function readBranches({ manager }: Asking, path: readonly Checkpoint[], floor: Checkpoint | undefined) {
  const logs = new Map<string, readonly Effect[]>();
  for (const { sessionId, branch, header } of path.toReversed()) {
    if (logs.has(branch) || header.effectCount === undefined) continue;
    const effects = await readEffects(manager.engine, { sessionId, branch, fromOrdinal: recordedAt(floor, branch) });
    logs.set(branch, effects.map(toEffect));
  }
  return (before: Checkpoint | undefined, origin: Checkpoint): readonly Effect[] => {
    const [first, end] = [before, origin].map((each) => recordedAt(each, origin.branch)) as [number, number];
    return (logs.get(origin.branch) ?? []).filter(({ ordinal }) => ordinal >= first && ordinal < end);
  };
}

/** How long each call took, and whether its result was recorded before: by their names, in order. */
function recordedCalls(calls: readonly { readonly name: string }[], effects: readonly Effect[]) {
  const left = [...effects];
  return calls.map(({ name }) => {
    const at = left.findIndex((effect) => effect.name === name || effect.name === `tool:${name}`);
    const [effect] = at < 0 ? [] : left.splice(at, 1);
    if (effect === undefined) return {};
    const { durationMs, replayedFrom } = effect;
    return { ...withoutUndefined({ durationMs }), isReplayed: replayedFrom !== undefined };
  });
}

/** What a model used for a message: as its calls are recorded, or as the message says itself. */
function usageOfMessage(raw: unknown, effects: readonly Effect[]) {
  const asked = effects.filter(({ inputTokens }) => inputTokens !== undefined);
  const { model, totals } = readMetadata(raw);
  if (asked.length === 0) {
    const { inputTokens, outputTokens } = totals ?? {};
    return withoutUndefined({ model, inputTokens, outputTokens });
  }
  const sum = (field: 'inputTokens' | 'outputTokens' | 'costUsd') =>
    asked.reduce((all, effect) => all + (effect[field] ?? 0), 0);
  const used = { inputTokens: sum('inputTokens'), outputTokens: sum('outputTokens') };
  return {
    ...used,
    ...withoutUndefined({ model: asked.at(-1)?.model ?? model, costUsd: sum('costUsd') || undefined }),
  };
}

/** A message as replies have it, with results that stand in others; what is large of it is cut. */
export function toMessage(
  raw: unknown,
  index: number,
  { path, later = [] }: { readonly path: readonly PathStep[]; readonly later?: readonly MessageResult[] },
) {
  const { speaker, text, calls, results: own } = readParts(raw);
  const results = [...own, ...later];
  const [shown, ...others] = [text, ...calls.map(({ input }) => input), ...results.map(({ output }) => output)].map(
    cut,
  );
  return {
    index,
    speaker,
    text: String(shown?.value ?? ''),
    calls: calls.map((call, at) => ({ ...call, input: others[at]?.value })),
    results: results.map((result, at) => ({ ...result, output: others[calls.length + at]?.value })),
    isCut: [shown, ...others].some((each) => each?.isCut),
    path: formatPath(placeOfMessage(raw) ?? [...path, index]),
  };
}

/** A text or a value of moderate size; the beginning of one that is larger. */
function cut(value: unknown): { readonly value: unknown; readonly isCut: boolean } {
  const form = toJsonForm(value);
  const text = typeof form === 'string' ? form : (JSON.stringify(form) ?? '');
  return text.length > MAX_TEXT_CHARS
    ? { value: text.slice(0, MAX_TEXT_CHARS), isCut: true }
    : { value: form, isCut: false };
}
