import { formatPath } from '../../core/path.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { countNewBytes } from '../../manager/figures/new-bytes.ts';
import { NO_TOTALS, subtractTotals } from '../../runtime/agent/agent-state.ts';
import { readNames, toOutput } from '../../view/checkpoint-output.ts';
import { toJsonForm } from '../../view/json-form.ts';
import { labelOf, unlessDamaged } from '../../view/label.ts';
import { openAt, parseStatePath } from '../../view/state-path.ts';
import { describeNode, partsOf } from '../../view/state-tree.ts';
import { type StateUsage, usageOf } from '../../view/usage.ts';
import type { Call, Handlers } from './call.ts';
import { describeContext } from './context.ts';
import { listMessagesOf } from './transcript.ts';

/** A value that was asked for is shown up to this size, its parts up to a smaller one. */
const MAX_VALUE_BYTES = 64 * 1024;
const MAX_PART_BYTES = 2 * 1024;
const DEFAULT_PARTS = 1_000;

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
  const usage = usageOf(await states.load(id));
  return {
    ...toOutput(checkpoint, names),
    digest,
    stateDigest: header.stateDigest,
    ...(Object.fromEntries(given.map(([field, value]) => [field, toJsonForm(value)])) as Partial<typeof more>),
    children: children.map((child) => child.id),
    isPinned: pins.some(({ target }) => target === id),
    usage,
    ...(await describeStep({ manager, states }, checkpoint, usage)),
  };
}

/** What a checkpoint brought on top of its parent; of one whose parent is gone or damaged, nothing is known. */
async function describeStep(
  { manager, states }: Pick<Call<'GET /v1/checkpoints/{checkpoint}'>, 'manager' | 'states'>,
  { id, parentId }: Checkpoint,
  { totals }: StateUsage,
) {
  const { repository, storage } = manager.engine;
  const { root } = await repository.open(id);
  const parent = parentId === undefined ? undefined : await repository.open(parentId).catch(unlessDamaged);
  if (parent === undefined && parentId !== undefined) return {};
  const before = parent && usageOf(await states.load(parent.checkpoint.id).catch(unlessDamaged)).totals;
  const step = totals && subtractTotals(totals, before ?? NO_TOTALS);
  const isMore = step !== undefined && Object.values(step).every((used) => used >= 0); // an edit may take messages out
  return { newBytes: await countNewBytes(storage, parent?.root, root), ...(isMore && { step }) };
}
