import type { LineageSegment, MemoryEvent } from '../storage/memory-event.ts';

/** Which events count. Views with equal keys see the same events, also those that are yet to come. */
export type View = { readonly key: string; readonly sees: (event: MemoryEvent) => boolean };

/** What a view is made of. */
type ViewParts = {
  /** The lineage of each session; events of a session that is not among them are not seen. Absent: all are. */
  readonly lineages?: ReadonlyMap<string, readonly LineageSegment[]> | undefined;
  /** Events that were stored later are not seen, except those of the session `own`. */
  readonly untilMs?: number | undefined;
  readonly own?: string | undefined;
};

/** Sees what was learned on the given lineages, and what belongs to no session. */
export function createView({ lineages, untilMs, own }: ViewParts): View {
  const isInTime = ({ atMs, place }: MemoryEvent) =>
    untilMs === undefined || atMs <= untilMs || (own !== undefined && place?.sessionId === own);
  const isOnLineage = ({ place }: MemoryEvent) =>
    place === undefined ||
    lineages === undefined ||
    (lineages.get(place.sessionId) ?? []).some((segment) => lies(place, segment));
  return {
    key: JSON.stringify([lineages === undefined ? null : [...lineages].sort(byName), untilMs, own]),
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
