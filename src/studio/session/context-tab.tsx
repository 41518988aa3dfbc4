import { formatCount } from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { useReply } from '../data/use-reply.ts';
import { setQuery } from '../frame/place.ts';
import type { Look } from '../look/look.ts';
import { Loaded } from '../parts/trouble.tsx';
import { Message } from './message.tsx';

type Context = Reply<'GET /v1/checkpoints/{checkpoint}/context'>;

/** What the model of an agent is given from here on, against the parent or the marked checkpoint. */
export function ContextTab({ view, selection, query, id }: Look & { query: URLSearchParams; id: string }) {
  const { timeline } = view;
  const before = timeline.ids[selection.second];
  const agent = query.get('agent') ?? undefined;
  const asked = useReply('GET /v1/checkpoints/{checkpoint}/context', {
    params: { checkpoint: id },
    query: { ...(agent !== undefined && { agent }), ...(before !== undefined && { before }) },
  });
  const other = timeline.find(asked.value?.before);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard
    <section className="scroll grow" tabIndex={0} aria-label="Context">
      <Loaded of={asked}>
        {(context) => (
          <>
            <Facts context={context} since={other < 0 ? undefined : `#${timeline.sequences[other]}`} />
            {context.dropped.length > 0 && (
              <section className="gone" aria-label="Not given any more">
                <p className="sect t2">
                  {formatCount(context.droppedTotal)} given before and not any more
                  {context.droppedTotal > context.dropped.length && `, the last ${context.dropped.length} of them`}:
                </p>
                {context.dropped.map((message) => (
                  <Message key={message.path} message={message} isSelected={false} onSelect={ignore} />
                ))}
              </section>
            )}
            {context.items.map((message) => (
              <Message key={message.path} message={message} isSelected={message.isNew} onSelect={ignore} />
            ))}
          </>
        )}
      </Loaded>
    </section>
  );
}

const ignore = () => undefined;

function Facts({ context, since }: { context: Context; since: string | undefined }) {
  const { agents, agent, model, system, tools, total, items, conversation } = context;
  const left = conversation - total;
  return (
    <div className="sect" style={{ display: 'grid', gap: 8 }}>
      <div style={{ display: 'flex', gap: 8, alignItems: 'center', flexWrap: 'wrap' }}>
        {agents.length > 0 && (
          <select
            className="select"
            style={{ width: 'auto' }}
            aria-label="Agent"
            value={agent}
            onChange={(event) => setQuery({ agent: event.target.value }, { replace: true })}
          >
            {agents.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        )}
        <span className="t2">
          is given {formatCount(total)} messages from here on{model !== undefined && ` (${model})`}
        </span>
        {left > 0 && agents.length > 0 && (
          <span className="chip warn">{formatCount(left)} of the conversation left out</span>
        )}
        {context.isReordered && <span className="chip warn">Reordered since {since}</span>}
        {context.isSystemChanged && <span className="chip warn">Another prompt since {since}</span>}
      </div>
      {system !== undefined && (
        <pre className="patch" dir="auto" style={{ whiteSpace: 'pre-wrap' }}>
          {system}
        </pre>
      )}
      {tools.length > 0 && <p className="t2">Tools: {tools.join(', ')}</p>}
      {since !== undefined && <p className="t3">Marked: what is new since {since}.</p>}
      {items.length < total && <p className="t3">The last {items.length} are shown.</p>}
    </div>
  );
}
