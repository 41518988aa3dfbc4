import { InvalidInputError } from '../../core/errors.ts';
import { applyEvent, type FoldedMemory, toRecord } from '../log/fold.ts';
import type { MemoryContext } from '../log/memory-context.ts';
import { sessionsOf, type View } from '../log/views.ts';
import type { MemoryRecord } from '../storage/memory-record.ts';
import type { MemoryEvent } from '../storage/memory-storage.ts';

/** How what a session knows differs between two of its checkpoints. */
export type MemoryDifference = {
  readonly added: readonly MemoryRecord[];
  readonly removed: readonly MemoryRecord[];
  readonly changed: readonly { readonly before: MemoryRecord; readonly after: MemoryRecord }[];
};

/** One memory as two views see it. */
type MemoryChangePair = { readonly before: FoldedMemory | undefined; readonly after: FoldedMemory | undefined };

export async function differencesBetween(
  context: MemoryContext,
  before: string,
  after: string,
): Promise<MemoryDifference> {
  const { views } = context;
  const [first, second] = [await views.lineageOf(before), await views.lineageOf(after)];
  const { sessionId } = first.checkpoint;
  if (sessionId !== second.checkpoint.sessionId) {
    throw new InvalidInputError(
      `Checkpoints of one session can be compared; ${before} belongs to "${sessionId}" and ${after} to "${second.checkpoint.sessionId}".`,
    );
  }
  const events = await eventsAround(context, sessionId);
  const log = sessionsOf(events);
  const pairs = compare(events, await views.ofLineage(first, log), await views.ofLineage(second, log));
  return {
    added: pairs.flatMap(({ before: old, after: now }) => (old === undefined && now ? [toRecord(now)] : [])),
    removed: pairs.flatMap(({ before: old, after: now }) => (now === undefined && old ? [toRecord(old)] : [])),
    changed: pairs.flatMap(({ before: old, after: now }) =>
      old && now ? [{ before: toRecord(old), after: toRecord(now) }] : [],
    ),
  };
}

/** What the current branch of the checkpoint's session learned since that checkpoint. */
export async function changesSince(context: MemoryContext, checkpoint: string): Promise<MemoryChangePair[]> {
  const { views } = context;
  const found = await views.lineageOf(checkpoint);
  const events = await eventsAround(context, found.checkpoint.sessionId);
  const log = sessionsOf(events);
  return compare(events, await views.ofLineage(found, log), await views.open({}, log));
}

/** Only memories that a session had to do with can differ between two of its checkpoints. */
async function eventsAround(context: MemoryContext, sessionId: string): Promise<MemoryEvent[]> {
  const { storage } = context;
  const own = await storage.readEvents({ sessionId });
  const memoryIds = [...new Set(own.map(({ memoryId }) => memoryId))];
  return memoryIds.length === 0 ? [] : storage.readEvents({ memoryIds });
}

function compare(events: readonly MemoryEvent[], first: View, second: View): MemoryChangePair[] {
  const folded = new Map<string, MemoryChangePair>();
  for (const event of events) {
    const { before, after } = folded.get(event.memoryId) ?? { before: undefined, after: undefined };
    folded.set(event.memoryId, {
      before: first.sees(event) ? applyEvent(before, event) : before,
      after: second.sees(event) ? applyEvent(after, event) : after,
    });
  }
  return [...folded.values()].filter(({ before, after }) => before?.version !== after?.version);
}
