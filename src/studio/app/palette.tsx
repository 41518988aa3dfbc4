import { useState } from 'react';
import { shortId } from '../data/format.ts';
import type { Asked, Reply } from '../data/server.ts';
import { useReply, useReplyIf } from '../data/use-reply.ts';
import { useRested } from '../data/use-rested.ts';
import { go, sessionAddress, usePlace } from '../frame/place.ts';
import { nextTheme } from '../frame/theme.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Icon } from '../parts/icon.tsx';
import { actsOf, type Entry } from './acts.ts';

const SCREENS: readonly Entry[] = [
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
  const [problem, setProblem] = useState('');
  const { entries, said } = useEntries(text);
  const run = async (entry: Entry | undefined) => {
    if (entry === undefined) return;
    try {
      const doing = entry.act();
      if (doing instanceof Promise) await doing;
      onClose();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  const press = (event: React.KeyboardEvent) => {
    if (event.key === 'ArrowDown') setAt(Math.min(entries.length - 1, at + 1));
    else if (event.key === 'ArrowUp') setAt(Math.max(0, at - 1));
    else if (event.key === 'Enter') void run(entries[at]);
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
            setProblem('');
            setAt(0);
          }}
        />
        <ul aria-label="Found" role="listbox">
          {entries.map((entry, n) => (
            <li key={entry.key} role="option" aria-selected={n === at} onPointerDown={() => void run(entry)}>
              <Icon name={entry.icon} small />
              <span className="grow clip">{entry.text}</span>
              <span className="t3 clip">{entry.more}</span>
            </li>
          ))}
        </ul>
        <p className="t2" role="status">
          {problem || said}
        </p>
      </div>
    </Dialog>
  );
}

function sessionEntry({ id, status = '' }: Reply<'GET /v1/sessions'>['items'][number]): Entry {
  return { key: `s ${id}`, icon: 'sessions', text: id, more: status, act: () => go(sessionAddress(id)) };
}

function checkpointEntry({ id, sessionId, branch, sequence }: Reply<'GET /v1/checkpoints/{checkpoint}'>): Entry {
  const more = `${sessionId} ${branch} #${sequence}`;
  return { key: id, icon: 'right', text: shortId(id), more, act: () => go(sessionAddress(sessionId, { at: id })) };
}

function matchEntry({
  sessionId,
  branch,
  checkpointId,
  sequence,
  path,
  text,
}: Reply<'GET /v1/search'>['items'][number]): Entry {
  return {
    key: `m ${checkpointId} ${path}`,
    icon: 'search',
    text,
    more: `${sessionId} ${branch} #${sequence}`,
    act: () => go(sessionAddress(sessionId, { at: checkpointId })),
  };
}

/** The branches and tags of the session that is open. */
function namesIn(session: Reply<'GET /v1/sessions/{session}'> | undefined): readonly Entry[] {
  if (session === undefined) return [];
  const { id, branches, tags } = session;
  return [
    ...branches.map(({ name }): Entry => {
      const act = () => go(sessionAddress(id, { branch: name }));
      return { key: `b ${name}`, icon: 'fork', text: name, more: 'branch', act };
    }),
    ...tags.map(({ name, checkpointId }): Entry => {
      const act = () => go(sessionAddress(id, { at: checkpointId }));
      return { key: `t ${name}`, icon: 'tag', text: name, more: 'tag', act };
    }),
  ];
}

/** What there is to say besides what was found. */
function saidOf(
  asked: Asked<Reply<'GET /v1/search'>>,
  { isSought, count }: { isSought: boolean; count: number },
): string {
  if (isSought && asked.error !== undefined) return asked.error.message;
  if (isSought && asked.value === undefined) return 'Searching…';
  if (count > 0) return '';
  return isSought && asked.value?.isComplete === false ? 'Nothing found in what can be read.' : 'Nothing found.';
}

type Found = { readonly entries: readonly Entry[]; readonly said: string };

/** Sessions and screens by name at once; what the server has to look for, when the typing rests. */
function useEntries(typed: string): Found {
  const text = useRested(typed.trim());
  const place = usePlace();
  const { path } = place;
  const session = path[0] === 's' ? path[1] : undefined;
  const sessions = useReply('GET /v1/sessions', { query: { limit: MOST, ...(text !== '' && { text }) } });
  const refs = useReplyIf(
    'GET /v1/sessions/{session}',
    session === undefined ? undefined : { params: { session } },
  ).value;
  const isId = /^(chk_[0-9a-z]{4,}|[0-9][0-9a-z]{7,})$/.test(text);
  const checkpoint = useReplyIf(
    'GET /v1/checkpoints/{checkpoint}',
    isId ? { params: { checkpoint: text } } : undefined,
  );
  const query = { text, limit: MOST, ...(session !== undefined && { session }) };
  const matches = useReplyIf('GET /v1/search', text.length < 2 ? undefined : { query });
  const fits = (name: string) => name.toLowerCase().includes(typed.trim().toLowerCase());
  const commands = [...actsOf(place), ...SCREENS].filter((command) => fits(command.text));
  // What is typed as the beginning of a command is meant as one.
  const isMeant = ({ text: name }: Entry) => typed !== '' && name.toLowerCase().startsWith(typed.trim().toLowerCase());
  const entries = [
    ...commands.filter(isMeant),
    ...(checkpoint.value === undefined ? [] : [checkpointEntry(checkpoint.value)]),
    ...(sessions.value?.items ?? [])
      .filter(({ id, agentId = '', userId = '' }) => fits(`${id} ${agentId} ${userId}`))
      .map(sessionEntry),
    ...namesIn(refs)
      .filter(({ text: name }) => typed !== '' && fits(name))
      .slice(0, MOST),
    ...(matches.value?.items ?? []).map(matchEntry),
    ...commands.filter((command) => !isMeant(command)),
  ];
  return { entries, said: saidOf(matches, { isSought: text.length >= 2, count: entries.length }) };
}
