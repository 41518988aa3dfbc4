import { useMemo } from 'react';
import type { TimelineView } from '../data/timeline.ts';
import { setQuery } from '../frame/place.ts';

/** The steps of a branch from its root to its tip, and the part of them that is looked at closely. */
export type BranchPath = {
  readonly steps: readonly number[];
  /** The first and the last step of the part; undefined: all of them. */
  readonly range: readonly [first: number, last: number] | undefined;
  readonly setRange: (range: readonly [first: number, last: number] | undefined) => void;
};

/** The way to the tip of a branch; the address has its part by the numbers of steps: `range=20-34`. */
export function usePath({ timeline, version }: TimelineView, branch: string, query: URLSearchParams): BranchPath {
  // biome-ignore lint/correctness/useExhaustiveDependencies: the timeline grows in place, its version tells
  const steps = useMemo(() => [...timeline.ancestors(timeline.tipOf(branch))].reverse(), [timeline, branch, version]);
  const sequenceOf = (step: number) => timeline.sequences[steps[step] ?? -1] ?? 0;
  const [first, last] = (query.get('range') ?? '').split('-').map((text) => placeOf(Number(text)));
  /** The first step with at least this number. */
  function placeOf(sequence: number): number {
    const place = sequence > 0 ? steps.findIndex((_, step) => sequenceOf(step) >= sequence) : -1;
    return place < 0 ? steps.length - 1 : place;
  }
  const isPart = query.has('range') && first !== undefined && last !== undefined && first < last;
  return {
    steps,
    range: isPart ? [first, last] : undefined,
    setRange: (range) =>
      setQuery(
        { range: range === undefined ? undefined : `${sequenceOf(range[0])}-${sequenceOf(range[1])}` },
        { replace: true },
      ),
  };
}
