import { useState } from 'react';
import { formatAgo, formatInline, quoteArgument } from '../data/format.ts';
import { ask, newKey, type Reply, replies } from '../data/server.ts';
import { useNow } from '../data/use-now.ts';
import { useReply } from '../data/use-reply.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress } from '../frame/place.ts';
import { CommandLine, CopyCommands } from '../parts/command.tsx';
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

/** Says how a run goes on that has not taken its answer yet. */
export function Answered({ sessionId }: { sessionId: string }) {
  return (
    <div className="note band">
      <Icon name="check" small />
      <p>It is answered. The run goes on when you continue it:</p>
      <CommandLine command={`savestate continue --session ${quoteArgument(sessionId)}`} />
    </div>
  );
}

/** Answers, and lets the run go on. */
function answerCommand({ sessionId, id }: Asked, answer: string): string {
  return `savestate continue --session ${quoteArgument(sessionId)} --answer ${quoteArgument(`${id}=${answer}`)}`;
}

type FormProps = { request: Asked; isInSession?: boolean; onAnswered?: () => void };

/** One request, with what can be answered. */
export function RequestForm({ request, isInSession = false, onAnswered }: FormProps) {
  const [text, setText] = useState('');
  /** The answer that needs words besides. */
  const [worded, setWorded] = useState<string>();
  const [error, setError] = useState<Error>();
  const nowMs = useNow();
  const answer = async (words: string) => {
    setError(undefined);
    const params = { session: request.sessionId, request: request.id };
    const body = { answer: words, by: 'studio', branch: request.branch, ...(worded === words && { value: text }) };
    try {
      await ask('POST /v1/sessions/{session}/requests/{request}', { params, body, idempotencyKey: newKey() });
      onAnswered?.();
    } catch (problem) {
      setError(problem as Error);
    }
    replies.refresh((url) => url.includes('/v1/requests') || url.includes('/run'));
  };
  const word = (option: string) => {
    const { plan } = (request.more ?? {}) as { readonly plan?: unknown };
    setText(option === 'edit' && typeof plan === 'string' ? plan : '');
    setWorded(option);
  };
  return (
    <form
      className="ask"
      onSubmit={(event) => {
        event.preventDefault();
        void answer(worded ?? text);
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
          <span key={option} style={{ display: 'flex' }}>
            <button
              type="button"
              className="btn"
              aria-pressed={request.needs?.[option] === undefined ? undefined : worded === option}
              onClick={() => (request.needs?.[option] === undefined ? void answer(option) : word(option))}
            >
              {option}
            </button>
            {request.needs?.[option] === undefined && <CopyCommands commands={[answerCommand(request, option)]} />}
          </span>
        ))}
      </div>
      {(request.options.length === 0 || worded !== undefined) && (
        <Words
          label={worded === undefined ? `Answer to ${request.sessionId}` : (request.needs?.[worded] ?? '')}
          submit={worded === undefined ? 'Answer' : `Send ${worded}`}
          isLong={worded !== undefined}
          text={text}
          onText={setText}
        />
      )}
      {error !== undefined && <Trouble error={error} compact />}
    </form>
  );
}

type WordsProps = { label: string; submit: string; isLong: boolean; text: string; onText: (text: string) => void };

function Words({ label, submit, isLong, text, onText }: WordsProps) {
  const isEmpty = text.trim() === '';
  const field = {
    className: 'input grow',
    'aria-label': label,
    placeholder: isLong ? label : '',
    value: text,
    onChange: (event: { readonly target: { readonly value: string } }) => onText(event.target.value),
  };
  return (
    <div style={{ display: 'flex', gap: 8, alignItems: 'end' }}>
      {isLong ? <textarea {...field} rows={Math.min(8, text.split('\n').length)} /> : <input {...field} />}
      <button type="submit" className="btn" disabled={isEmpty} title={isEmpty ? 'Type an answer first' : undefined}>
        {submit}
      </button>
    </div>
  );
}
