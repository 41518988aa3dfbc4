import { memo } from 'react';
import { countOf } from '../data/format.ts';
import type { Timeline } from '../data/timeline.ts';
import { useKeys } from '../frame/keys.ts';
import { go, sessionAddress } from '../frame/place.ts';
import { wordsOf } from '../graph/draw-graph.ts';
import { useLabels } from '../graph/use-labels.ts';
import { AgentSquare } from '../parts/agent.tsx';

const AROUND = 12;

type BeginsProps = { timeline: Timeline; version: number; at: number; sessionId: string };

/** Where the fork begins: the steps before it, and what stays behind on the branch. Drawn again when the timeline grows (`version`), not for a key in the edit. */
export const BeginsAt = memo(function BeginsAt({ timeline, at, sessionId }: BeginsProps) {
  const before = [...firstOf(timeline.ancestors(at), AROUND)].reverse();
  const tip = timeline.tipOf(timeline.branchOf(at));
  const path = [...timeline.ancestors(tip)];
  const after = path.slice(0, Math.max(0, path.indexOf(at))).reverse();
  const shown = [...before, ...after.slice(0, AROUND)];
  const labels = useLabels(shown.map((place) => timeline.ids[place] ?? ''));
  const move = (to: number | undefined) =>
    to !== undefined &&
    to >= 0 &&
    go(sessionAddress(sessionId, { page: 'fork', at: timeline.ids[to] }), { replace: true });
  useKeys({ j: () => move(after[0]), k: () => move(timeline.parents[at]) });
  const row = (place: number) => {
    const label = labels.get(timeline.ids[place] ?? '');
    const speaker = label?.speaker ?? timeline.agentOf(place);
    return (
      <li key={place} aria-current={place === at || undefined} onPointerDown={() => move(place)}>
        <span className="num t3" style={{ width: 40 }}>
          {timeline.sequences[place]}
        </span>
        {speaker === undefined ? <span style={{ width: 16 }} /> : <AgentSquare name={speaker} />}
        <span className={`clip grow ${place === at ? 'medium' : ''}`}>{wordsOf(timeline, place, label)}</span>
      </li>
    );
  };
  return (
    <section className="pane" aria-label="Begins at">
      <div className="head">
        <h2>Begins at</h2>
        <span className="grow" />
        <span className="t3">j k to move</span>
      </div>
      <div className="scroll grow">
        <ul className="lines">{before.map(row)}</ul>
        {after.length > 0 && (
          <div className="head">
            <h2>Stays on {timeline.branchOf(at)}</h2>
            <span className="grow" />
            <span className="t3">{countOf(after.length, 'step')}</span>
          </div>
        )}
        <ul className="lines t3">{after.slice(0, AROUND).map(row)}</ul>
      </div>
    </section>
  );
});

function* firstOf<Item>(items: Iterable<Item>, count: number): Generator<Item> {
  let left = count;
  for (const item of items) {
    if (left-- <= 0) return;
    yield item;
  }
}
