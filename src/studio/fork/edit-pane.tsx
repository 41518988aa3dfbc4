import { lazy, Suspense, useCallback, useState } from 'react';
import { useReplyIf } from '../data/use-reply.ts';
import { Icon } from '../parts/icon.tsx';
import { Loaded, Skeleton } from '../parts/trouble.tsx';
import type { Edit, OnEdit } from './fork-screen.tsx';
import { MessageEditor } from './message-editor.tsx';

const JsonEditor = lazy(async () => ({ default: (await import('./json-editor.tsx')).JsonEditor }));

type PaneProps = { id: string; edit: Edit; onEdit: OnEdit };

/** The original beside the edit: messages in a form, or the whole state as JSON. */
export function EditPane({ id, edit, onEdit }: PaneProps) {
  const [tab, setTab] = useState<'messages' | 'json'>('messages');
  const value = useReplyIf(
    'GET /v1/checkpoints/{checkpoint}/value',
    tab === 'json' ? { params: { checkpoint: id }, query: { form: 'tagged' } } : undefined,
  );
  const [resets, setResets] = useState(0);
  const reset = () => {
    setResets(resets + 1);
    onEdit(() => ({}));
  };
  const replace = useCallback((to: Edit) => onEdit(() => to), [onEdit]);
  const open = (to: 'messages' | 'json') => () => {
    setTab(to);
    onEdit(() => ({}));
  };
  return (
    <>
      <div className="head" style={{ height: 'var(--subbar)', background: 'var(--bg)' }}>
        <div className="tabs" role="tablist">
          <button type="button" role="tab" aria-selected={tab === 'messages'} onClick={open('messages')}>
            Messages
          </button>
          <button type="button" role="tab" aria-selected={tab === 'json'} onClick={open('json')}>
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
        <button
          type="button"
          className="btn quiet"
          onClick={reset}
          disabled={edit.set === undefined && edit.state === undefined && edit.problem === undefined}
        >
          <Icon name="undo" small />
          Reset
        </button>
      </div>
      {tab === 'messages' ? (
        <MessageEditor key={resets} id={id} edit={edit} onEdit={onEdit} />
      ) : (
        <Suspense fallback={<Skeleton />}>
          <Loaded of={value}>{(reply) => <JsonEditor key={resets} original={reply.value} onEdit={replace} />}</Loaded>
        </Suspense>
      )}
    </>
  );
}
