import { useEffect, useRef, useState } from 'react';
import type { Reply } from '../data/server.ts';
import type { TimelineView } from '../data/timeline.ts';
import { setQuery } from '../frame/place.ts';

/** Which checkpoint is looked at; all of it is in the address. */
export type Selection = {
  /** Its place in the timeline; -1 while that is read. */
  readonly at: number;
  readonly id: string | undefined;
  /** The second one, to compare with; -1 if there is none. */
  readonly second: number;
  readonly branch: string;
  /** Whether the newest checkpoint of the branch is always the selected one. */
  readonly isFollowing: boolean;
  /** How many came since the person stopped following. */
  readonly newCount: number;
  readonly select: (at: number) => void;
  readonly compareWith: (at: number) => void;
  readonly step: (by: number) => void;
  readonly parent: () => void;
  readonly child: () => void;
  readonly follow: () => void;
  readonly mark: () => void;
};

/** The selection as the address has it: `at`, `vs`, `branch`; without `at` the newest one is followed. */
export function useSelection(
  { timeline, version, isLoading }: TimelineView,
  session: Reply<'GET /v1/sessions/{session}'> | undefined,
  query: URLSearchParams,
): Selection {
  const branch = query.get('branch') ?? session?.currentBranch ?? timeline.names.branches[0] ?? 'main';
  const asked = query.get('at') ?? undefined;
  const isFollowing = asked === undefined;
  const at = isFollowing ? timeline.tipOf(branch) : timeline.find(asked);
  const [seen, setSeen] = useState(Number.POSITIVE_INFINITY);
  /** What is there when the page opens, and what came while it was followed, is not new. */
  const isFresh = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the timeline grows in place, its version tells
  useEffect(() => {
    if (isFollowing || isFresh.current) setSeen(timeline.length);
    isFresh.current = isFollowing || isLoading;
  }, [isFollowing, isLoading, timeline, version]);
  const select = (to: number) => {
    const id = timeline.ids[to];
    if (id !== undefined) setQuery({ at: id, branch: timeline.branchOf(to) }, { replace: true });
  };
  const childOf = () => {
    const next = timeline.parents.indexOf(at, at + 1);
    if (next >= 0) select(next);
  };
  return {
    at,
    id: timeline.ids[at],
    second: timeline.find(query.get('vs') ?? undefined),
    branch: at >= 0 && !isFollowing ? timeline.branchOf(at) : branch,
    isFollowing,
    newCount: isFollowing ? 0 : Math.max(0, timeline.length - seen),
    select,
    compareWith: (to) => setQuery({ vs: timeline.ids[to], tab: 'diff' }, { replace: true }),
    step: (by) => select(Math.max(0, Math.min(timeline.length - 1, at + by))),
    parent: () => select(timeline.parents[at] ?? -1),
    child: childOf,
    follow: () => setQuery({ at: undefined }, { replace: true }),
    mark: () => setQuery({ vs: timeline.ids[at], tab: 'diff' }, { replace: true }),
  };
}
