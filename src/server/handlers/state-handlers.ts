import { formatPath } from '../../core/path.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { countedMessages, readLive } from '../../manager/revision/rounds.ts';
import { listMessages } from '../../manager/revision/transcript.ts';
import { readNames, toOutput } from '../../view/checkpoint-output.ts';
import { toJsonForm } from '../../view/json-form.ts';
import { labelOf, unlessDamaged } from '../../view/label.ts';
import { openAt, parseStatePath } from '../../view/state-path.ts';
import { describeNode, partsOf } from '../../view/state-tree.ts';
import { viewOf } from '../../view/state-view.ts';
import { usageOf } from '../../view/usage.ts';
import type { Call, Handlers } from './call.ts';
import { describeContext } from './context.ts';
import { toMessage } from './message.ts';

/** A value that was asked for is shown up to this size, its parts up to a smaller one. */
const MAX_VALUE_BYTES = 64 * 1024;
const MAX_PART_BYTES = 2 * 1024;
const DEFAULT_PARTS = 1_000;
const DEFAULT_MESSAGES = 200;

/** Answers what is asked about states. */
export const STATE_HANDLERS = {
  'GET /v1/labels': async ({ manager, query, watch }) => {
    const items = [];
    for await (const id of watch(query.ids, query.ids.length)) {
      const checkpoint = await manager.open(id).catch(unlessDamaged);
      const label = checkpoint && (await labelOf(manager, checkpoint).catch(unlessDamaged));
      if (label !== undefined) items.push(label);
    }
    return { items };
  },
  'GET /v1/checkpoints/{checkpoint}': describeCheckpoint,
  'GET /v1/checkpoints/{checkpoint}/state': async ({ states, params, query }) => {
    const path = parseStatePath(query.path ?? '$');
    const value = openAt(await states.load(params.checkpoint), path);
    const parts = partsOf(value) ?? [];
    const from = Number(query.cursor ?? 0);
    const to = from + (query.limit ?? DEFAULT_PARTS);
    return {
      ...describeNode(path, value, MAX_VALUE_BYTES),
      parts: parts.slice(from, to).map(([step, part]) => describeNode([...path, step], part, MAX_PART_BYTES)),
      ...(to < parts.length && { next: String(to) }),
    };
  },
  'GET /v1/checkpoints/{checkpoint}/value': async ({ manager, states, params, query }) => {
    const path = parseStatePath(query.path ?? '$');
    const value = openAt(await states.load(params.checkpoint), path);
    const form = query.form === 'tagged' ? manager.engine.plainCodec.encodeJson(value) : toJsonForm(value);
    return { path: formatPath(path), value: form ?? null };
  },
  'GET /v1/checkpoints/{checkpoint}/messages': listMessagesOf,
  'GET /v1/checkpoints/{checkpoint}/context': describeContext,
} satisfies Partial<Handlers>;

async function describeCheckpoint({ manager, states, params }: Call<'GET /v1/checkpoints/{checkpoint}'>) {
  const checkpoint = await manager.open(params.checkpoint);
  const { id, sessionId, digest, header } = checkpoint;
  const [names, children, pins] = await Promise.all([
    readNames(manager, sessionId),
    manager.children(id),
    manager.engine.repository.readRefs({ sessionId, kind: 'pin' }),
  ]);
  const { schemaVersion, contextSummary } = header;
  const more = {
    fingerprint: checkpoint.fingerprint,
    collectedFields: checkpoint.collectedFields,
    requiredFields: checkpoint.requiredFields,
  };
  const given = Object.entries({ schemaVersion, contextSummary, ...more }).filter(([, value]) => value !== undefined);
  return {
    ...toOutput(checkpoint, names),
    digest,
    stateDigest: header.stateDigest,
    ...(Object.fromEntries(given.map(([field, value]) => [field, toJsonForm(value)])) as Partial<typeof more>),
    children: children.map((child) => child.id),
    isPinned: pins.some(({ target }) => target === id),
    usage: usageOf(await states.load(id)),
  };
}

async function listMessagesOf(call: Call<'GET /v1/checkpoints/{checkpoint}/messages'>) {
  const { manager, states, params, query } = call;
  const state = await states.load(params.checkpoint);
  const list = listMessages(state);
  if (list === undefined) return { total: 0, items: [] };
  const { from, to, next } = spanOf(query, list.length);
  const { transcript } = viewOf(state);
  const path = parseStatePath(transcript ?? '$.messages');
  const originOf = await findOrigins(call, await manager.open(params.checkpoint), from);
  const items = list.slice(from, to).map((raw, at) => ({ ...toMessage(raw, from + at, path), ...originOf(from + at) }));
  return { total: list.length, ...(transcript !== undefined && { transcript }), items, ...next };
}

type Span = {
  readonly limit?: number | undefined;
  readonly last?: boolean | undefined;
  readonly cursor?: string | undefined;
};

/** Which part of a list is asked for, and where the next one begins: going on, or, from the end, going back. */
function spanOf({ limit = DEFAULT_MESSAGES, last = false, cursor }: Span, total: number) {
  if (!last) {
    const from = Number(cursor ?? 0);
    const to = from + limit;
    return { from, to, next: to < total ? { next: String(to) } : {} };
  }
  const to = Number(cursor ?? total);
  const from = Math.max(0, to - limit);
  return { from, to, next: from > 0 ? { next: String(from) } : {} };
}

type Origin = { readonly checkpointId?: string; readonly sequence?: number };

/** Which checkpoint brought a message, from an index on, where checkpoints say how many there are. */
async function findOrigins(
  { manager, watch }: Call<'GET /v1/checkpoints/{checkpoint}/messages'>,
  head: Checkpoint,
  from: number,
): Promise<(index: number) => Origin> {
  if (countedMessages(head) === undefined) return () => ({});
  const counted: { readonly messages: number; readonly origin: Origin }[] = [];
  for await (const checkpoint of watch(readLive(manager.engine.storage, head), undefined)) {
    const messages = countedMessages(checkpoint);
    if (messages === undefined) continue;
    if (messages <= from) break;
    counted.push({ messages, origin: { checkpointId: checkpoint.id, sequence: checkpoint.sequence } });
  }
  const oldestFirst = counted.reverse();
  return (index) => oldestFirst.find(({ messages }) => messages > index)?.origin ?? {};
}
