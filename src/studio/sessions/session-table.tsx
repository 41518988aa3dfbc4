import { useVirtualizer } from '@tanstack/react-virtual';
import { useRef, useState } from 'react';
import { useKeys } from '../frame/keys.ts';
import { go, sessionAddress } from '../frame/place.ts';
import { Icon } from '../parts/icon.tsx';
import { SessionRow } from './session-row.tsx';
import type { ListedSession } from './sessions-screen.tsx';

const ROW_HEIGHT = 36;

const COLUMNS: readonly (readonly [name: string, width: string, isNumber?: boolean])[] = [
  ['Name', 'auto'],
  ['Status', '8%'],
  ['Branches', '6%', true],
  ['Checkpoints', '7%', true],
  ['Activity', '8%'],
  ['Model', '10%'],
  ['Tokens', '6%', true],
  ['Cost', '6%', true],
  ['Unique / logical', '11%', true],
  ['Drift', '120px'],
  ['Integrity', '120px'],
];

type TableProps = { sessions: readonly ListedSession[]; damaged: readonly string[]; hasMore: boolean };

/** The sessions: only the rows on the screen are made, and only for those figures are asked. */
export function SessionTable({ sessions, damaged, hasMore }: TableProps) {
  const box = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState(0);
  const rows = useVirtualizer({
    count: sessions.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 4,
  });
  const move = (by: number) => {
    const to = Math.max(0, Math.min(sessions.length - 1, at + by));
    setAt(to);
    rows.scrollToIndex(to);
  };
  const open = () => {
    const session = sessions[at];
    if (session !== undefined) go(sessionAddress(session.id));
  };
  useKeys({ j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1), Enter: open });
  const shown = rows.getVirtualItems();
  const above = shown[0]?.start ?? 0;
  const below = rows.getTotalSize() - (shown.at(-1)?.end ?? 0);
  return (
    <div className="scroll grow" ref={box}>
      {damaged.length > 0 && <Damaged ids={damaged} />}
      <table className="table" aria-rowcount={sessions.length}>
        <Heads />
        <tbody>
          <tr style={{ height: above }} />
          {shown.map(({ index }) => {
            const session = sessions[index];
            return session && <SessionRow key={session.id} session={session} index={index} isSelected={index === at} />;
          })}
          <tr style={{ height: below }} />
        </tbody>
      </table>
      {sessions.length === 0 && <p className="empty">No session fits the filter.</p>}
      {hasMore && <p className="sect t3">Only the 1,000 used last are listed. Search finds the others.</p>}
    </div>
  );
}

function Heads() {
  return (
    <thead>
      <tr>
        {COLUMNS.map(([name, width, isNumber]) => (
          <th key={name} className={isNumber ? 'num' : ''} style={{ width }} scope="col">
            {name}
          </th>
        ))}
      </tr>
    </thead>
  );
}

function Damaged({ ids }: { ids: readonly string[] }) {
  return (
    <div role="alert" className="note danger" style={{ margin: 16 }}>
      <Icon name="error" small />
      <p>
        {ids.length === 1 ? 'One session cannot be read' : `${ids.length} sessions cannot be read`}: {ids.join(', ')}.
        Run <span className="mono">savestate verify</span> to see what is damaged.
      </p>
    </div>
  );
}
