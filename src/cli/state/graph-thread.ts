import { findGraphHeader } from '../../adapter/langgraph/graph-header.ts';
import { placeOf } from '../../adapter/langgraph/thread-session.ts';
import type { Checkpoint } from '../../core/checkpoint.ts';
import type { Context } from '../context.ts';

/** Tells whoever moved in a thread of LangGraph that its graph does not follow, and how it is told to; says nothing of other sessions. */
export function tellGraphMove(context: Context, target: Checkpoint, { isEdited = false } = {}): void {
  const graph = findGraphHeader(target);
  if (graph === undefined && placeOf(target.sessionId) === undefined) return;
  context.say('LangGraph does not follow branches: its graph goes on from the latest checkpoint that it saved itself.');
  if (graph === undefined) return;
  const { threadId, namespace } = graph.place;
  const configurable = { thread_id: threadId, checkpoint_ns: namespace, checkpoint_id: graph.id };
  const config = JSON.stringify({ configurable });
  context.say(
    isEdited
      ? `To let it go on from an edited state: graph.updateState(${config}, values)`
      : `To let it go on from here: graph.invoke(null, ${config})`,
  );
}
