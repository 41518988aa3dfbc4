import { useRef, useState } from 'react';
import { encodeSegment } from '../../server/contract/segment.ts';
import { ask, type Reply, replies } from '../data/server.ts';
import { useKeys } from '../frame/keys.ts';
import { Icon } from '../parts/icon.tsx';
import { Trouble } from '../parts/trouble.tsx';

type TagProps = { sessionId: string; checkpoint: Reply<'GET /v1/checkpoints/{checkpoint}'> };

/** The tags of a checkpoint, and a field for another one. */
export function TagForm({ sessionId, checkpoint }: TagProps) {
  const field = useRef<HTMLInputElement>(null);
  const [name, setName] = useState('');
  const [error, setError] = useState<Error>();
  useKeys({ t: () => field.current?.focus() });
  const change = async (act: () => Promise<unknown>) => {
    setError(undefined);
    try {
      await act();
      setName('');
      replies.refresh((url) => url.includes(checkpoint.id) || url.includes(encodeSegment(sessionId)));
    } catch (problem) {
      setError(problem as Error);
    }
  };
  const add = (event: React.FormEvent) => {
    event.preventDefault();
    const params = { session: sessionId, tag: name };
    void change(() => ask('PUT /v1/sessions/{session}/tags/{tag}', { params, body: { checkpoint: checkpoint.id } }));
  };
  const remove = (tag: string) =>
    void change(() => ask('DELETE /v1/sessions/{session}/tags/{tag}', { params: { session: sessionId, tag } }));
  return (
    <form className="sect" onSubmit={add} style={{ display: 'grid', gap: 8 }}>
      <h3>Tags</h3>
      {checkpoint.tags !== undefined && (
        <div style={{ display: 'flex', gap: 4, flexWrap: 'wrap' }}>
          {checkpoint.tags.map((tag) => (
            <span className="chip filter" key={tag}>
              {tag}
              <button type="button" aria-label={`Remove the tag ${tag}`} onClick={() => remove(tag)}>
                <Icon name="x" small />
              </button>
            </span>
          ))}
        </div>
      )}
      <div style={{ display: 'flex', gap: 8 }}>
        <input
          ref={field}
          className="input"
          aria-label="New tag"
          placeholder="New tag"
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <button
          type="submit"
          className="btn"
          disabled={name === ''}
          title={name === '' ? 'Type a name first' : 'Tags do not move, and protect'}
        >
          <Icon name="tag" small />
          Tag<kbd>t</kbd>
        </button>
      </div>
      {error !== undefined && <Trouble error={error} compact />}
    </form>
  );
}
