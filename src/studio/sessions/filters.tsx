import { useId } from 'react';
import { formatCount } from '../data/format.ts';
import { setQuery } from '../frame/place.ts';
import { CopyCommand } from '../parts/command.tsx';
import { Icon } from '../parts/icon.tsx';
import { lookOf } from '../parts/status.tsx';
import { COLUMNS, type ListedSession } from './columns.tsx';

const GROUPS = ['All', 'Running', 'Waiting', 'Failed', 'Drifting', 'Ended'] as const;
type Group = (typeof GROUPS)[number];

const HOUR_MS = 3_600_000;
const WITHIN: readonly (readonly [name: string, words: string, ms: number])[] = [
  ['hour', 'Active in the last hour', HOUR_MS],
  ['day', 'Active in the last day', 24 * HOUR_MS],
  ['week', 'Active in the last 7 days', 7 * 24 * HOUR_MS],
  ['month', 'Active in the last 30 days', 30 * 24 * HOUR_MS],
];

/** What of the list is wanted. */
export type Wanted = { readonly group: Group; readonly text: string; readonly within: string };

/** What a filter goes by besides the sessions: the time, and which of them drift. */
export type Known = { readonly nowMs: number; readonly drifting: ReadonlySet<string> };

/** The filter that an address has. */
export function wantedIn(query: URLSearchParams, text: string): Wanted {
  const group = GROUPS.find((name) => name === query.get('group')) ?? 'All';
  return { group, text, within: query.get('within') ?? '' };
}

/** Whether a session fits a filter. */
export function isWanted(filter: Wanted, { nowMs, drifting }: Known): (session: ListedSession) => boolean {
  const { group, text, within } = filter;
  const wanted = text.toLowerCase();
  const sinceMs = nowMs - (WITHIN.find(([name]) => name === within)?.[2] ?? nowMs);
  return ({ id, status, savedAt, agentId = '', userId = '' }) =>
    (group === 'All' || lookOf(status).word === group || (group === 'Drifting' && drifting.has(id))) &&
    Date.parse(savedAt) >= sinceMs &&
    (wanted === '' || `${id}\n${agentId}\n${userId}`.toLowerCase().includes(wanted));
}

type FilterProps = {
  items: readonly ListedSession[];
  shown: number;
  wanted: Wanted;
  known: Known;
  onText: (text: string) => void;
  hidden: ReadonlySet<string>;
  onHide: (hidden: ReadonlySet<string>) => void;
};

/** Which sessions are listed, and which columns. */
export function Filters({ items, shown, wanted, known, onText, hidden, onHide }: FilterProps) {
  const countOf = (group: Group) => items.filter(isWanted({ group, text: '', within: '' }, known)).length;
  return (
    <div className="subbar">
      {GROUPS.map((name) => (
        <button
          key={name}
          type="button"
          className="btn quiet"
          aria-pressed={wanted.group === name}
          onClick={() => setQuery({ group: name === 'All' ? undefined : name }, { replace: true })}
        >
          {name} <span className="count">{formatCount(countOf(name))}</span>
        </button>
      ))}
      <span className="vr" />
      <input
        className="input"
        style={{ width: 208 }}
        aria-label="Filter by id, agent or user"
        placeholder="Filter by id, agent or user"
        value={wanted.text}
        onChange={(event) => onText(event.target.value)}
      />
      <select
        className="select"
        style={{ width: 'auto' }}
        aria-label="Last activity"
        value={wanted.within}
        onChange={(event) => setQuery({ within: event.target.value || undefined }, { replace: true })}
      >
        <option value="">Any time</option>
        {WITHIN.map(([name, words]) => (
          <option key={name} value={name}>
            {words}
          </option>
        ))}
      </select>
      <span className="grow" />
      <span className="t3">
        {formatCount(shown)} of {formatCount(items.length)}
      </span>
      <ColumnMenu hidden={hidden} onHide={onHide} />
      <CopyCommand command="savestate sessions" />
    </div>
  );
}

/** Chooses columns; the first is always there. */
function ColumnMenu({ hidden, onHide }: Pick<FilterProps, 'hidden' | 'onHide'>) {
  const id = useId();
  const toggle = (column: string) => {
    const next = new Set(hidden);
    if (!next.delete(column)) next.add(column);
    onHide(next);
  };
  return (
    <>
      <button type="button" className="btn quiet anchor" popoverTarget={id}>
        <Icon name="columns" small />
        Columns
      </button>
      <div id={id} popover="auto" className="menu columns" role="dialog" aria-label="Columns">
        {COLUMNS.slice(1).map((column) => (
          <label key={column.id}>
            <input type="checkbox" checked={!hidden.has(column.id)} onChange={() => toggle(column.id)} />
            {column.name}
          </label>
        ))}
      </div>
    </>
  );
}
