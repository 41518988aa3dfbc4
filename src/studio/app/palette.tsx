import { useState } from 'react';
import { useReply, useReplyIf } from '../data/use-reply.ts';
import { go, sessionAddress, usePlace } from '../frame/place.ts';
import { nextTheme } from '../frame/theme.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Icon } from '../parts/icon.tsx';
import type { IconName } from '../parts/icons.ts';

type Entry = {
  readonly key: string;
  readonly icon: IconName;
  readonly text: string;
  readonly more: string;
  readonly act: () => void;
};

const COMMANDS: readonly Entry[] = [
  { key: 'c1', icon: 'sessions', text: 'Sessions', more: 'g s', act: () => go('/s') },
  { key: 'c2', icon: 'runs', text: 'Runs', more: 'g r', act: () => go('/runs') },
  { key: 'c3', icon: 'memory', text: 'Memory', more: 'g m', act: () => go('/memory') },
  { key: 'c4', icon: 'storage', text: 'Storage', more: 'g t', act: () => go('/storage') },
  { key: 'c5', icon: 'theme', text: 'Light or dark', more: 'T', act: nextTheme },
];

const MOST = 8;

/** Search and commands in one field: sessions by name, words inside the session that is open, screens. */
export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const entries = useEntries(text);
  const run = (entry: Entry | undefined) => {
    if (entry === undefined) return;
    onClose();
    entry.act();
  };
  const press = (event: React.KeyboardEvent) => {
    if (event.key === 'ArrowDown') setAt(Math.min(entries.length - 1, at + 1));
    else if (event.key === 'ArrowUp') setAt(Math.max(0, at - 1));
    else if (event.key === 'Enter') run(entries[at]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Search and commands" onClose={onClose} isBare>
      <div className="palette">
        <input
          aria-label="Search sessions, text and commands"
          placeholder="Search sessions, text and commands"
          value={text}
          onKeyDown={press}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
        />
        <ul aria-label="Found" role="listbox">
          {entries.map((entry, n) => (
            <li key={entry.key} role="option" aria-selected={n === at} onPointerDown={() => run(entry)}>
              <Icon name={entry.icon} small />
              <span className="grow clip">{entry.text}</span>
              <span className="t3 clip">{entry.more}</span>
            </li>
          ))}
        </ul>
      </div>
    </Dialog>
  );
}

function useEntries(text: string): readonly Entry[] {
  const { path } = usePlace();
  const session = path[0] === 's' ? path[1] : undefined;
  const wanted = text.toLowerCase();
  const sessions = useReply('GET /v1/sessions', { query: { limit: 1_000 } }).value?.items ?? [];
  const query = { text, limit: MOST, ...(session !== undefined && { session }) };
  const matches = useReplyIf('GET /v1/search', text.length < 2 ? undefined : { query }).value?.items ?? [];
  const commands = COMMANDS.filter((command) => command.text.toLowerCase().includes(wanted));
  const named = sessions.filter(({ id }) => id.toLowerCase().includes(wanted)).slice(0, MOST);
  return [
    ...named.map(
      ({ id, status }): Entry => ({
        key: `s ${id}`,
        icon: 'sessions',
        text: id,
        more: status ?? '',
        act: () => go(sessionAddress(id)),
      }),
    ),
    ...matches.map(
      (match): Entry => ({
        key: `m ${match.checkpointId} ${match.path}`,
        icon: 'search',
        text: match.text,
        more: `${match.sessionId} #${match.sequence}`,
        act: () => go(sessionAddress(match.sessionId, { at: match.checkpointId })),
      }),
    ),
    ...commands,
  ];
}
