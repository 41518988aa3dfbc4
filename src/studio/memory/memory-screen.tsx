import { formatDate, quoteArgument } from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { useReply, useReplyIf } from '../data/use-reply.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress, setQuery } from '../frame/place.ts';
import { type QueryText, useQueryText } from '../frame/use-query-text.ts';
import { CopyCommand } from '../parts/command.tsx';
import { Loaded } from '../parts/trouble.tsx';

type Known = Reply<'GET /v1/memory'>['items'][number];

/** Long-term memory: what is known, what answers a question, and why. */
export function MemoryScreen({ query }: { query: URLSearchParams }) {
  const server = useReply('GET /v1/server').value;
  const question = useQueryText(query, 'text');
  const user = useQueryText(query, 'user');
  const agent = useQueryText(query, 'agent');
  const expired = query.has('superseded');
  const chosen = query.get('memory') ?? undefined;
  const wanted = {
    limit: 200,
    ...(question.rested !== '' && { text: question.rested }),
    ...(user.rested !== '' && { user: user.rested }),
    ...(agent.rested !== '' && { agent: agent.rested }),
    ...(expired && { expired: true as never }),
  };
  const isOwned = 'user' in wanted || 'agent' in wanted;
  const found = useReplyIf('GET /v1/memory', server?.hasMemory === true && isOwned ? { query: wanted } : undefined);
  return (
    <>
      <header className="topbar">
        <h1>Memory</h1>
        <Field field={user} label="User" width={144} />
        <Field field={agent} label="Agent" width={144} />
        <Field field={question} label="Ask long-term memory" width={320} />
        <label style={{ display: 'flex', gap: 8 }}>
          <input
            type="checkbox"
            checked={expired}
            onChange={() => setQuery({ superseded: expired ? undefined : 'true' }, { replace: true })}
          />
          Also what was superseded
        </label>
        {isOwned && (
          <>
            <span className="grow" />
            <CopyCommand command={commandOf(wanted)} isThroughServer />
          </>
        )}
      </header>
      {server?.hasMemory === false ? (
        <p className="empty">
          This server was started without long-term memory. Start it with --memory and the file that holds it.
        </p>
      ) : (
        <div className="figures">
          <section className="pane" aria-label="Memories">
            <div className="scroll grow">
              {isOwned ? (
                <Loaded of={found}>
                  {({ items }) => (
                    <MemoryTable
                      items={items}
                      chosen={chosen}
                      onChoose={(memory) => setQuery({ memory }, { replace: true })}
                    />
                  )}
                </Loaded>
              ) : (
                <p className="empty">Whose memory is it? Name the user or the agent above.</p>
              )}
            </div>
          </section>
          <Why id={chosen} />
        </div>
      )}
    </>
  );
}

type Wanted = { readonly text?: string; readonly user?: string; readonly agent?: string; readonly expired?: true };

/** The command that shows the same. */
function commandOf({ text, user, agent, expired }: Wanted): string {
  return [
    text === undefined ? 'savestate memory list' : `savestate memory search ${quoteArgument(text)}`,
    ...(user === undefined ? [] : [`--user ${quoteArgument(user)}`]),
    ...(agent === undefined ? [] : [`--agent ${quoteArgument(agent)}`]),
    ...(expired === undefined ? [] : ['--all']),
  ].join(' ');
}

function Field({ field, label, width }: { field: QueryText; label: string; width: number }) {
  return (
    <input
      className="input"
      style={{ width, flex: '0 1 auto' }}
      aria-label={label}
      placeholder={label}
      value={field.text}
      onChange={(event) => field.setText(event.target.value)}
    />
  );
}

type TableProps = { items: readonly Known[]; chosen: string | undefined; onChoose: (id: string) => void };

function MemoryTable({ items, chosen, onChoose }: TableProps) {
  if (items.length === 0) return <p className="empty">Nothing is known that answers this.</p>;
  return (
    <table className="table tight">
      <thead>
        <tr>
          <th>Memory</th>
          <th style={{ width: 96 }}>Kind</th>
          <th style={{ width: 112 }}>Subject</th>
          <th style={{ width: 104 }}>Observed</th>
          <th className="num" style={{ width: 72 }}>
            Score
          </th>
        </tr>
      </thead>
      <tbody>
        {items.map((item) => (
          <tr key={item.id} aria-selected={item.id === chosen} onPointerDown={() => onChoose(item.id)}>
            <td className={`clip ${item.supersededBy === undefined ? '' : 't3'}`} title={item.memory}>
              {item.supersededBy !== undefined && <span className="chip warn">superseded</span>} {item.memory}
            </td>
            <td className="t2">{item.kind}</td>
            <td className="t2">{item.subject}</td>
            <td className="t2">{formatDate(Date.parse(item.observedAt)).split(',')[0]}</td>
            <td className="num">{item.score?.toFixed(2) ?? ''}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Why({ id }: { id: string | undefined }) {
  const asked = useReplyIf('GET /v1/memory/{memory}', id === undefined ? undefined : { params: { memory: id } });
  return (
    <aside className="pane" aria-label="Why it is known">
      <div className="head">
        <h2>Why it is known</h2>
      </div>
      <div className="scroll grow">
        {id === undefined ? (
          <p className="empty">Choose a memory to see what taught it.</p>
        ) : (
          <Loaded of={asked}>
            {(known) => (
              <>
                <p className="sect">{known.memory ?? 'It was forgotten.'}</p>
                <div className="sect">
                  <CopyCommand command={`savestate memory why ${quoteArgument(id)}`} isThroughServer />
                </div>
                {known.sources.map((source) => (
                  <div className="sect" key={`${source.operation} ${source.at} ${source.checkpointId}`}>
                    <h3>
                      <span className="word">{source.operation.toLowerCase()}</span>{' '}
                      <span className="t3">{formatDate(Date.parse(source.at))}</span>
                    </h3>
                    {source.turns.map((turn) => (
                      <p key={turn} className="t2" style={{ overflowWrap: 'anywhere' }}>
                        {turn}
                      </p>
                    ))}
                    {source.sessionId !== undefined && (
                      <Link href={sessionAddress(source.sessionId, { at: source.checkpointId })}>
                        {source.sessionId}
                      </Link>
                    )}
                  </div>
                ))}
              </>
            )}
          </Loaded>
        )}
      </div>
    </aside>
  );
}
