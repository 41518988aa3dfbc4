import { useState } from 'react';
import { formatAgo, formatInline } from '../data/format.ts';
import { ask, newKey, type Reply, replies } from '../data/server.ts';
import { useNow } from '../data/use-now.ts';
import { useReply } from '../data/use-reply.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress } from '../frame/place.ts';
import { Icon } from '../parts/icon.tsx';
import { Loaded, Trouble } from '../parts/trouble.tsx';

type Asked = Reply<'GET /v1/requests'>['items'][number];

/** What people are asked now; answered once, here or anywhere. */
export function Requests() {
  const asked = useReply('GET /v1/requests');
  return (
    <aside className="pane" aria-label="Requests">
      <div className="head">
        <h2>Requests</h2>
        <span className="count">{asked.value?.items.length ?? ''}</span>
      </div>
      <div className="scroll grow">
        <Loaded of={asked}>
          {({ items }) => (
            <>
              {items.length === 0 && <p className="empty">Nobody is asked anything now.</p>}
              {items.map((request) => (
                <RequestForm key={`${request.sessionId} ${request.id}`} request={request} />
              ))}
            </>
          )}
        </Loaded>
      </div>
    </aside>
  );
}

type FormProps = { request: Asked; isInSession?: boolean; onAnswered?: () => void };

/** One request, with what can be answered. */
export function RequestForm({ request, isInSession = false, onAnswered }: FormProps) {
  const [text, setText] = useState('');
  const [error, setError] = useState<Error>();
  const nowMs = useNow();
  const answer = async (words: string) => {
    setError(undefined);
    const params = { session: request.sessionId, request: request.id };
    const body = { answer: words, by: 'studio', branch: request.branch };
    try {
      await ask('POST /v1/sessions/{session}/requests/{request}', { params, body, idempotencyKey: newKey() });
      onAnswered?.();
    } catch (problem) {
      setError(problem as Error);
    }
    replies.refresh((url) => url.includes('/v1/requests') || url.includes('/run'));
  };
  return (
    <form
      className="ask"
      onSubmit={(event) => {
        event.preventDefault();
        void answer(text);
      }}
    >
      <div style={{ display: 'flex', gap: 8, alignItems: 'center' }}>
        <Icon name="person" small className="warn" />
        {isInSession ? (
          <span className="medium clip grow">{request.agent ?? request.path ?? request.kind} asks</span>
        ) : (
          <Link className="medium clip grow" href={sessionAddress(request.sessionId)}>
            {request.sessionId}
          </Link>
        )}
        {request.askedAtMs !== undefined && <span className="t3">{formatAgo(request.askedAtMs, nowMs)}</span>}
      </div>
      <p style={{ fontSize: 'var(--fs-3)', lineHeight: 'var(--lh-3)', overflowWrap: 'anywhere' }}>{request.message}</p>
      {request.more !== undefined && <pre className="patch">{formatInline(request.more, 1_000)}</pre>}
      <div style={{ display: 'flex', gap: 8, flexWrap: 'wrap' }}>
        {request.options.map((option) => (
          <button key={option} type="button" className="btn" onClick={() => void answer(option)}>
            {option}
          </button>
        ))}
        {request.options.length === 0 && (
          <>
            <input
              className="input grow"
              aria-label={`Answer to ${request.sessionId}`}
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
            <button
              type="submit"
              className="btn"
              disabled={text === ''}
              title={text === '' ? 'Type an answer first' : undefined}
            >
              Answer
            </button>
          </>
        )}
      </div>
      {error !== undefined && <Trouble error={error} compact />}
    </form>
  );
}
