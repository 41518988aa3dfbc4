import { useEffect, useState } from 'react';
import { countOf, quoteArgument, shortId } from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { useReplyIf } from '../data/use-reply.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress } from '../frame/place.ts';
import { Canvas, type Surface } from '../parts/canvas.tsx';
import { CommandLine } from '../parts/command.tsx';
import { Icon } from '../parts/icon.tsx';
import { Loaded } from '../parts/trouble.tsx';
import { drawDrift, kindsOf } from './draw-drift.ts';
import type { Shared } from './session-screen.tsx';

/** Longer histories are read for drift when somebody asks. */
const UNASKED_CHECKPOINTS = 2_000;
/** While saves stream in, the charts stand still for so long. */
const CALM_MS = 5_000;

type Drift = Reply<'GET /v1/checkpoints/{checkpoint}/drift'>;

/** Charts below the panes: signs of drift per checkpoint, and what they say. */
export function Drawer({ sessionId, view, selection }: Shared & { query: URLSearchParams }) {
  const [isOpen, setOpen] = useState(localStorage.getItem('drawer') !== 'closed');
  const { timeline, isLoading } = view;
  const isLong = isLoading || timeline.length > UNASKED_CHECKPOINTS;
  const [isAsked, setAsked] = useState(false);
  const tip = useCalm(timeline.ids[timeline.tipOf(selection.branch)]);
  const isWanted = isOpen && (isAsked || !isLong);
  const request = isWanted && tip !== undefined ? { params: { checkpoint: tip } } : undefined;
  const asked = useReplyIf('GET /v1/checkpoints/{checkpoint}/drift', request);
  const toggle = () => {
    localStorage.setItem('drawer', isOpen ? 'closed' : 'open');
    setOpen(!isOpen);
  };
  return (
    <section className={`drawer ${isOpen ? '' : 'is-closed'}`} aria-label="Charts">
      <div className="head">
        <h2>Drift</h2>
        <span className="vr" />
        <span className="t2 clip grow">
          {selection.branch}
          <ValuesAt sequence={timeline.sequences[selection.at]} />
        </span>
        <button
          type="button"
          className="btn sm icon quiet"
          aria-label={isOpen ? 'Close the charts' : 'Open the charts'}
          onClick={toggle}
        >
          <Icon name={isOpen ? 'down' : 'up'} small />
        </button>
      </div>
      {isOpen && isLong && !isLoading && !isAsked && (
        <div className="empty">
          <p>A history of {timeline.length.toLocaleString('en-US')} checkpoints takes a while to read.</p>
          <button type="button" className="btn" onClick={() => setAsked(true)}>
            Look for signs of drift
          </button>
        </div>
      )}
      {request !== undefined && (
        <Loaded of={asked}>
          {(drift) => (
            <DriftCharts
              drift={drift}
              sessionId={sessionId}
              selected={selection.id}
              onSelect={(id) => selection.select(timeline.find(id))}
            />
          )}
        </Loaded>
      )}
    </section>
  );
}

function ValuesAt({ sequence }: { sequence: number | undefined }) {
  if (sequence === undefined) return null;
  return (
    <>
      , values at <b className="medium">#{sequence}</b>
    </>
  );
}

type ChartProps = { drift: Drift; sessionId: string; selected: string | undefined; onSelect: (id: string) => void };

function DriftCharts({ drift, sessionId, selected, onSelect }: ChartProps) {
  const { points } = drift;
  const here = points.findIndex(({ checkpointId }) => checkpointId === selected);
  const first = points.findIndex(({ checkpointId }) => checkpointId === (drift.onset ?? drift.firstAlarm));
  const kinds = kindsOf(points);
  const draw = (surface: Surface) => drawDrift(surface, { points, kinds, first, selected: here });
  const press = (event: React.PointerEvent<HTMLDivElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const place = Math.floor(((event.clientX - box.left - 8) / Math.max(1, box.width - 24)) * points.length);
    const point = points[Math.max(0, Math.min(points.length - 1, place))];
    if (point !== undefined) onSelect(point.checkpointId);
  };
  if (points.length === 0)
    return <p className="empty">Nothing in this history can drift: no messages, calls or states that repeat.</p>;
  return (
    <div className="in">
      {kinds.length === 0 && <p className="empty">No sign of drift in {countOf(points.length, 'checkpoint')}.</p>}
      <div className="tracks" hidden={kinds.length === 0} style={{ gridTemplateRows: `repeat(${kinds.length}, 1fr)` }}>
        {kinds.map((kind) => (
          <div key={kind}>
            <span>{kind}</span>
            <b className={`medium num ${(points[here]?.scores[kind] ?? 0) >= 1 ? 'warn' : ''}`}>
              {(points[here]?.scores[kind] ?? 0).toFixed(2)}
            </b>
          </div>
        ))}
      </div>
      <div className="cv" hidden={kinds.length === 0} onPointerDown={press}>
        <Canvas draw={draw} label={`Signs of drift over ${points.length} checkpoints. ${drift.summary}`} />
      </div>
      <Evidence drift={drift} sessionId={sessionId} first={points[first]} />
    </div>
  );
}

function Evidence({
  drift,
  sessionId,
  first,
}: {
  drift: Drift;
  sessionId: string;
  first: Drift['points'][number] | undefined;
}) {
  return (
    <div className="evidence">
      <div style={{ display: 'flex', alignItems: 'center', gap: 8 }}>
        <span className={`chip ${drift.status === 'healthy' ? 'ok' : drift.status === 'suspect' ? 'warn' : 'danger'}`}>
          {drift.status === 'healthy' ? 'Healthy' : first === undefined ? drift.status : `First bad #${first.sequence}`}
        </span>
        <span className="t3 clip">{drift.kinds.join(', ')}</span>
      </div>
      {first !== undefined && (
        <div className="acts">
          <Link className="btn" href={sessionAddress(sessionId, { at: first.checkpointId })}>
            Go to #{first.sequence}
          </Link>
          <Link className="btn" href={sessionAddress(sessionId, { page: 'fork', at: first.checkpointId })}>
            <Icon name="fork" small />
            Fork there
          </Link>
        </div>
      )}
      <p>{drift.summary}</p>
      {reasonsBeside(drift).map((reason) => (
        <p key={reason} className="t2">
          {reason}
        </p>
      ))}
      {first !== undefined && (
        <CommandLine
          command={`savestate bisect start ${shortId(drift.points.at(-1)?.checkpointId ?? '')} ${shortId(drift.points[0]?.checkpointId ?? '')} --session ${quoteArgument(sessionId)}`}
        />
      )}
    </div>
  );
}

/** What the summary does not say already. */
function reasonsBeside({ evidence, summary }: Drift): string[] {
  return [...new Set(evidence.map(({ reason }) => reason))].filter((reason) => !summary.includes(reason)).slice(0, 3);
}

/** The value, but not more often than every few seconds. */
function useCalm<Value>(value: Value): Value {
  const [calm, setCalm] = useState({ value, atMs: 0 });
  useEffect(() => {
    if (value === calm.value) return undefined;
    const timer = setTimeout(() => setCalm({ value, atMs: Date.now() }), Math.max(0, calm.atMs + CALM_MS - Date.now()));
    return () => clearTimeout(timer);
  }, [value, calm]);
  return calm.value;
}
