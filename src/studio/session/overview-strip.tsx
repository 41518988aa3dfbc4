import { type PointerEvent, useMemo, useState } from 'react';
import { countOf, formatDuration } from '../data/format.ts';
import type { Look } from '../look/look.ts';
import { AgentSquare } from '../parts/agent.tsx';
import { Canvas, type Surface } from '../parts/canvas.tsx';
import { Icon } from '../parts/icon.tsx';
import { drawOverview, type Grip, gripUnder, placeUnder, type Range } from './draw-overview.ts';

/** As many agents as there are colours; the rest is counted. */
const NAMED_AGENTS = 5;
/** A press that moves less than this selects a step. */
const DRAG_PIXELS = 4;

/** The whole branch in one row: who spoke when, what failed, where it drifted; dragging chooses a part for the charts. */
export function OverviewStrip({ view, selection, path, drift }: Look) {
  const { timeline } = view;
  const { branch, select } = selection;
  const { steps } = path;
  const agents = useMemo(() => {
    const numbers = new Set(steps.map((at) => timeline.agents[at] ?? -1));
    return [...numbers].flatMap((number) => timeline.names.agents[number] ?? []);
  }, [timeline, steps]);
  const sizeOf = useSizes({ view, path, drift });
  const lasted = (timeline.timesMs[steps.at(-1) ?? -1] ?? 0) - (timeline.timesMs[steps[0] ?? -1] ?? 0);
  const brush = useBrush(path, (step) => select(steps[step] ?? -1));
  const firstBad = timeline.find(drift.firstBad);
  const draw = (surface: Surface) =>
    drawOverview(surface, {
      timeline,
      path: steps,
      agents,
      selected: selection.at,
      firstBad,
      drifting: drift.drifting,
      range: brush.range,
      sizeOf,
    });
  return (
    <section className="strip" aria-label={`Overview of ${branch}`}>
      <div className="info">
        <div>
          <span className="strong clip">{branch}</span>
          <span className="t2">
            {countOf(steps.length, view.isLoading ? 'newest checkpoint' : 'checkpoint')}
            {steps.length > 1 && `, ${formatDuration(lasted)}`}
          </span>
          {path.range !== undefined && <RangeChip look={{ view, path }} />}
        </div>
        <Agents names={agents} />
      </div>
      <div className="cv brush" {...brush.handlers}>
        <Canvas
          draw={draw}
          label={`${steps.length} steps of ${branch} by agent; the bars are what models were given, or the size of states`}
        />
      </div>
    </section>
  );
}

function RangeChip({ look: { view, path } }: { look: Pick<Look, 'view' | 'path'> }) {
  const ends = (path.range ?? []).map((step) => view.timeline.sequences[path.steps[step] ?? -1]);
  return (
    <span className="chip filter accent">
      #{ends.join('–')}
      <button type="button" aria-label="Look at the whole branch" onClick={() => path.setRange(undefined)}>
        <Icon name="x" small />
      </button>
    </span>
  );
}

function Agents({ names }: { names: readonly string[] }) {
  return (
    <div>
      {names.slice(0, NAMED_AGENTS).map((name) => (
        <span className="key" key={name} title={name}>
          <AgentSquare name={name} />
          <span className="clip">{name}</span>
        </span>
      ))}
      {names.length > NAMED_AGENTS && (
        <span className="key" title={names.slice(NAMED_AGENTS).join(', ')}>
          +{names.length - NAMED_AGENTS}
        </span>
      )}
    </div>
  );
}

/** How high the bar of a step is: what models were given for it, or, where nobody counts that, how large its state was. */
function useSizes({ view: { timeline }, path, drift }: Pick<Look, 'view' | 'path' | 'drift'>): (at: number) => number {
  const points = drift.asked.value?.points;
  return useMemo(() => {
    const given = new Map(
      (points ?? []).flatMap(({ checkpointId: id, inputTokens }) =>
        inputTokens === undefined ? [] : [[timeline.find(id), inputTokens] as const],
      ),
    );
    const raw = given.size > 0 ? (at: number) => given.get(at) ?? 0 : (at: number) => timeline.bytes[at] ?? 0;
    const most = path.steps.reduce((top, at) => Math.max(top, raw(at)), 1);
    return (at) => raw(at) / most;
  }, [timeline, path.steps, points]);
}

type Drag = {
  readonly grip: Grip;
  readonly fromX: number;
  readonly from: number;
  readonly range: Range;
  readonly isMoved: boolean;
};

/** A part of the branch is chosen by dragging; a press alone selects a step. */
function useBrush({ steps, range, setRange }: Look['path'], select: (step: number) => void) {
  const [drag, setDrag] = useState<Drag>();
  const place = (event: PointerEvent<HTMLDivElement>) => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    return { x: event.clientX - left, width, step: placeUnder(event.clientX - left, width, steps.length) };
  };
  return {
    range: drag?.isMoved ? drag.range : range,
    handlers: {
      onPointerDown: (event: PointerEvent<HTMLDivElement>) => {
        const { x, width, step } = place(event);
        event.currentTarget.setPointerCapture(event.pointerId);
        const grip = gripUnder(x, width, { range, steps: steps.length });
        setDrag({ grip, fromX: x, from: step, range: range ?? [step, step], isMoved: false });
      },
      onPointerMove: (event: PointerEvent<HTMLDivElement>) => {
        if (drag === undefined) return;
        const { x, step } = place(event);
        if (!drag.isMoved && Math.abs(x - drag.fromX) < DRAG_PIXELS) return;
        setDrag({
          ...drag,
          isMoved: true,
          range: dragged({ ...drag, range: range ?? drag.range }, step, steps.length),
        });
      },
      onPointerUp: () => {
        if (drag !== undefined && !drag.isMoved) select(drag.from);
        else if (drag !== undefined) setRange(drag.range[0] < drag.range[1] ? drag.range : undefined);
        setDrag(undefined);
      },
    },
  };
}

/** The range while the pointer is over a step. */
function dragged({ grip, from, range: [first, last] }: Drag, to: number, steps: number): Range {
  const sorted = (a: number, b: number): Range => [Math.min(a, b), Math.max(a, b)];
  if (grip === 'new') return sorted(from, to);
  if (grip === 'first') return sorted(to, last);
  if (grip === 'last') return sorted(first, to);
  const by = Math.max(-first, Math.min(steps - 1 - last, to - from));
  return [first + by, last + by];
}
