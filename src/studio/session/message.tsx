import { type ReactNode, useState } from 'react';
import { formatCount, formatDuration, formatInline } from '../data/format.ts';
import { useReply } from '../data/use-reply.ts';
import { AgentName } from '../parts/agent.tsx';
import { Icon } from '../parts/icon.tsx';
import { Trouble } from '../parts/trouble.tsx';
import type { ShownMessage } from './messages-tab.tsx';

/** More of a long text is shown on request. */
const CLAMP_CHARACTERS = 3_000;

/** What a page knows of a message beside it: which checkpoint brought another one, and how long after the one before it came. */
export type MessagePlace = {
  readonly sinceMs?: number | undefined;
  readonly isFirstBad?: boolean;
  readonly sequenceOf?: (message: number) => number | undefined;
};

type MessageProps = {
  message: ShownMessage;
  isSelected: boolean;
  place?: MessagePlace;
  onSelect: (checkpointId: string) => void;
  children?: ReactNode;
};

/** One message: who, what, and the calls with their results, or what is given instead. Stored text is shown as text only. */
export function Message({ message, isSelected, place = {}, onSelect, children }: MessageProps) {
  const { speaker, answers } = message;
  if (answers !== undefined && !children)
    return (
      <article className={`msg is-answer ${isSelected ? 'is-selected' : ''}`} aria-current={isSelected || undefined}>
        <header>
          <span className="t3 grow">Result of {message.results.map(({ name }) => name).join(', ')}, shown above</span>
          <Meta message={message} place={place} onSelect={onSelect} />
        </header>
      </article>
    );
  return (
    <article className={`msg ${isSelected ? 'is-selected' : ''}`} aria-current={isSelected || undefined}>
      <header>
        <AgentName name={speaker} />
        {place.isFirstBad && <span className="chip danger">First bad</span>}
        <span className="grow" />
        <Meta message={message} place={place} onSelect={onSelect} />
      </header>
      {children || <MessageBody message={message} sequenceOf={place.sequenceOf} />}
    </article>
  );
}

/** What it used, how long it took, and where it is. */
function Meta({ message, place, onSelect }: Required<Pick<MessageProps, 'message' | 'place' | 'onSelect'>>) {
  const { inputTokens, outputTokens = 0, model, checkpointId, sequence, index } = message;
  const used = `${formatCount(inputTokens ?? 0)} in, ${formatCount(outputTokens)} out${model === undefined ? '' : `, ${model}`}`;
  return (
    <span className="meta">
      {inputTokens !== undefined && <span title={used}>{formatCount(inputTokens + outputTokens)} tok</span>}
      {place.sinceMs !== undefined && <span title="Since the message before">{formatDuration(place.sinceMs)}</span>}
      {checkpointId === undefined ? (
        <span>{index + 1}</span>
      ) : (
        <button type="button" className="btn sm quiet accent" onClick={() => onSelect(checkpointId)}>
          #{sequence ?? index + 1}
        </button>
      )}
    </span>
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

type BodyProps = {
  message: Pick<ShownMessage, 'text' | 'calls' | 'results'>;
  sequenceOf?: MessagePlace['sequenceOf'];
};

/** What was said, then each call with its result. */
export function MessageBody({ message, sequenceOf }: BodyProps) {
  const { text, calls, results } = message;
  const resultOf = ({ id }: Call) => results.find((one) => one.id !== undefined && one.id === id);
  const answered = new Set(calls.map(resultOf));
  return (
    <>
      {text !== '' && <Clamped text={text} />}
      {calls.map((call, n) => (
        <ToolCall key={call.id ?? `call ${n}`} call={call} result={resultOf(call)} sequenceOf={sequenceOf} />
      ))}
      {results
        .filter((one) => !answered.has(one))
        .map((one, n) => (
          <ToolCall key={one.id ?? `result ${n}`} result={one} />
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

type ToolProps = {
  call?: Partial<Call> | undefined;
  result: Result | undefined;
  sequenceOf?: MessagePlace['sequenceOf'];
};

/** A call with its result in one frame. */
function ToolCall({ call = {}, result, sequenceOf }: ToolProps) {
  const { name = result?.name ?? 'tool', input, sameAs, alike } = call;
  const hasFailed = result?.isError === true;
  return (
    <div className={`tool ${sameAs === undefined ? '' : 'is-repeat'} ${hasFailed ? 'is-error' : ''}`}>
      <div className="call">
        <Icon name={hasFailed ? 'fail' : 'effect'} small />
        <span className="mono medium">{name}</span>
        <span className="mono t2 clip grow" title={formatInline(input, 2_000)}>
          {formatInline(input)}
        </span>
        {hasFailed && <span className="danger">failed</span>}
        <HowMade call={call} />
      </div>
      {result?.output !== undefined && (
        <div className="result">
          <pre dir="auto">{formatInline(result.output, 600)}</pre>
        </div>
      )}
      {sameAs !== undefined && (
        <div className="flag">
          <Icon name="warn" small />
          <span className="clip grow">Same call and same result as {placeOf(sameAs, sequenceOf)}: nothing new</span>
          <span>{alike} alike</span>
        </div>
      )}
    </div>
  );
}

/** Whether a call was made or its recording used, and how long it took; nothing where that was not recorded. */
function HowMade({ call: { isReplayed, durationMs } }: { call: Partial<Call> }) {
  return (
    <>
      {isReplayed !== undefined && <span className="t3">{isReplayed ? 'recorded, not called again' : 'live'}</span>}
      {durationMs !== undefined && <span className="num">{formatDuration(durationMs)}</span>}
    </>
  );
}

/** A message by the checkpoint that brought it, or by its number. */
function placeOf(message: number, sequenceOf: MessagePlace['sequenceOf']): string {
  const sequence = sequenceOf?.(message);
  return sequence === undefined ? `message ${message + 1}` : `#${sequence}`;
}
