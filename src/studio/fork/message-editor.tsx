import type { Reply } from '../data/server.ts';
import { useReply } from '../data/use-reply.ts';
import { AgentName } from '../parts/agent.tsx';
import { Loaded } from '../parts/trouble.tsx';
import type { Edit } from './fork-screen.tsx';

const LIMIT = 50;

type ShownMessage = Reply<'GET /v1/checkpoints/{checkpoint}/messages'>['items'][number];

type EditorProps = { id: string; edit: Edit; onEdit: (edit: Edit) => void };

/** The last messages, each as a field; what is changed is set by its path. */
export function MessageEditor({ id, edit, onEdit }: EditorProps) {
  const asked = useReply('GET /v1/checkpoints/{checkpoint}/messages', {
    params: { checkpoint: id },
    query: { limit: LIMIT, last: true as never },
  });
  const change = (path: string, original: string, text: string) => {
    const { [path]: _, ...others } = edit.set ?? {};
    const set = text === original ? others : { ...others, [path]: text };
    onEdit(Object.keys(set).length === 0 ? {} : { set });
  };
  return (
    <div className="scroll grow">
      <Loaded of={asked}>
        {({ items, total }) => (
          <>
            {items.length === 0 && <p className="empty">This state holds no messages. Edit it as JSON.</p>}
            {items.length < total && (
              <p className="sect t3">
                The last {items.length} of {total} messages.
              </p>
            )}
            {items.map((message) => {
              const path = `${message.path}.content`;
              const text = edit.set?.[path] ?? message.text;
              return (
                <label className="msg" key={message.path} style={{ display: 'block' }}>
                  <header>
                    <AgentName name={message.speaker} />
                    {text !== message.text && <span className="chip warn">edited</span>}
                    <span className="grow" />
                    <span className="mono t3">{path}</span>
                  </header>
                  <textarea
                    className="input"
                    style={{ height: 'auto', padding: 8, fieldSizing: 'content', lineHeight: '20px' }}
                    value={text}
                    disabled={isTooRich(message)}
                    title={
                      isTooRich(message)
                        ? 'This message is too long for the form, or holds calls. Edit it as JSON.'
                        : undefined
                    }
                    onChange={(event) => change(path, message.text, event.target.value)}
                  />
                </label>
              );
            })}
          </>
        )}
      </Loaded>
    </div>
  );
}

/** More than words: the form would flatten it. */
function isTooRich({ isCut, calls, results }: ShownMessage): boolean {
  return isCut || calls.length > 0 || results.length > 0;
}
