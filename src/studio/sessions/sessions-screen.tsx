import type { Reply } from '../data/server.ts';
import { useReply } from '../data/use-reply.ts';
import { setQuery } from '../frame/place.ts';
import { useQueryText } from '../frame/use-query-text.ts';
import { LiveChip } from '../parts/live-chip.tsx';
import { SearchButton } from '../parts/search-button.tsx';
import { lookOf } from '../parts/status.tsx';
import { Loaded, Trouble } from '../parts/trouble.tsx';
import { EmptyStorage } from './empty-storage.tsx';
import { SessionTable } from './session-table.tsx';

/** A session as the list has it. */
export type ListedSession = Reply<'GET /v1/sessions'>['items'][number];

const GROUPS = ['All', 'Running', 'Waiting', 'Failed', 'Drifting', 'Ended'] as const;
type Group = (typeof GROUPS)[number];

/** All sessions of the storage. */
export function SessionsScreen({ query, onSearch }: { query: URLSearchParams; onSearch: () => void }) {
  const server = useReply('GET /v1/server');
  const sessions = useReply('GET /v1/sessions', { query: { limit: 1_000 } });
  const group = GROUPS.find((name) => name === query.get('group')) ?? 'All';
  const setGroup = (name: Group) => setQuery({ group: name === 'All' ? undefined : name }, { replace: true });
  const { text, setText } = useQueryText(query, 'text');
  const isEmpty = sessions.value?.items.length === 0;
  return (
    <>
      <header className="topbar">
        <h1>Sessions</h1>
        <span className="chip mono">{server.value?.storage ?? '…'}</span>
        <span className="grow" />
        <LiveChip isFollowing />
        <SearchButton onSearch={onSearch} isWide />
      </header>
      {sessions.value !== undefined && sessions.error !== undefined && <Trouble error={sessions.error} />}
      {sessions.value !== undefined && !isEmpty && (
        <Filters items={sessions.value.items} group={group} onGroup={setGroup} text={text} onText={setText} />
      )}
      <Loaded of={sessions}>
        {({ items, damaged, next }) =>
          isEmpty && damaged.length === 0 ? (
            <EmptyStorage />
          ) : (
            <SessionTable
              sessions={items.filter(isWanted(group, text))}
              damaged={damaged}
              hasMore={next !== undefined}
            />
          )
        }
      </Loaded>
    </>
  );
}

function isWanted(group: Group, text: string): (session: ListedSession) => boolean {
  const wanted = text.toLowerCase();
  return ({ id, status, agentId = '', userId = '' }) =>
    (group === 'All' || lookOf(status).word === group) &&
    (wanted === '' || `${id}\n${agentId}\n${userId}`.toLowerCase().includes(wanted));
}

type FilterProps = {
  items: readonly ListedSession[];
  group: Group;
  onGroup: (group: Group) => void;
  text: string;
  onText: (text: string) => void;
};

function Filters({ items, group, onGroup, text, onText }: FilterProps) {
  const countOf = (name: Group) => items.filter(isWanted(name, '')).length;
  const shown = items.filter(isWanted(group, text)).length;
  return (
    <div className="subbar">
      {GROUPS.map((name) => (
        <button
          key={name}
          type="button"
          className="btn quiet"
          aria-pressed={group === name}
          onClick={() => onGroup(name)}
        >
          {name} <span className="count">{countOf(name)}</span>
        </button>
      ))}
      <span className="vr" />
      <input
        className="input"
        style={{ width: 240 }}
        aria-label="Filter by id, agent or user"
        placeholder="Filter by id, agent or user"
        value={text}
        onChange={(event) => onText(event.target.value)}
      />
      <span className="grow" />
      <span className="t3">
        {shown} of {items.length}
      </span>
    </div>
  );
}
