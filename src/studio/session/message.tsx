import { type ReactNode, useState } from 'react';
import { formatInline } from '../data/format.ts';
import { useReply } from '../data/use-reply.ts';
import { AgentName } from '../parts/agent.tsx';
import { Icon } from '../parts/icon.tsx';
import { Trouble } from '../parts/trouble.tsx';
import type { ShownMessage } from './messages-tab.tsx';

/** More of a long text is shown on request. */
const CLAMP_CHARACTERS = 3_000;

type MessageProps = {
  message: ShownMessage;
  isSelected: boolean;
  onSelect: (checkpointId: string) => void;
  children?: ReactNode;
};

/** One message: who, what, and the calls with their results, or what is given instead. Stored text is shown as text only. */
export function Message({ message, isSelected, onSelect, children }: MessageProps) {
  const { speaker, checkpointId, sequence, index } = message;
  return (
    <article className={`msg ${isSelected ? 'is-selected' : ''}`} aria-current={isSelected || undefined}>
      <header>
        <AgentName name={speaker} />
        <span className="grow" />
        <span className="meta">
          {checkpointId === undefined ? (
            <span>{index + 1}</span>
          ) : (
            <button type="button" className="btn sm quiet" onClick={() => onSelect(checkpointId)}>
              #{sequence ?? index + 1}
            </button>
          )}
        </span>
      </header>
      {children || <MessageBody message={message} />}
    </article>
  );
}

/** A message as it is stored; of one height, so that nothing moves when it comes. */
export function RawMessage({ checkpoint, path }: { checkpoint: string; path: string }) {
  const asked = useReply('GET /v1/checkpoints/{checkpoint}/value', { params: { checkpoint }, query: { path } });
  if (asked.error !== undefined) return <Trouble error={asked.error} compact />;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard
    <section className="raw" tabIndex={0} aria-label={path}>
      <Clamped text={asked.value === undefined ? '' : JSON.stringify(asked.value.value, null, 2)} />
    </section>
  );
}

/** What was said, then each call with its result. */
export function MessageBody({ message }: { message: Pick<ShownMessage, 'text' | 'calls' | 'results'> }) {
  const { text, calls, results } = message;
  return (
    <>
      {text !== '' && <Clamped text={text} />}
      {calls.map((call, n) => (
        <ToolCall
          key={call.id ?? `call ${n}`}
          call={call}
          result={results.find((one) => one.id !== undefined && one.id === call.id)}
        />
      ))}
      {results
        .filter((one) => !calls.some((call) => call.id !== undefined && call.id === one.id))
        .map((one, n) => (
          <ToolCall key={one.id ?? `result ${n}`} call={undefined} result={one} />
        ))}
    </>
  );
}

function Clamped({ text }: { text: string }) {
  const [isOpen, setOpen] = useState(false);
  const isLong = text.length > CLAMP_CHARACTERS;
  return (
    <div className="body" style={{ whiteSpace: 'pre-wrap' }} dir="auto">
      {isLong && !isOpen ? `${text.slice(0, CLAMP_CHARACTERS)}…` : text}
      {isLong && (
        <div>
          <button type="button" className="btn sm quiet" onClick={() => setOpen(!isOpen)}>
            {isOpen ? 'Show less' : `Show all ${text.length.toLocaleString('en-US')} characters`}
          </button>
        </div>
      )}
    </div>
  );
}

type Call = ShownMessage['calls'][number];
type Result = ShownMessage['results'][number];

function ToolCall({ call, result }: { call: Call | undefined; result: Result | undefined }) {
  const name = call?.name ?? result?.name ?? 'tool';
  return (
    <div className={`tool ${result?.isError ? 'is-repeat' : ''}`}>
      <div className="call">
        <Icon name="effect" small />
        <span className="mono medium">{name}</span>
        <span className="mono t2 clip grow" title={formatInline(call?.input, 2_000)}>
          {call?.input === undefined ? '' : formatInline(call.input)}
        </span>
        {result?.isError && <span className="danger">failed</span>}
      </div>
      {result?.output !== undefined && (
        <div className="result">
          <pre dir="auto">{formatInline(result.output, 600)}</pre>
        </div>
      )}
    </div>
  );
}
