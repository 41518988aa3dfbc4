import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import type { Timeline } from '../data/timeline.ts';
import { Canvas, type Surface } from '../parts/canvas.tsx';
import { drawGraph, type GraphPicture } from './draw-graph.ts';
import { HEAD_HEIGHT, ROW_HEIGHT } from './graph-geometry.ts';
import { type GraphRow, rowAt } from './graph-rows.ts';
import { GraphTwin } from './graph-twin.tsx';
import { HoverCard } from './hover-card.tsx';
import { useLabels } from './use-labels.ts';

type GraphProps = {
  timeline: Timeline;
  rows: readonly GraphRow[];
  selected: number;
  second: number;
  tags: ReadonlyMap<number, string>;
  drifting: ReadonlySet<number>;
  onSelect: (at: number) => void;
  onCompare: (at: number) => void;
  onOpen: (at: number) => void;
};

/** The branches as a picture, with a list beside it that says the same to screen readers. */
export function BranchGraph(props: GraphProps) {
  const { timeline, rows, selected, second, tags, drifting } = props;
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [hovered, setHovered] = useState(-1);
  const height = useHeight(box);
  const fits = Math.max(1, (height - HEAD_HEIGHT) / ROW_HEIGHT);
  const most = Math.max(0, rows.length - fits);
  const scroll = useCallback((to: number) => setTop(Math.max(0, Math.min(most, to))), [most]);
  useRevealed({ rows, selected, top, fits, scroll });
  const first = Math.floor(Math.min(top, most));
  const visible = rows.slice(first, first + Math.ceil(fits) + 1);
  const labels = useLabels(visible.filter(({ count }) => count === 1).map(({ at }) => timeline.ids[at] ?? ''));
  const path = useMemo(() => {
    const marks = new Uint8Array(selected + 1);
    for (const at of timeline.ancestors(selected)) marks[at] = 1;
    return marks;
  }, [timeline, selected]);
  const picture: GraphPicture = {
    timeline,
    rows,
    top: Math.min(top, most),
    selected,
    second,
    hovered,
    path,
    labels,
    tags,
    drifting,
  };
  const draw = (surface: Surface) => drawGraph(surface, picture);
  const rowUnder = (event: React.PointerEvent | React.MouseEvent) => {
    const y = event.clientY - (box.current?.getBoundingClientRect().top ?? 0);
    return y < HEAD_HEIGHT ? -1 : Math.floor((y - HEAD_HEIGHT) / ROW_HEIGHT + picture.top);
  };
  const press = (event: React.PointerEvent) => {
    const row = rows[rowUnder(event)];
    if (row === undefined) return;
    if (row.count > 1) props.onOpen(row.at);
    else if (event.ctrlKey || event.metaKey) props.onCompare(row.at);
    else props.onSelect(row.at);
  };
  useWheel(box, (by) => scroll(top + by / ROW_HEIGHT));
  return (
    <div
      ref={box}
      className="graph cv"
      onPointerDown={press}
      onPointerMove={(event) => setHovered(rowUnder(event))}
      onPointerLeave={() => setHovered(-1)}
    >
      <Canvas draw={draw} label={`${timeline.length} checkpoints on ${timeline.branchNames.length} branches`} />
      <GraphTwin picture={picture} visible={visible} first={first} onSelect={props.onSelect} />
      <HoverCard
        picture={picture}
        row={rows[hovered]}
        y={HEAD_HEIGHT + (hovered - picture.top) * ROW_HEIGHT}
        box={box}
      />
    </div>
  );
}

function useHeight(box: React.RefObject<HTMLDivElement | null>): number {
  const [height, setHeight] = useState(0);
  useEffect(() => {
    if (box.current === null) return undefined;
    const observer = new ResizeObserver(([entry]) => setHeight(entry?.contentRect.height ?? 0));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, [box]);
  return height;
}

/** The wheel scrolls the picture; React's own listener could not keep the page from moving. */
function useWheel(box: React.RefObject<HTMLDivElement | null>, scroll: (pixels: number) => void): void {
  const latest = useRef(scroll);
  latest.current = scroll;
  useEffect(() => {
    const element = box.current;
    const turn = (event: WheelEvent) => {
      event.preventDefault();
      latest.current(event.deltaMode === 1 ? event.deltaY * ROW_HEIGHT : event.deltaY);
    };
    element?.addEventListener('wheel', turn, { passive: false });
    return () => element?.removeEventListener('wheel', turn);
  }, [box]);
}

type Reveal = { rows: readonly GraphRow[]; selected: number; top: number; fits: number; scroll: (to: number) => void };

/** Brings the selection onto the screen when it changes; not when rows are added, which must not move what is read. */
function useRevealed({ rows, selected, top, fits, scroll }: Reveal): void {
  const shown = useRef({ selected: -1, fits: 0 });
  useEffect(() => {
    const row = rowAt(rows, selected);
    const isNew = shown.current.selected !== selected || (shown.current.fits <= 1 && fits > 1);
    if (row < 0 || !isNew) return;
    shown.current = { selected, fits };
    if (row < top + 1 || row > top + fits - 2) scroll(row - fits / 2);
  }, [rows, selected, top, fits, scroll]);
}
