import { useMemo } from 'react';
import { countOf, formatDuration } from '../data/format.ts';
import { AgentSquare } from '../parts/agent.tsx';
import { Canvas, type Surface } from '../parts/canvas.tsx';
import { drawOverview, placeUnder } from './draw-overview.ts';
import type { Shared } from './session-screen.tsx';

/** As many agents as there are colours; the rest is counted. */
const NAMED_AGENTS = 5;

/** The whole branch in one row: who spoke when, what failed, where it drifted. */
export function OverviewStrip({ view, selection }: Shared) {
  const { timeline, version } = view;
  const { branch, select } = selection;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the timeline grows in place, its version tells
  const { path, agents } = useMemo(() => {
    const steps = [...timeline.ancestors(timeline.tipOf(branch))].reverse();
    const numbers = new Set(steps.map((at) => timeline.agents[at] ?? -1));
    return { path: steps, agents: [...numbers].flatMap((number) => timeline.names.agents[number] ?? []) };
  }, [timeline, branch, version]);
  const lasted = (timeline.timesMs[path.at(-1) ?? -1] ?? 0) - (timeline.timesMs[path[0] ?? -1] ?? 0);
  const draw = (surface: Surface) => drawOverview(surface, { timeline, path, agents, selected: selection.at });
  const press = (event: React.PointerEvent<HTMLDivElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const at = path[placeUnder(event.clientX - box.left, box.width, path.length)];
    if (at !== undefined) select(at);
  };
  return (
    <section className="strip" aria-label={`Overview of ${branch}`}>
      <div className="info">
        <div>
          <span className="strong clip">{branch}</span>
          <span className="t2">
            {countOf(path.length, 'checkpoint')}
            {path.length > 1 && `, ${formatDuration(lasted)}`}
          </span>
        </div>
        <div>
          {agents.slice(0, NAMED_AGENTS).map((name) => (
            <span className="key" key={name} title={name}>
              <AgentSquare name={name} />
              <span className="clip">{name}</span>
            </span>
          ))}
          {agents.length > NAMED_AGENTS && (
            <span className="key" title={agents.slice(NAMED_AGENTS).join(', ')}>
              +{agents.length - NAMED_AGENTS}
            </span>
          )}
        </div>
      </div>
      <div className="cv" onPointerDown={press}>
        <Canvas draw={draw} label={`${path.length} steps of ${branch} by agent`} />
      </div>
    </section>
  );
}
