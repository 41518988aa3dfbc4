import { useState } from 'react';
import { countOf, formatBytes, formatCount } from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { useReplyIf } from '../data/use-reply.ts';
import type { Look } from '../look/look.ts';
import { Loaded } from '../parts/trouble.tsx';
import type { Track } from './draw-tracks.ts';
import { TrackChart } from './track-chart.tsx';

/** Larger sessions are weighed when somebody asks. */
const UNASKED_CHECKPOINTS = 2_000;
const HEAVIEST = 6;

/** How large the states of the branch are, and what the session takes. */
export function StoragePanel({ look }: { look: Look }) {
  const { view, selection, path, sessionId } = look;
  const { timeline } = view;
  const [isAsked, setAsked] = useState(false);
  const isTooLong = timeline.length > UNASKED_CHECKPOINTS && !isAsked;
  const growth = useReplyIf('GET /v1/storage/growth', isTooLong ? undefined : { query: { session: sessionId } });
  const [first, last] = path.range ?? [0, path.steps.length - 1];
  const steps = path.steps.slice(first, last + 1);
  const bytes = path.steps.map((at) => timeline.bytes[at] ?? 0);
  const changes = bytes.map((size, step) => Math.abs(size - (bytes[step - 1] ?? 0)));
  return (
    <TrackChart
      tracks={[
        trackOf('State', bytes.slice(first, last + 1), formatBytes),
        trackOf('Change', changes.slice(first, last + 1), formatBytes),
        ...messagesOf(look, steps),
      ]}
      sequences={steps.map((at) => timeline.sequences[at] ?? 0)}
      first={-1}
      selected={steps.indexOf(selection.at)}
      label={`Sizes of ${steps.length} states`}
      onSelect={(step) => selection.select(steps[step] ?? -1)}
    >
      {isTooLong ? (
        <>
          <p className="t2">Weighing {countOf(timeline.length, 'checkpoint')} takes a while.</p>
          <button type="button" className="btn" onClick={() => setAsked(true)}>
            Weigh the session
          </button>
        </>
      ) : (
        <div className="words">
          <Loaded of={growth}>{(weighed) => <Weights growth={weighed} />}</Loaded>
        </div>
      )}
    </TrackChart>
  );
}

function trackOf(name: string, values: readonly number[], format: Track['format']): Track {
  return { name, values, top: values.reduce((most, value) => Math.max(most, value), 1), format };
}

function messagesOf({ view: { timeline } }: Look, steps: readonly number[]): Track[] {
  const counts = steps.map((at) => Math.max(0, timeline.messages[at] ?? 0));
  return counts.some((count) => count > 0) ? [trackOf('Messages', counts, formatCount)] : [];
}

/** What the session takes in all, and where. */
function Weights({ growth }: { growth: Reply<'GET /v1/storage/growth'> }) {
  const { uniqueBytes, logicalBytes, paths } = growth;
  return (
    <>
      <dl className="dl">
        <dt>Unique</dt>
        <dd>{formatBytes(uniqueBytes)}</dd>
        <dt>Logical</dt>
        <dd>
          {formatBytes(logicalBytes)}
          {uniqueBytes > 0 && <span className="t3">, {(logicalBytes / uniqueBytes).toFixed(1)}× shared</span>}
        </dd>
      </dl>
      <dl className="dl" style={{ gridTemplateColumns: 'minmax(0, 1fr) auto' }}>
        {paths.slice(0, HEAVIEST).flatMap(({ path, uniqueBytes: bytes }) => [
          <dt key={path} className="mono clip" title={path}>
            {path}
          </dt>,
          <dd key={`${path} bytes`} className="num">
            {formatBytes(bytes)}
          </dd>,
        ])}
      </dl>
    </>
  );
}
