import { useMemo, useState } from 'react';
import { countOf } from '../data/format.ts';
import { useKeys } from '../frame/keys.ts';
import { BranchGraph } from '../graph/branch-graph.tsx';
import { rowsOf } from '../graph/graph-rows.ts';
import { Icon } from '../parts/icon.tsx';
import { Skeleton } from '../parts/trouble.tsx';
import type { Shared } from './session-screen.tsx';

type PaneProps = Shared & { isFolding: boolean; onFold: () => void };

/** The branches of the session. */
export function GraphPane({ view, selection, tags, isFolding, onFold }: PaneProps) {
  const { timeline, version, isLoading } = view;
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  // biome-ignore lint/correctness/useExhaustiveDependencies: the timeline grows in place, its version tells
  const rows = useMemo(() => {
    const shown = { selected: selection.at, marked: new Set([...tags.keys(), ...timeline.bare.values()]), opened };
    return rowsOf(timeline, isFolding, shown);
  }, [timeline, version, selection.at, tags, opened, isFolding]);
  useKeys({ Enter: () => setOpened(new Set()) });
  return (
    <section className="pane" aria-label="Branches">
      <div className="head">
        <h2>Branches</h2>
        <span className="count">{timeline.branchNames.length}</span>
        <span className="t3">{countOf(timeline.length, 'checkpoint')}</span>
        <span className="grow" />
        <button
          type="button"
          className="btn sm quiet"
          aria-pressed={isFolding}
          title="Fold runs of plain steps"
          onClick={onFold}
        >
          <Icon name="fold" small />
          Fold
        </button>
      </div>
      {timeline.length === 0 && isLoading ? (
        <Skeleton />
      ) : (
        <BranchGraph
          timeline={timeline}
          rows={rows}
          selected={selection.at}
          second={selection.second}
          tags={tags}
          onSelect={selection.select}
          onCompare={selection.compareWith}
          onOpen={(at) => setOpened(new Set([...opened, at]))}
        />
      )}
    </section>
  );
}
