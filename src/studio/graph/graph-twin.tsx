import { type GraphPicture, wordsOf } from './draw-graph.ts';
import { type GraphRow, laneOf } from './graph-rows.ts';

type TwinProps = { picture: GraphPicture; visible: readonly GraphRow[]; first: number; onSelect: (at: number) => void };

/** The rows on the screen as a real list: for screen readers, and for tests. */
export function GraphTwin({ picture, visible, first, onSelect }: TwinProps) {
  const { timeline, rows, selected } = picture;
  return (
    <div className="sr" role="treegrid" aria-label="Checkpoints" aria-rowcount={rows.length}>
      {visible.map((row, n) => (
        <div
          key={timeline.ids[row.at]}
          role="row"
          tabIndex={-1}
          aria-rowindex={first + n + 1}
          aria-level={laneOf(timeline.branches[row.at] ?? 0) + 1}
          aria-selected={row.count === 1 && row.at === selected}
          onClick={() => onSelect(row.at)}
          onKeyDown={(event) => event.key === 'Enter' && onSelect(row.at)}
        >
          <span role="gridcell">{describe(picture, row)}</span>
        </div>
      ))}
    </div>
  );
}

function describe({ timeline, labels, tags }: GraphPicture, { at, count }: GraphRow): string {
  const number = timeline.sequences[at] ?? 0;
  if (count > 1)
    return `#${number} to #${timeline.sequences[at + count - 1]}: ${count} steps on ${timeline.branchOf(at)}`;
  const label = labels.get(timeline.ids[at] ?? '');
  const speaker = label?.speaker ?? timeline.agentOf(at);
  const bare = [...timeline.bare].filter(([, begin]) => begin === at).map(([name]) => `branch ${name}`);
  const parts = [`#${number} ${timeline.branchOf(at)}`, speaker, wordsOf(timeline, at, label), tags.get(at), ...bare];
  return parts.filter((part) => part !== undefined && part !== '').join(', ');
}
