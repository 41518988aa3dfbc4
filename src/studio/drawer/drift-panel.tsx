import { countOf, formatBytes, formatCount, formatShort } from '../data/format.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress } from '../frame/place.ts';
import { beginBisect } from '../look/bisect.ts';
import type { Look } from '../look/look.ts';
import type { Drift } from '../look/use-drift.ts';
import { Icon } from '../parts/icon.tsx';
import { lookOf } from '../parts/status.tsx';
import { Loaded } from '../parts/trouble.tsx';
import type { Track } from './draw-tracks.ts';
import { TrackChart } from './track-chart.tsx';

/** Signs of drift per checkpoint, and what they say. */
export function DriftPanel({ look }: { look: Look }) {
  const { drift, view } = look;
  if (drift.isTooLong)
    return (
      <div className="empty">
        <p>A history of {formatCount(view.timeline.length)} checkpoints takes a while to read.</p>
        <button type="button" className="btn" onClick={drift.ask}>
          Look for signs of drift
        </button>
      </div>
    );
  return <Loaded of={drift.asked}>{(found) => <DriftCharts drift={found} look={look} />}</Loaded>;
}

function DriftCharts({ drift, look }: { drift: Drift; look: Look }) {
  const { selection, view, path } = look;
  const { timeline } = view;
  const [from, to] = (path.range ?? []).map((step) => timeline.ids[path.steps[step] ?? -1] ?? '');
  const points = drift.points.filter(({ checkpointId: id }) => !(from && id < from) && !(to && id > to));
  if (points.length === 0)
    return (
      <p className="empty">
        {drift.points.length === 0
          ? 'Nothing in this history can drift: no messages, calls or states that repeat.'
          : 'No messages came in this part of the history.'}
      </p>
    );
  const placeOf = (id: string | undefined) => points.findIndex(({ checkpointId }) => checkpointId === id);
  const first = drift.points.find(({ checkpointId }) => checkpointId === look.drift.firstBad);
  return (
    <TrackChart
      tracks={tracksOf(points, (id) => timeline.bytes[timeline.find(id)] ?? 0)}
      sequences={points.map(({ sequence }) => sequence)}
      first={placeOf(first?.checkpointId)}
      selected={placeOf(selection.id)}
      label={`Signs of drift over ${points.length} checkpoints. ${drift.summary}`}
      onSelect={(step) => selection.select(timeline.find(points[step]?.checkpointId))}
    >
      <Evidence drift={drift} look={look} first={first} />
    </TrackChart>
  );
}

type Point = Drift['points'][number];

/** Scores above this are not told apart. */
const TOP_SCORE = 2;
const MOST_KINDS = 2;

/** The strongest signs, where the alarm is at 1; how much repeats; what is new; what models are given. */
function tracksOf(points: readonly Point[], bytesOf: (id: string) => number): Track[] {
  const plain = (value: number) => value.toFixed(2);
  const kinds = kindsOf(points).map(
    (kind): Track => ({
      name: `${kind[0]?.toUpperCase()}${kind.slice(1)}`,
      values: points.map(({ scores }) => scores[kind] ?? 0),
      top: TOP_SCORE,
      alarm: 1,
      format: plain,
    }),
  );
  const repetition: Track = {
    name: 'Repetition',
    values: points.map((point) => point.repetition),
    top: 1,
    format: plain,
  };
  const news: Track = { name: 'New words', values: points.map((point) => point.news), top: 1, format: plain };
  return [...kinds, ...(kinds.length < MOST_KINDS ? [repetition] : []), news, sizeOf(points, bytesOf)];
}

/** What models were given, where that is known, or how large the state was. */
function sizeOf(points: readonly Point[], bytesOf: (id: string) => number): Track {
  const isCounted = points.some(({ inputTokens }) => inputTokens !== undefined);
  const values = points.map(({ checkpointId, inputTokens }) => (isCounted ? inputTokens : bytesOf(checkpointId)));
  const top = values.reduce<number>((most, value) => Math.max(most, value ?? 0), 1);
  return { name: isCounted ? 'Tokens in' : 'State', values, top, format: isCounted ? formatShort : formatBytes };
}

/** The kinds of signs that are drawn: the strongest first. */
function kindsOf(points: readonly Point[]): string[] {
  const best = new Map<string, number>();
  for (const { scores } of points)
    for (const [kind, score] of Object.entries(scores)) best.set(kind, Math.max(best.get(kind) ?? 0, score));
  return [...best]
    .sort(([, a], [, b]) => b - a)
    .slice(0, MOST_KINDS)
    .map(([kind]) => kind);
}

type EvidenceProps = { drift: Drift; look: Look; first: Point | undefined };

function Evidence({ drift, look, first }: EvidenceProps) {
  const tone = { healthy: 'ok', suspect: 'warn', drifting: 'danger' }[drift.status];
  return (
    <>
      <div className="words">
        <p className="about">
          {first === undefined ? (
            <span className={`chip ${tone}`}>{lookOf(drift.status).word}</span>
          ) : (
            <Link className={`chip ${tone}`} href={sessionAddress(look.sessionId, { at: first.checkpointId })}>
              First bad #{first.sequence}
            </Link>
          )}
          <span className="t3 clip">{drift.kinds.join(', ')}</span>
        </p>
        {drift.status === 'healthy' && (
          <p className="t2">No sign of drift in {countOf(drift.points.length, 'step')}.</p>
        )}
        <p>{drift.summary}</p>
        {reasonsBeside(drift).map((reason) => (
          <p key={reason} className="t2">
            {reason}
          </p>
        ))}
      </div>
      <WaysOn look={look} first={first} />
    </>
  );
}

/** Looking for the first bad step, and going on from the last good one. */
function WaysOn({ look, first }: { look: Look; first: Point | undefined }) {
  const { sessionId, view, path } = look;
  const { timeline } = view;
  const good = first === undefined ? -1 : (timeline.parents[timeline.find(first.checkpointId)] ?? -1);
  return (
    <div className="acts">
      <button
        type="button"
        className="btn"
        disabled={path.steps.length < 3}
        title="Find the first bad step by looking at few"
        onClick={() => beginBisect(look)}
      >
        <Icon name="bisect" small />
        Bisect<kbd>b</kbd>
      </button>
      {good >= 0 && (
        <Link className="btn" href={sessionAddress(sessionId, { page: 'fork', at: timeline.ids[good] })}>
          <Icon name="fork" small />
          Fork at #{timeline.sequences[good]}
        </Link>
      )}
    </div>
  );
}

/** What the summary does not say already. */
function reasonsBeside({ evidence, summary }: Drift): string[] {
  return [...new Set(evidence.map(({ reason }) => reason))].filter((reason) => !summary.includes(reason)).slice(0, 3);
}
