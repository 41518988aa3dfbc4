import { useMemo, useState } from 'react';
import { countOf, quoteArgument } from '../data/format.ts';
import { useKeys } from '../frame/keys.ts';
import { BranchGraph } from '../graph/branch-graph.tsx';
import { rowsOf } from '../graph/graph-rows.ts';
import type { Look } from '../look/look.ts';
import { CopyCommands } from '../parts/command.tsx';
import { Icon } from '../parts/icon.tsx';
import { Skeleton } from '../parts/trouble.tsx';

type PaneProps = Look & { isFolding: boolean; onFold: () => void };

/** The branches of the session. */
export function GraphPane({ sessionId, view, selection, tags, drift, isFolding, onFold }: PaneProps) {
  const { timeline, version, isLoading } = view;
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  const { firstBad, drifting } = drift;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the timeline grows in place, its version tells
  const rows = useMemo(() => {
    const marked = new Set([...tags.keys(), ...timeline.bare.values(), timeline.find(firstBad)]);
    return rowsOf(timeline, isFolding, { selected: selection.at, marked, opened, drifting });
  }, [timeline, version, selection.at, tags, opened, isFolding, firstBad, drifting]);
  useKeys({ Enter: () => setOpened(new Set()) });
  return (
    <section className="pane" aria-label="Branches">
      <div className="head">
        <h2>Branches</h2>
        <span className="count">{timeline.branchNames.length}</span>
        <span className="t3">{countOf(timeline.length, isLoading ? 'newest checkpoint' : 'checkpoint')}</span>
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
        <CopyCommands commands={[`savestate log --graph --session ${quoteArgument(sessionId)}`]} />
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
          drifting={drifting}
          onSelect={selection.select}
          onCompare={selection.compareWith}
          onOpen={(at) => setOpened(new Set([...opened, at]))}
        />
      )}
    </section>
  );
}
