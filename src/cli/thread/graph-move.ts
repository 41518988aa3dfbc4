import { findGraphHeader } from '../../adapter/langgraph/record/graph-header.ts';
import { placeOf } from '../../adapter/langgraph/record/thread-session.ts';
import { UnsupportedError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { Context } from '../base/context.ts';
import { formatAsked, readInterrupts } from './thread-step.ts';

/** Tells whoever moved in a thread of LangGraph that its graph does not follow, and which call lets it; says nothing of other sessions. */
export function tellGraphMove(context: Context, target: Checkpoint, { isEdited = false } = {}): void {
  if (!isThread(target)) return;
  context.say(
    'LangGraph does not follow branches: its graph continues from the latest checkpoint that it saved itself.',
  );
  const config = formatConfig(target);
  if (config === undefined) return;
  context.say(
    isEdited
      ? `To continue from an edited state: graph.updateState(${config}, values)`
      : `To continue from here: graph.invoke(null, ${config})`,
  );
}

/** Refuses to go on in a thread of LangGraph, which only its graph can, and says with which call it does. */
export async function refuseThread(context: Context, target: Checkpoint): Promise<void> {
  if (!isThread(target)) return;
  const config = formatConfig(target);
  const open = (await readInterrupts(await context.open(), target)).filter(({ answer }) => answer === undefined);
  const input = open.length === 0 ? 'null' : 'new Command({ resume: answer })';
  const asked = open.length === 0 ? '' : ` It ${open.map(formatAsked).join('; ')}`;
  throw new UnsupportedError(
    `Session "${target.sessionId}" is a thread of LangGraph, which only its graph can continue.${asked}
In your program: ${config === undefined ? 'graph.invoke(...)' : `graph.invoke(${input}, ${config})`}`,
    { details: { sessionId: target.sessionId, checkpointId: target.id } },
  );
}

function isThread(target: Checkpoint): boolean {
  return findGraphHeader(target) !== undefined || placeOf(target.sessionId) !== undefined;
}

/** What tells a graph where to go on; undefined for a checkpoint that it did not save. */
function formatConfig(target: Checkpoint): string | undefined {
  const graph = findGraphHeader(target);
  if (graph === undefined) return undefined;
  const { threadId, namespace } = graph.place;
  return JSON.stringify({
    configurable: { thread_id: threadId, checkpoint_ns: namespace, checkpoint_id: graph.id },
  });
}
