import { useState } from 'react';
import { useNow } from '../data/use-now.ts';
import { useReply } from '../data/use-reply.ts';
import { useQueryText } from '../frame/use-query-text.ts';
import { Icon } from '../parts/icon.tsx';
import { LiveChip } from '../parts/live-chip.tsx';
import { SearchButton } from '../parts/search-button.tsx';
import { Loaded, Trouble } from '../parts/trouble.tsx';
import type { ListedSession } from './columns.tsx';
import { EmptyStorage } from './empty-storage.tsx';
import { Filters, isWanted, wantedIn } from './filters.tsx';
import { SelectionBar } from './selection-bar.tsx';
import { SessionTable } from './session-table.tsx';
import { useDrifting, useSorted } from './use-sorted.ts';

/** All sessions of the storage. */
export function SessionsScreen({ query, onSearch }: { query: URLSearchParams; onSearch: () => void }) {
  const server = useReply('GET /v1/server').value;
  const sessions = useReply('GET /v1/sessions', { query: { limit: 1_000 } });
  return (
    <>
      <header className="topbar">
        <h1>Sessions</h1>
        <span className="chip mono">{server?.storage ?? '…'}</span>
        <span className="grow" />
        <LiveChip isFollowing />
        <SearchButton onSearch={onSearch} isWide />
      </header>
      {sessions.value !== undefined && sessions.error !== undefined && <Trouble error={sessions.error} />}
      <Loaded of={sessions}>
        {({ items, damaged, next }) =>
          items.length === 0 && damaged.length === 0 ? (
            <EmptyStorage isReadOnly={server?.isReadOnly === true} />
          ) : (
            <SessionList items={items} query={query} isReadOnly={server?.isReadOnly === true}>
              {damaged.length > 0 && <Damaged ids={damaged} />}
              {next !== undefined && (
                <p className="sect t3">Only the 1,000 used last are listed. Search finds the others.</p>
              )}
            </SessionList>
          )
        }
      </Loaded>
    </>
  );
}

type ListProps = {
  items: readonly ListedSession[];
  query: URLSearchParams;
  isReadOnly: boolean;
  children: React.ReactNode;
};

function SessionList({ items, query, isReadOnly, children }: ListProps) {
  const { text, setText } = useQueryText(query, 'text');
  const nowMs = useNow();
  const { group, within } = wantedIn(query, text);
  const drifting = useDrifting(items);
  const known = { nowMs, drifting };
  const wanted = items.filter(isWanted({ group, text, within }, known));
  const { sorted, sorting } = useSorted(wanted, query);
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set());
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set(localStorage.getItem('hiddenColumns')?.split(',')));
  const hide = (columns: ReadonlySet<string>) => {
    localStorage.setItem('hiddenColumns', [...columns].join(','));
    setHidden(columns);
  };
  const picked = items.filter(({ id }) => ids.has(id));
  const set = { ids, set: setIds };
  return (
    <>
      <Filters
        items={items}
        shown={wanted.length}
        wanted={{ group, text, within }}
        known={known}
        onText={setText}
        hidden={hidden}
        onHide={hide}
      />
      <SessionTable sessions={sorted} hidden={hidden} sorting={sorting} picked={set}>
        {children}
      </SessionTable>
      {picked.length > 0 && <SelectionBar sessions={picked} picked={set} isReadOnly={isReadOnly} />}
    </>
  );
}

function Damaged({ ids }: { ids: readonly string[] }) {
  return (
    <div role="alert" className="note danger" style={{ margin: 16 }}>
      <Icon name="error" small />
      <p>
        {ids.length === 1 ? 'One session cannot be read' : `${ids.length} sessions cannot be read`}: {ids.join(', ')}.
        Run <span className="mono">savestate verify --read-data</span> to see what is damaged.
      </p>
    </div>
  );
}
