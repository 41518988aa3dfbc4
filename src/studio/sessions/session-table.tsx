import { useVirtualizer } from '@tanstack/react-virtual';
import { useRef, useState } from 'react';
import { useKeys } from '../frame/keys.ts';
import { go, sessionAddress } from '../frame/place.ts';
import { Icon } from '../parts/icon.tsx';
import { COLUMNS, type ListedSession } from './columns.tsx';
import { SessionRow } from './session-row.tsx';
import { MOST_MEASURED, type Sorting } from './use-sorted.ts';

const ROW_HEIGHT = 36;

/** Which sessions are picked, for acts on several. */
export type Picked = { readonly ids: ReadonlySet<string>; readonly set: (ids: ReadonlySet<string>) => void };

type TableProps = {
  sessions: readonly ListedSession[];
  hidden: ReadonlySet<string>;
  sorting: Sorting;
  picked: Picked;
  children: React.ReactNode;
};

/** The sessions: only the rows on the screen are made, and only for those figures are asked. */
export function SessionTable({ sessions, hidden, sorting, picked, children }: TableProps) {
  const box = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState(0);
  const columns = COLUMNS.filter(({ id }) => !hidden.has(id));
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
  const pick = (id: string | undefined) => {
    if (id === undefined) return;
    const ids = new Set(picked.ids);
    if (!ids.delete(id)) ids.add(id);
    picked.set(ids);
  };
  const open = () => {
    const session = sessions[at];
    if (session !== undefined) go(sessionAddress(session.id));
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Enter: open,
    x: () => pick(sessions[at]?.id),
    Escape: () => picked.set(new Set()),
  });
  const shown = rows.getVirtualItems();
  return (
    <div className="scroll grow" ref={box}>
      {children}
      <table className="table" aria-label="Sessions" aria-rowcount={sessions.length + 1}>
        <Heads columns={columns} sessions={sessions} sorting={sorting} picked={picked} />
        <tbody>
          <tr style={{ height: shown[0]?.start ?? 0 }} />
          {shown.map(({ index }) => {
            const session = sessions[index];
            if (session === undefined) return null;
            const row = { session, index, columns, isFocused: index === at, isPicked: picked.ids.has(session.id) };
            return <SessionRow key={session.id} {...row} onPick={pick} />;
          })}
          <tr style={{ height: rows.getTotalSize() - (shown.at(-1)?.end ?? 0) }} />
        </tbody>
      </table>
      {sessions.length === 0 && <p className="empty">No session fits the filter.</p>}
    </div>
  );
}

type HeadProps = Pick<TableProps, 'sessions' | 'sorting' | 'picked'> & { columns: typeof COLUMNS };

function Heads({ columns, sessions, sorting, picked }: HeadProps) {
  const count = sessions.filter(({ id }) => picked.ids.has(id)).length;
  const isAll = count > 0 && count === sessions.length;
  return (
    <thead>
      <tr>
        <th className="pick" scope="col">
          <input
            type="checkbox"
            className={count > 0 && !isAll ? 'some' : ''}
            aria-label="Select all"
            checked={isAll}
            onChange={() => picked.set(new Set(isAll ? [] : sessions.map(({ id }) => id)))}
          />
        </th>
        {columns.map((column) => (
          <Head key={column.id} column={column} sorting={sorting} count={sessions.length} />
        ))}
      </tr>
    </thead>
  );
}

type ColumnProps = { column: (typeof COLUMNS)[number]; sorting: Sorting; count: number };

function Head({ column: { id, name, width, isNumber, rank, measure }, sorting, count }: ColumnProps) {
  const isSorted = sorting.column === id;
  const order = sorting.isDescending ? 'descending' : 'ascending';
  const isTooMuch = measure !== undefined && count > MOST_MEASURED;
  const title = isTooMuch
    ? `Filter to at most ${MOST_MEASURED} sessions to sort by this: each is measured`
    : isSorted && sorting.left > 0
      ? `${sorting.left} sessions are still measured`
      : `Sort by ${name.toLowerCase()}`;
  return (
    <th className={isNumber ? 'num' : ''} style={{ width }} scope="col" aria-sort={isSorted ? order : undefined}>
      {(rank ?? measure) === undefined ? (
        name
      ) : (
        <button type="button" disabled={isTooMuch} title={title} onClick={() => sorting.sortBy(id)}>
          {name}
          {isSorted && <Icon name={sorting.left > 0 ? 'clock' : sorting.isDescending ? 'down' : 'up'} small />}
        </button>
      )}
    </th>
  );
}
