import { useVirtualizer } from '@tanstack/react-virtual';
import { useMemo, useRef } from 'react';
import { formatTime } from '../data/format.ts';
import { FLAG, type Timeline } from '../data/timeline.ts';
import type { Look } from '../look/look.ts';
import { AgentSquare } from '../parts/agent.tsx';
import { Status } from '../parts/status.tsx';

const ROW_HEIGHT = 24;

/** Everything that was saved in the session, on every branch, the newest first. */
export function EventsPanel({ look }: { look: Look }) {
  const { view, selection } = look;
  const { timeline, version } = view;
  const box = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the timeline grows in place, its version tells
  const order = useMemo(
    () =>
      Array.from(timeline.ids.keys()).sort((a, b) => (timeline.timesMs[b] ?? 0) - (timeline.timesMs[a] ?? 0) || b - a),
    [timeline, version],
  );
  const rows = useVirtualizer({
    count: order.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 4,
  });
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard
    <section className="scroll grow" ref={box} tabIndex={0} aria-label="Events">
      <ol className="virtual" style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map(({ index, start }) => {
          const at = order[index] ?? -1;
          return (
            <li key={index} style={{ transform: `translateY(${start}px)` }}>
              <EventRow
                timeline={timeline}
                at={at}
                isSelected={at === selection.at}
                onSelect={() => selection.select(at)}
              />
            </li>
          );
        })}
      </ol>
    </section>
  );
}

type RowProps = { timeline: Timeline; at: number; isSelected: boolean; onSelect: () => void };

function EventRow({ timeline, at, isSelected, onSelect }: RowProps) {
  const agent = timeline.agentOf(at);
  const trigger =
    timeline.names.triggers[timeline.triggers[at] ?? -1] ?? timeline.names.types[timeline.types[at] ?? -1];
  return (
    <button type="button" className="trow event" aria-current={isSelected || undefined} onClick={onSelect}>
      <span className="mono t2">{formatTime(timeline.timesMs[at] ?? 0)}</span>
      <span className="num">#{timeline.sequences[at]}</span>
      <span className="clip">{timeline.branchOf(at)}</span>
      <span className="clip t2">{(trigger ?? 'saved').replaceAll('_', ' ')}</span>
      <span className="who">
        {agent !== undefined && <AgentSquare name={agent} />}
        <span className="clip">{agent}</span>
      </span>
      <span className="clip t2">
        {((timeline.flags[at] ?? 0) & FLAG.deleted) !== 0 ? 'deleted' : timeline.words.get(at)}
      </span>
      {timeline.statusOf(at) === undefined ? <span /> : <Status status={timeline.statusOf(at)} />}
    </button>
  );
}
