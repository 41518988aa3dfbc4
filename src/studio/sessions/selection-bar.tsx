import { useState } from 'react';
import { countOf, formatBytes, quoteArgument } from '../data/format.ts';
import { ask, newKey, replies, server } from '../data/server.ts';
import { CopyCommands } from '../parts/command.tsx';
import { Icon } from '../parts/icon.tsx';
import type { IconName } from '../parts/icons.ts';
import type { ListedSession } from './columns.tsx';
import type { Picked } from './session-table.tsx';
import { sizeOf, useFigures } from './use-sorted.ts';

type Act = {
  readonly word: string;
  readonly icon: IconName;
  /** What has to be typed first. */
  readonly asks?: string;
  readonly isFinal?: true;
  /** Does it to one session; throws if that cannot be. */
  readonly run: (session: ListedSession, name: string) => Promise<unknown>;
  readonly command: (session: ListedSession, name: string) => string;
};

const ACTS: readonly Act[] = [
  {
    word: 'Fork tips',
    icon: 'fork',
    asks: 'Name of the branches',
    run: ({ headId = '' }, branch) =>
      ask('POST /v1/checkpoints/{checkpoint}/fork', {
        params: { checkpoint: headId },
        body: { branch },
        idempotencyKey: newKey(),
      }),
    command: ({ id }, branch) => `savestate fork @ --session ${quoteArgument(id)} -b ${quoteArgument(branch)}`,
  },
  {
    word: 'Tag',
    icon: 'tag',
    asks: 'Name of the tag',
    run: ({ id, headId = '' }, tag) =>
      ask('PUT /v1/sessions/{session}/tags/{tag}', { params: { session: id, tag }, body: { checkpoint: headId } }),
    command: ({ id }, tag) => `savestate tag ${quoteArgument(tag)} --session ${quoteArgument(id)}`,
  },
  {
    word: 'Export',
    icon: 'export',
    run: async ({ id }) => {
      const href = server.urlOf('GET /v1/sessions/{session}/export', { params: { session: id } });
      Object.assign(document.createElement('a'), { href, download: `${id}.ndjson` }).click();
    },
    command: ({ id }) => `savestate export --session ${quoteArgument(id)}`,
  },
  {
    word: 'Forget',
    icon: 'trash',
    isFinal: true,
    run: ({ id }) => ask('DELETE /v1/sessions/{session}', { params: { session: id } }),
    command: ({ id }) => `savestate forget --whole-session ${quoteArgument(id)} --dry-run`,
  },
];

type BarProps = { sessions: readonly ListedSession[]; picked: Picked; isReadOnly: boolean };

/** What can be done with the sessions that are picked. */
export function SelectionBar({ sessions, picked, isReadOnly }: BarProps) {
  const [chosen, setChosen] = useState<Act>();
  const [problems, setProblems] = useState<readonly string[]>([]);
  const size = sizeOf(sessions, useFigures(sessions, true));
  const run = async (act: Act, name = '') => {
    const failed: string[] = [];
    for (const session of sessions)
      await act.run(session, name).catch((error: unknown) => {
        failed.push(`${session.id}: ${(error as Error).message}`);
      });
    setProblems(failed);
    setChosen(undefined);
    replies.refresh((url) => url.includes('/v1/sessions?'));
    if (act.isFinal) picked.set(new Set(failed.length === 0 ? [] : picked.ids));
  };
  return (
    <section aria-label="Selected sessions">
      {problems.map((problem) => (
        <p key={problem} role="alert" className="note danger band">
          <Icon name="error" small />
          {problem}
        </p>
      ))}
      {chosen !== undefined && (
        <ActForm
          key={chosen.word}
          act={chosen}
          sessions={sessions}
          onRun={(name) => run(chosen, name)}
          onClose={() => setChosen(undefined)}
        />
      )}
      <div className="foot start">
        <b className="medium">{sessions.length} selected</b>
        <span className="t3">
          {countOf(size.checkpoints, 'checkpoint')}, {formatBytes(size.uniqueBytes)} unique,{' '}
          {formatBytes(size.logicalBytes)} logical
        </span>
        <span className="vr" />
        {ACTS.map((act) => (
          <button
            key={act.word}
            type="button"
            className={`btn sm ${act.isFinal ? 'bad' : ''}`}
            disabled={isReadOnly && act.word !== 'Export'}
            title={isReadOnly && act.word !== 'Export' ? 'The server is read-only' : undefined}
            onClick={() => (act.asks === undefined && !act.isFinal ? void run(act) : setChosen(act))}
          >
            <Icon name={act.icon} small />
            {act.word}
            {act.isFinal ? '…' : ''}
          </button>
        ))}
        <span className="grow" />
        <button type="button" className="btn sm quiet" onClick={() => picked.set(new Set())}>
          Clear selection<kbd>Esc</kbd>
        </button>
      </div>
    </section>
  );
}

type FormProps = { act: Act; sessions: readonly ListedSession[]; onRun: (name: string) => void; onClose: () => void };

/** What an act needs, or what it would delete, and its command. */
function ActForm({ act, sessions, onRun, onClose }: FormProps) {
  const [name, setName] = useState('');
  const isReady = act.asks === undefined || name !== '';
  const commands = sessions.map((session) => act.command(session, name || '<name>'));
  const submit = (event: React.FormEvent) => {
    event.preventDefault();
    if (isReady) onRun(name);
  };
  return (
    <form className="foot start" onSubmit={submit}>
      {act.asks !== undefined && (
        <input
          // biome-ignore lint/a11y/noAutofocus: it opens because somebody asked for it
          autoFocus
          className="input sm mono"
          style={{ width: 224 }}
          aria-label={act.asks}
          placeholder={act.asks}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      )}
      {act.isFinal && <DryRun sessions={sessions} />}
      <button type="submit" className={`btn sm ${act.isFinal ? 'bad' : ''}`} disabled={!isReady}>
        {act.isFinal ? `Delete ${countOf(sessions.length, 'session')} for good` : `${act.word}: ${sessions.length}`}
      </button>
      <button type="button" className="btn sm quiet" onClick={onClose}>
        Cancel
      </button>
      <span className="grow" />
      <span className="mono t3 clip">{commands[0]}</span>
      <CopyCommands commands={commands} />
    </form>
  );
}

/** What would be gone. */
function DryRun({ sessions }: { sessions: readonly ListedSession[] }) {
  const figures = useFigures(sessions, true);
  return (
    <ul className="dry-run" aria-label="What would be deleted">
      {sessions.map((session) => {
        const { checkpoints, uniqueBytes } = sizeOf([session], figures);
        return (
          <li key={session.id}>
            <span className="clip medium">{session.id}</span>
            <span className="t3">
              {countOf(checkpoints, 'checkpoint')} on {countOf(session.branches.length, 'branch', 'branches')},{' '}
              {formatBytes(uniqueBytes)}
            </span>
          </li>
        );
      })}
    </ul>
  );
}
