import { withoutUndefined } from '../../core/defined.ts';
import { NotFoundError } from '../../core/errors.ts';
import { formatPath } from '../../core/path.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { readEffects } from '../../manager/effect/recordings.ts';
import { countNewBytes } from '../../manager/figures/new-bytes.ts';
import { NO_TOTALS, subtractTotals } from '../../runtime/agent/agent-state.ts';
import { readNames, toOutput } from '../../view/checkpoint-output.ts';
import { toJsonForm } from '../../view/json-form.ts';
import { labelOf, unlessDamaged } from '../../view/label.ts';
import { recordedAt, toEffect, toWholeEffect } from '../../view/record-output.ts';
import { describeNode, openAt, parseStatePath, partsOf } from '../../view/state-path.ts';
import { type StateUsage, usageOf } from '../../view/usage.ts';
import type { Call, Handlers } from './call.ts';
import { describeContext } from './model-context.ts';
import { checkRecorded, openRefs } from './session-refs.ts';
import { listMessagesOf, spanOf } from './transcript.ts';

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
    const { from, to, next } = spanOf(parts.length, DEFAULT_PARTS, query);
    return {
      ...describeNode(path, value, MAX_VALUE_BYTES),
      parts: parts.slice(from, to).map(([step, part]) => describeNode([...path, step], part, MAX_PART_BYTES)),
      ...next,
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
  const [fingerprint, collectedFields, requiredFields] = (
    ['fingerprint', 'collectedFields', 'requiredFields'] as const
  ).map((field) => toJsonForm(checkpoint[field]));
  const usage = usageOf(await states.load(id));
  return {
    ...toOutput(checkpoint, names),
    digest,
    stateDigest: header.stateDigest,
    ...withoutUndefined({ schemaVersion, contextSummary, fingerprint, collectedFields, requiredFields }),
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

const DEFAULT_EFFECTS = 1_000;

/** Answers what is asked about recorded calls. */
export const EFFECT_HANDLERS = {
  'GET /v1/checkpoints/{checkpoint}/effects': async ({ manager, params }) => {
    const checkpoint = await manager.open(params.checkpoint);
    const { sessionId, branch, parentId } = checkpoint;
    const parent = parentId === undefined ? undefined : await manager.get(parentId);
    const fromOrdinal = recordedAt(parent, branch);
    const effects = await readEffects(manager.engine, { sessionId, branch, fromOrdinal });
    return { items: effects.filter(({ ordinal }) => ordinal < recordedAt(checkpoint, branch)).map(toEffect) };
  },
  'GET /v1/sessions/{session}/effects': async ({ manager, params, query }) => {
    const session = await openRefs(manager, params.session);
    const { branch = session.current, after, limit = DEFAULT_EFFECTS } = query;
    checkRecorded(session, branch);
    const start = after === undefined ? undefined : await manager.open(after);
    const fromOrdinal = Math.max(recordedAt(start, branch), Number(query.cursor ?? 0));
    const effects = await readEffects(manager.engine, { sessionId: session.sessionId, branch, fromOrdinal });
    const next = effects[limit]?.ordinal;
    return { items: effects.slice(0, limit).map(toEffect), ...(next !== undefined && { next: String(next) }) };
  },
  'GET /v1/sessions/{session}/effects/{branch}/{ordinal}': async ({ manager, params }) => {
    const { sessionId } = await openRefs(manager, params.session);
    const { branch, ordinal: fromOrdinal } = params;
    const [effect] = await readEffects(manager.engine, { sessionId, branch, fromOrdinal });
    if (effect?.ordinal !== fromOrdinal)
      throw new NotFoundError(`Branch "${branch}" of session "${sessionId}" has no effect ${fromOrdinal}.`);
    return toWholeEffect(manager.engine, effect);
  },
} satisfies Partial<Handlers>;
