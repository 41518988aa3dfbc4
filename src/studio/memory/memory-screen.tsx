import { useState } from 'react';
import type { Reply } from '../data/server.ts';
import { useReply, useReplyIf } from '../data/use-reply.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress } from '../frame/place.ts';
import { Loaded } from '../parts/trouble.tsx';

type Known = Reply<'GET /v1/memory'>['items'][number];

/** Long-term memory: what is known, what answers a question, and why. */
export function MemoryScreen() {
  const server = useReply('GET /v1/server').value;
  const [text, setText] = useState('');
  const [expired, setExpired] = useState(false);
  const [chosen, setChosen] = useState<string>();
  const query = { limit: 200, ...(text !== '' && { text }), ...(expired && { expired: true as never }) };
  const found = useReplyIf('GET /v1/memory', server?.hasMemory === true ? { query } : undefined);
  return (
    <>
      <header className="topbar">
        <h1>Memory</h1>
        <input
          className="input"
          style={{ width: 320 }}
          aria-label="Ask long-term memory"
          placeholder="Ask long-term memory"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <label style={{ display: 'flex', gap: 8 }}>
          <input type="checkbox" checked={expired} onChange={() => setExpired(!expired)} />
          Also what was superseded
        </label>
      </header>
      {server?.hasMemory === false ? (
        <p className="empty">
          This server was started without long-term memory. Start it with --memory and the file that holds it.
        </p>
      ) : (
        <div className="figures">
          <section className="pane" aria-label="Memories">
            <div className="scroll grow">
              <Loaded of={found}>
                {({ items }) => <MemoryTable items={items} chosen={chosen} onChoose={setChosen} />}
              </Loaded>
            </div>
          </section>
          <Why id={chosen} />
        </div>
      )}
    </>
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
            <td className="t2">{new Date(item.observedAt).toLocaleDateString()}</td>
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
                {known.sources.map((source) => (
                  <div className="sect" key={`${source.operation} ${source.at} ${source.checkpointId}`}>
                    <h3>
                      {source.operation} <span className="t3">{new Date(source.at).toLocaleString()}</span>
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
