import { lazy, Suspense, useCallback, useState } from 'react';
import { useReplyIf } from '../data/use-reply.ts';
import { setQuery } from '../frame/place.ts';
import { Icon } from '../parts/icon.tsx';
import { Loaded, Skeleton } from '../parts/trouble.tsx';
import { MessageEditor } from './message-editor.tsx';
import { type Draft, type Edit, type EditForm, isEdited } from './use-draft.ts';

const JsonEditor = lazy(async () => ({ default: (await import('./json-editor.tsx')).JsonEditor }));

type PaneProps = { id: string; form: EditForm; draft: Draft };

/** The original beside the edit: messages in a form, or the whole state as JSON. */
export function EditPane({ id, form, draft }: PaneProps) {
  const { edit, read, change } = draft;
  const value = useReplyIf(
    'GET /v1/checkpoints/{checkpoint}/value',
    form === 'json' ? { params: { checkpoint: id }, query: { form: 'tagged' } } : undefined,
  );
  const [resets, setResets] = useState(0);
  const reset = () => {
    setResets(resets + 1);
    change(() => ({}));
  };
  const replace = useCallback((to: Edit) => change(() => to), [change]);
  const open = (to: EditForm) => () => setQuery({ form: to === 'json' ? to : undefined }, { replace: true });
  return (
    <>
      <div className="head" style={{ height: 'var(--subbar)', background: 'var(--bg)' }}>
        <div className="tabs" role="tablist">
          <button type="button" role="tab" aria-selected={form === 'messages'} onClick={open('messages')}>
            Messages
          </button>
          <button type="button" role="tab" aria-selected={form === 'json'} onClick={open('json')}>
            State as JSON
          </button>
        </div>
        <span className="grow" />
        {edit.problem !== undefined && (
          <span className="status danger">
            <Icon name="error" small />
            {edit.problem}
          </span>
        )}
        <button type="button" className="btn quiet" onClick={reset} disabled={!isEdited(edit)}>
          <Icon name="undo" small />
          Reset
        </button>
      </div>
      {form === 'messages' ? (
        <MessageEditor key={resets} id={id} draft={draft} />
      ) : (
        <Suspense fallback={<Skeleton />}>
          <Loaded of={value}>
            {(reply) => <JsonEditor key={resets} original={reply.value} typed={read().text} onEdit={replace} />}
          </Loaded>
        </Suspense>
      )}
    </>
  );
}
