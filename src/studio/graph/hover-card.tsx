import type { RefObject } from 'react';
import { formatTime } from '../data/format.ts';
import { AgentSquare } from '../parts/agent.tsx';
import { type GraphPicture, wordsOf } from './draw-graph.ts';
import type { GraphRow } from './graph-rows.ts';

type CardProps = { picture: GraphPicture; row: GraphRow | undefined; y: number; box: RefObject<HTMLDivElement | null> };

/** What the row under the pointer is; beside the pane, so that it never covers a row. */
export function HoverCard({ picture, row, y, box }: CardProps) {
  const { timeline, labels } = picture;
  if (row === undefined || row.count > 1 || y < 0) return null;
  const place = box.current?.getBoundingClientRect();
  const label = labels.get(timeline.ids[row.at] ?? '');
  const speaker = label?.speaker ?? timeline.agentOf(row.at);
  return (
    <div
      className="card"
      style={{ left: (place?.right ?? 0) - 16, top: Math.min(innerHeight - 160, (place?.top ?? 0) + y) }}
    >
      <div style={{ display: 'flex', gap: 8, alignItems: 'center', marginBottom: 8 }}>
        {speaker !== undefined && <AgentSquare name={speaker} />}
        <b className="medium grow clip">{wordsOf(timeline, row.at, label)}</b>
      </div>
      <dl className="dl">
        <dt>Checkpoint</dt>
        <dd>
          {timeline.branchOf(row.at)} #{timeline.sequences[row.at]}
        </dd>
        <dt>Saved</dt>
        <dd>{formatTime(timeline.timesMs[row.at] ?? 0)}</dd>
        <dt>Contained in</dt>
        <dd>{branchesWith(picture, row.at).join(', ')}</dd>
      </dl>
      <p className="t3" style={{ marginTop: 8 }}>
        f fork, Ctrl-click compare
      </p>
    </div>
  );
}

/** The branches that a checkpoint is part of. */
export function branchesWith({ timeline }: Pick<GraphPicture, 'timeline'>, at: number): string[] {
  const tips = timeline.branchNames.map((name) => ({ name, tip: timeline.tipOf(name) }));
  const holds = tips.filter(({ tip }) => {
    for (const ancestor of timeline.ancestors(tip)) {
      if (ancestor === at) return true;
      if (ancestor < at) return false; // parents come before their children
    }
    return false;
  });
  return holds.map(({ name }) => name);
}
