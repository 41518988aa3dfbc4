import { memo, useCallback } from 'react';
import { formatCount } from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { useReply } from '../data/use-reply.ts';
import { AgentName } from '../parts/agent.tsx';
import { Loaded } from '../parts/trouble.tsx';
import { MessageBody } from '../session/message.tsx';
import type { Draft, Edit } from './use-draft.ts';

const LIMIT = 50;

type ShownMessage = Reply<'GET /v1/checkpoints/{checkpoint}/messages'>['items'][number];

type EditorProps = { id: string; draft: Draft };

/** The last messages, each as a field; what is changed is set by its path. */
export function MessageEditor({ id, draft: { edit, read, change: onEdit } }: EditorProps) {
  const asked = useReply('GET /v1/checkpoints/{checkpoint}/messages', {
    params: { checkpoint: id },
    query: { limit: LIMIT, last: true as never },
  });
  const change = useCallback(
    (message: ShownMessage, text: string) => onEdit((before) => withText(before, message, text)),
    [onEdit],
  );
  return (
    <div className="scroll grow">
      <Loaded of={asked}>
        {({ items, total }) => (
          <>
            {items.length === 0 && <p className="empty">This state holds no messages. Edit it as JSON.</p>}
            {items.length > 0 && (
              <div className="head beside">
                <h2>
                  Original <span className="t3">read only</span>
                </h2>
                <h2>Edit</h2>
              </div>
            )}
            {items.length < total && (
              <p className="sect t3">
                The last {items.length} of {formatCount(total)} messages.
              </p>
            )}
            {items.map((message) => (
              <Field
                key={message.path}
                message={message}
                isEdited={pathOf(message) in (edit.set ?? {})}
                read={read}
                onChange={change}
              />
            ))}
          </>
        )}
      </Loaded>
    </div>
  );
}

function pathOf({ path }: ShownMessage): string {
  return `${path}.content`;
}

function withText(edit: Edit, message: ShownMessage, text: string): Edit {
  const { [pathOf(message)]: _, ...others } = edit.set ?? {};
  const set = text === message.text ? others : { ...others, [pathOf(message)]: text };
  return Object.keys(set).length === 0 ? {} : { set };
}

type FieldProps = {
  message: ShownMessage;
  isEdited: boolean;
  read: Draft['read'];
  onChange: (message: ShownMessage, text: string) => void;
};

/** A message. The text of its field is the browser's: a key draws nothing else. */
const Field = memo(function Field({ message, isEdited, read, onChange }: FieldProps) {
  const isRich = isTooRich(message);
  return (
    <article className="msg">
      <header>
        <AgentName name={message.speaker} />
        {isEdited && <span className="chip warn">edited</span>}
        <span className="grow" />
        <span className="mono t3">{isRich ? 'as JSON only' : pathOf(message)}</span>
      </header>
      {isRich ? (
        <MessageBody message={message} />
      ) : (
        <div className="beside">
          <div dir="auto">{message.text}</div>
          <textarea
            className="input"
            aria-label={pathOf(message)}
            defaultValue={read().set?.[pathOf(message)] ?? message.text}
            onChange={(event) => onChange(message, event.target.value)}
          />
        </div>
      )}
    </article>
  );
});

/** More than words, or no message at all: the form would flatten it. */
function isTooRich({ isCut, calls, results, path, speaker }: ShownMessage): boolean {
  return isCut || speaker === '' || calls.length > 0 || results.length > 0 || /\.(content|parts)$/.test(path);
}
