import type { ReactNode } from 'react';
import { Canvas, type Surface } from '../parts/canvas.tsx';
import { type Chart, drawTracks, stepUnder, type Track } from './draw-tracks.ts';

type ChartProps = Chart & { label: string; onSelect: (step: number) => void; children: ReactNode };

/** Rows with their values at the selected step, the chart, and beside it what it says. A press goes to a step. */
export function TrackChart({ label, onSelect, children, ...chart }: ChartProps) {
  const { tracks, sequences, selected } = chart;
  const draw = (surface: Surface) => drawTracks(surface, chart);
  const press = (event: React.PointerEvent<HTMLDivElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    onSelect(stepUnder(event.clientX - box.left, box.width, sequences.length));
  };
  return (
    <div className="in">
      <div className="tracks" style={{ gridTemplateRows: `repeat(${tracks.length}, 1fr)` }}>
        {tracks.map((track) => (
          <TrackValue key={track.name} track={track} value={track.values[selected]} />
        ))}
      </div>
      <div className="cv" onPointerDown={press}>
        <Canvas draw={draw} label={label} />
      </div>
      <div className="evidence">{children}</div>
    </div>
  );
}

function TrackValue({ track: { name, alarm, format }, value }: { track: Track; value: number | undefined }) {
  const isAlarm = alarm !== undefined && value !== undefined && value >= alarm;
  return (
    <div>
      <span>{name}</span>
      <b className={`medium num ${isAlarm ? 'warn' : ''}`}>{value === undefined ? '–' : format(value)}</b>
    </div>
  );
}
