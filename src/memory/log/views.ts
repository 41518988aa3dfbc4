import { hasErrorCode, InvalidInputError, isLost } from '../../core/errors.ts';
import { accepts, date, filledString, isRecord, type OptionChecks } from '../../core/options.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { DEFAULT_BRANCH } from '../../manager/engine/records.ts';
import { scopeKey } from '../storage/event-row.ts';
import type { EventPlace, LineageSegment, MemoryEvent, MemoryStorage } from '../storage/memory-storage.ts';
import { foldMemory } from './fold.ts';
import { Lineages, OPEN_END, type SessionPlace } from './lineages.ts';
import type { MemoryContext } from './memory-context.ts';

/** From where one looks. Default: from a new run, which sees the current branch of every session. */
export type ViewOptions = {
  /** As this session knows it on its branch, besides what the current branches of the others know. */
  readonly session?: SessionPlace | undefined;
  /** As it was known at a checkpoint, by its id or a prefix of it, or at a time. */
  readonly asOf?: string | Date | undefined;
};

const place = accepts(
  'a session, { id, branch } or { id }',
  (value) => isRecord(value) && typeof value.id === 'string' && ['string', 'undefined'].includes(typeof value.branch),
);

export const VIEW_CHECKS = {
  session: place,
  asOf: (value) => (typeof value === 'string' ? undefined : date(value)),
} satisfies OptionChecks<ViewOptions>;

/** What taught a memory: a checkpoint that holds it, or a session that has learned it since its head. */
export type TeacherOptions = {
  readonly checkpoint?: string | undefined;
  readonly session?: SessionPlace | undefined;
};

export const TEACHER_CHECKS: OptionChecks<TeacherOptions> = { checkpoint: filledString, session: place };

/** Decides what is visible from where, with the help of the manager whose sessions learn. Without one everything is. */
export class Views {
  readonly #storage: Pick<MemoryStorage, 'readEvents'>;
  readonly #lineages: Lineages | undefined;

  constructor(storage: Pick<MemoryStorage, 'readEvents'>, manager: CheckpointManager | undefined) {
    this.#storage = storage;
    this.#lineages = manager === undefined ? undefined : new Lineages(manager);
  }

  /** What is seen from there, of a log that holds these events. */
  async open({ session, asOf }: ViewOptions, sessions: TaughtSessions): Promise<View> {
    if (typeof asOf !== 'string')
      return this.ofPlace(await this.place({ session }), sessions, { untilMs: asOf?.getTime() });
    const { checkpoint, segments: lineage } = await this.#required('asOf a checkpoint').of(asOf);
    const { sessionId, timestamp } = checkpoint;
    return this.ofPlace({ sessionId, lineage }, sessions, { untilMs: timestamp.getTime(), own: sessionId });
  }

