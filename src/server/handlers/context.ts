import { withoutUndefined } from '../../core/defined.ts';
import type { Call } from './call.ts';
import { compareContexts, contextOf } from './model-context.ts';
import { toMessage } from './transcript.ts';

const DEFAULT_MESSAGES = 200;
/** Of what is gone so many are shown. */
const MAX_DROPPED = 50;

/** What a model is given at a checkpoint, and how that differs from another. */
export async function describeContext({
  manager,
  states,
  params,
  query,
}: Call<'GET /v1/checkpoints/{checkpoint}/context'>) {
  const { parentId, header } = await manager.open(params.checkpoint);
  const { limit = DEFAULT_MESSAGES, before = parentId } = query;
  const speaker = header.metadata?.speaker;
  const asked = query.agent ?? (typeof speaker === 'string' ? speaker : undefined);
  const { messages, path, ...context } = contextOf(await states.load(params.checkpoint), asked);
  const other = before === undefined ? undefined : contextOf(await states.load(before), context.agent);
  const change = compareContexts(other?.messages ?? messages, messages);
  const from = Math.max(0, messages.length - limit);
  return {
    ...context,
    agents: [...context.agents],
    tools: [...context.tools],
    ...withoutUndefined({ before }),
    total: messages.length,
    items: messages
      .slice(from)
      .map((raw, at) => ({ ...toMessage(raw, from + at, { path }), isNew: change.isNew(from + at) })),
    droppedTotal: change.dropped.length,
    dropped: change.dropped
      .slice(-MAX_DROPPED)
      .map((at) => toMessage(other?.messages[at], at, { path: other?.path ?? path })),
    isReordered: change.isReordered,
    isSystemChanged: other !== undefined && other.system !== context.system,
  };
}
