import { hasErrorCode, isLost } from '../../core/errors.ts';
import { scopeKey } from '../storage/event-row.ts';
import type { EventPlace, MemoryEvent } from '../storage/memory-storage.ts';
import type { MemoryContext } from './memory-context.ts';
import { standingId, type Views } from './views.ts';

/** What notes where sessions stand. */
type StandingContext = Pick<MemoryContext, 'storage' | 'views' | 'now'>;

/**
 * Notes where a session stands, if it taught anything. Returns how to note that it ended there: from then on what it had taught is seen
 * as it was from there, also when another session has its name.
 */
export async function noteStanding(context: StandingContext, sessionId: string): Promise<() => Promise<void>> {
  const place = await findPlace(context.views, sessionId);
  if (place === undefined) return async () => undefined;
  await append(context, place, 'STAND');
  return () => append(context, place, 'END');
}

/** Undefined for a session that is not there, or is damaged: it may be deleted, too. */
async function findPlace(views: Views, sessionId: string): Promise<EventPlace | undefined> {
  try {
    return await views.place({ session: { id: sessionId } });
  } catch (error) {
    if (!hasErrorCode(error, 'NOT_FOUND') && !isLost(error)) throw error;
    return undefined;
  }
}

/** One event in each scope that the session taught, because logs are read by scopes. */
async function append({ storage, now }: StandingContext, place: EventPlace, operation: 'STAND' | 'END'): Promise<void> {
  const { sessionId } = place;
  const lasts = new Map<string, MemoryEvent>();
  for (const event of await storage.readEvents({ sessionId })) lasts.set(scopeKey(event.scope), event);
  const line = JSON.stringify(place.lineage);
  const isNews = (last: MemoryEvent) =>
    last.operation !== 'END' && (operation === 'END' || JSON.stringify(last.place?.lineage) !== line);
  const events = [...lasts.values()]
    .filter(isNews)
    .map(({ scope }) => ({ memoryId: standingId(sessionId), operation, scope, place, atMs: now() }));
  if (events.length > 0) await storage.append(events);
}