  /** What is seen from where something is being learned. */
  async ofPlace(
    place: Pick<EventPlace, 'sessionId' | 'lineage'> | undefined,
    sessions: TaughtSessions,
    limits: Pick<ViewParts, 'untilMs' | 'own'> = {},
  ): Promise<View> {
    if (this.#lineages === undefined) return createView(limits);
    const others = [...sessions.lastPlaces].filter(([id]) => id !== place?.sessionId);
    const found = await this.#lineages.ofCurrent(others.map(([id]) => id));
    // A session that is gone without a word keeps the lineage on which it stood or learned last: what it taught does not vanish with it.
    const lineages = new Map(others.map(([id, last]) => [id, found.get(id) ?? last.lineage]));
    if (place !== undefined) lineages.set(place.sessionId, place.lineage);
    return createView({ lineages, ends: sessions.ends, ...limits });
  }

  /** What happened to a memory, and what that makes of it as far as it is seen. */
  async history(id: string, open: (sessions: TaughtSessions) => Promise<View>) {
    const events = await this.#storage.readEvents({ memoryIds: [id] });
    const { sees } = await open(await this.sessionsOf(events));
    return { events, sees, memory: foldMemory(events.filter(sees)) };
  }

  /** The place that events taught by this get. */
  async place({ checkpoint, session }: TeacherOptions): Promise<EventPlace | undefined> {
    if (checkpoint !== undefined) {
      const { checkpoint: found, segments } = await this.#required('A checkpoint as teacher').of(checkpoint);
      const { id, sessionId, branch } = found;
      return { sessionId, branch, checkpointId: id, isAfter: false, lineage: segments };
    }
    if (session === undefined) return undefined;
    const { branch: named = DEFAULT_BRANCH, head } = session;
    // Without a manager nobody knows better.
    const alone = { branch: named, headId: head?.id, lineage: [{ branch: named, base: '', to: OPEN_END }] };
    const { branch, headId = '', lineage } = (await this.#lineages?.ofSession(session)) ?? alone;
    return { sessionId: session.id, branch, checkpointId: headId, isAfter: true, lineage };
  }

  /** The sessions that taught what some memories went through. */
  async sessionsOf(events: readonly MemoryEvent[]): Promise<TaughtSessions> {
    const sessions = new TaughtSessions();
    const ids = new Set(events.flatMap(({ place }) => place?.sessionId ?? []));
    if (this.#lineages === undefined || ids.size === 0) return sessions;
    const standings = await this.#storage.readEvents({ memoryIds: [...ids].map(standingId) });
    for (const event of [...events, ...standings].sort((a, b) => a.seq - b.seq)) sessions.take(event);
    return sessions;
  }

  async statusOf(checkpointId: string) {
    return (await this.#lineages?.statusOf(checkpointId)) ?? { status: 'unknown' as const };
  }

  #required(what: string): Lineages {
    if (this.#lineages !== undefined) return this.#lineages;
    throw new InvalidInputError(
      `${what} needs to know the checkpoints. Give Memory the option "manager", a CheckpointManager.`,
    );
  }
}

/** Under which id the log tells where a session stood. */
function standingId(sessionId: string): string {
  return `session:${sessionId}`;
}

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

/** The sessions that taught what a log holds. */
export class TaughtSessions {
  /** Where each learned last, or stood since; without those that ended. */
  readonly lastPlaces = new Map<string, EventPlace>();
  /** Where each ended, oldest first: there may have been several of one name. */
  readonly ends = new Map<string, SessionEnd[]>();

  /** Takes the next event of the log. */
  take({ seq, operation, place }: MemoryEvent): void {
    if (place === undefined) return;
    const { sessionId, lineage } = place;
    if (operation !== 'END') {
      this.lastPlaces.set(sessionId, place);
      return;
    }
    this.lastPlaces.delete(sessionId);
    this.ends.set(sessionId, [...(this.ends.get(sessionId) ?? []), { seq, lineage }]);
  }
}

/** What was visible of a session when it was deleted stays so: it decides about all events before it. */
type SessionEnd = Pick<MemoryEvent, 'seq'> & Pick<EventPlace, 'lineage'>;

/** Which events count. Views with equal keys see the same events, also those that are yet to come. */
export type View = { readonly key: string; readonly sees: (event: MemoryEvent) => boolean };

type ViewParts = {
  /** The lineage of each session; events of a session that is not among them are not seen. Absent: all are. */
  readonly lineages?: ReadonlyMap<string, readonly LineageSegment[]> | undefined;
  readonly ends?: ReadonlyMap<string, readonly SessionEnd[]>;
  /** Events that were stored later are not seen, except those of the session `own`. */
  readonly untilMs?: number | undefined;
  readonly own?: string | undefined;
};

/** Sees what was learned on the given lineages, and what belongs to no session. */
function createView({ lineages, ends = new Map(), untilMs, own }: ViewParts): View {
  const isInTime = ({ atMs, place }: MemoryEvent) =>
    untilMs === undefined || atMs <= untilMs || (own !== undefined && place?.sessionId === own);
  const isOnLineage = ({ seq, place }: MemoryEvent): boolean => {
    if (place === undefined || lineages === undefined) return true;
    const end = ends.get(place.sessionId)?.find((one) => seq < one.seq);
    return (end?.lineage ?? lineages.get(place.sessionId) ?? []).some((segment) => lies(place, segment));
  };
  const ended = [...ends.values()].flat().map(({ seq }) => seq);
  return {
    key: JSON.stringify([lineages === undefined ? null : [...lineages].sort(byName), ended, untilMs, own]),
    sees: (event) => isInTime(event) && isOnLineage(event),
  };
}

const byName = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]) => (a < b ? -1 : 1);

/** What was learned after a checkpoint belongs to the next one of the same branch. */
function lies(
  { branch, checkpointId, isAfter }: { branch: string; checkpointId: string; isAfter: boolean },
  segment: LineageSegment,
): boolean {
  if (branch !== segment.branch) return false;
  return isAfter
    ? segment.base <= checkpointId && checkpointId < segment.to
    : segment.base < checkpointId && checkpointId <= segment.to;
}
