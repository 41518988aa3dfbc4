import { NotFoundError } from '../../core/errors.ts';
import { readEffects } from '../../manager/effect/recordings.ts';
import { toEffect } from '../../view/effect-output.ts';
import { toJsonForm } from '../../view/json-form.ts';
import type { Handlers } from './call.ts';
import { checkRecorded, openRefs } from './session-refs.ts';

const DEFAULT_EFFECTS = 1_000;

/** Answers what is asked about recorded calls. */
export const EFFECT_HANDLERS = {
  'GET /v1/checkpoints/{checkpoint}/effects': async ({ manager, params }) => {
    const { sessionId, branch, parentId, header } = await manager.open(params.checkpoint);
    const parent = parentId === undefined ? undefined : await manager.get(parentId);
    const fromOrdinal = parent?.branch === branch ? (parent.header.effectCount ?? 0) : 0;
    const effects = await readEffects(manager.engine, { sessionId, branch, fromOrdinal });
    return { items: effects.filter(({ ordinal }) => ordinal < (header.effectCount ?? 0)).map(toEffect) };
  },
  'GET /v1/sessions/{session}/effects': async ({ manager, params, query }) => {
    const session = await openRefs(manager, params.session);
    const { branch = session.current, after, limit = DEFAULT_EFFECTS } = query;
    checkRecorded(session, branch);
    const start = after === undefined ? undefined : await manager.open(after);
    const counted = start?.branch === branch ? (start.header.effectCount ?? 0) : 0;
    const fromOrdinal = Math.max(counted, Number(query.cursor ?? 0));
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
    const { result } = effect;
    if (result === undefined) return toEffect(effect);
    const { codec, repository } = manager.engine;
    return {
      ...toEffect(effect),
      result: toJsonForm(codec.decode(result, await repository.loadChunks(result))) ?? null,
    };
  },
} satisfies Partial<Handlers>;
