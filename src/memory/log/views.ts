import { InvalidInputError } from '../../core/errors.ts';
import { accepts, date, filledString, isRecord, type OptionChecks } from '../../core/options.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { DEFAULT_BRANCH } from '../../manager/engine/records.ts';
import type { EventPlace, LineageSegment, MemoryEvent, MemoryStorage } from '../storage/memory-storage.ts';
import { Lineages, OPEN_END, type SessionPlace, type Standing } from './lineages.ts';

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
    if (typeof asOf === 'string') return this.#atCheckpoint(asOf, sessions);
    const untilMs = asOf?.getTime();
    if (this.#lineages === undefined) return createView({ untilMs });
    const lineages = await this.#current(sessions, session?.id);
    if (session !== undefined) lineages.set(session.id, (await this.#lineages.ofSession(session)).lineage);
    return createView({ lineages, ends: sessions.ends, untilMs });
  }

  /** What is seen from where something is being learned. */
  async ofPlace(place: EventPlace | undefined, sessions: TaughtSessions): Promise<View> {
    if (this.#lineages === undefined) return createView({});
    const lineages = await this.#current(sessions, place?.sessionId);
    if (place !== undefined) lineages.set(place.sessionId, place.lineage);
    return createView({ lineages, ends: sessions.ends });
  }

  /** The place that events taught by this get. */
  async place({ checkpoint, session }: TeacherOptions): Promise<EventPlace | undefined> {
    if (checkpoint !== undefined) {
      const { checkpoint: found, segments } = await this.#required('A checkpoint as teacher').of(checkpoint);
      const { id, sessionId, branch } = found;
      return { sessionId, branch, checkpointId: id, isAfter: false, lineage: segments };
    }
    if (session === undefined) return undefined;
    const { branch, headId = '', lineage } = (await this.#lineages?.ofSession(session)) ?? standsAlone(session);
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

  async #atCheckpoint(checkpointId: string, sessions: TaughtSessions): Promise<View> {
    const { checkpoint, segments } = await this.#required('asOf a checkpoint').of(checkpointId);
    const own = checkpoint.sessionId;
    const lineages = await this.#current(sessions, own);
    lineages.set(own, segments);
    return createView({ lineages, ends: sessions.ends, untilMs: checkpoint.timestamp.getTime(), own });
  }

  /** A session that is gone without a word keeps the lineage on which it stood or learned last: what it taught does not vanish with it. */
  async #current(sessions: TaughtSessions, except?: string): Promise<Map<string, readonly LineageSegment[]>> {
    const sessionIds = [...sessions.lastPlaces.keys()].filter((id) => id !== except);
    const found = await this.#lineages?.ofCurrent(sessionIds);
    const lineages = new Map<string, readonly LineageSegment[]>();
    for (const id of sessionIds) lineages.set(id, found?.get(id) ?? sessions.lastPlaces.get(id)?.lineage ?? []);
    return lineages;
  }

  #required(what: string): Lineages {
    if (this.#lineages !== undefined) return this.#lineages;
    throw new InvalidInputError(
      `${what} needs to know the checkpoints. Give Memory the option "manager", a CheckpointManager.`,
    );
  }
}

/** Without a manager nobody knows better. */
function standsAlone({ branch = DEFAULT_BRANCH, head }: SessionPlace): Standing {
  return { branch, headId: head?.id, lineage: [{ branch, base: '', to: OPEN_END }] };
}

/** Under which id the log tells where a session stood. */
export function standingId(sessionId: string): string {
  return `session:${sessionId}`;
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

/** What a view is made of. */
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
