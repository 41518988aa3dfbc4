import type { ReactNode } from 'react';
import { formatCount } from '../data/format.ts';
import { useReplyIf } from '../data/use-reply.ts';
import { DiffTab } from '../diff/diff-tab.tsx';
import { setQuery } from '../frame/place.ts';
import type { Look } from '../look/look.ts';
import { ContextTab } from './context-tab.tsx';
import { EffectsTab } from './effects-tab.tsx';
import { MessagesTab } from './messages-tab.tsx';
import { StateTab } from './state-tab.tsx';

const TABS = ['messages', 'state', 'diff', 'context', 'effects'] as const;
type Tab = (typeof TABS)[number];

/** What is in the selected checkpoint. */
export function StepPane(props: Look & { query: URLSearchParams }) {
  const { selection, query, view } = props;
  const asked = query.get('tab');
  const tab = TABS.find((name) => name === asked) ?? 'messages';
  const { id } = selection;
  const counts = useCounts(props);
  return (
    <section className="pane" aria-label={`Checkpoint ${view.timeline.sequences[selection.at] ?? ''}`}>
      <div className="head" style={{ height: 'var(--subbar)', background: 'var(--bg)' }}>
        <div className="tabs" role="tablist">
          {TABS.map((name) => (
            <TabLink key={name} name={name} count={counts[name]} isOpen={name === tab} />
          ))}
        </div>
        <span className="grow" />
        {tab === 'messages' && <RawChoice isRaw={query.get('raw') !== null} />}
      </div>
      {id !== undefined && contentOf(tab, { ...props, id })}
    </section>
  );
}

/** Messages as they are meant to be read, or as they are stored. */
function RawChoice({ isRaw }: { isRaw: boolean }) {
  return (
    <fieldset className="seg sm" aria-label="Form of messages">
      {(['Rendered', 'Raw'] as const).map((name) => (
        <label key={name}>
          <input
            type="radio"
            name="raw"
            checked={isRaw === (name === 'Raw')}
            onChange={() => setQuery({ raw: name === 'Raw' ? '1' : undefined }, { replace: true })}
          />
          {name}
        </label>
      ))}
    </fieldset>
  );
}

/** How much there is behind a tab, where that is known without opening it. */
function useCounts({ selection: { id, at }, view: { timeline } }: Look): Partial<Record<Tab, number | undefined>> {
  const params = id === undefined ? undefined : { checkpoint: id };
  const effects = useReplyIf('GET /v1/checkpoints/{checkpoint}/effects', params && { params }).value?.items.length;
  const label = useReplyIf('GET /v1/labels', id === undefined ? undefined : { query: { ids: id as never } }).value
    ?.items[0];
  const counted = timeline.messages[at] ?? -1;
  return { messages: counted < 0 ? undefined : counted, diff: label?.changes, effects };
}

type TabProps = { name: Tab; count: number | undefined; isOpen: boolean };

function TabLink({ name, count, isOpen }: TabProps) {
  const open = () => setQuery({ tab: name }, { replace: true });
  return (
    <a
      role="tab"
      aria-selected={isOpen}
      href={`?tab=${name}`}
      onClick={(event) => {
        event.preventDefault();
        open();
      }}
    >
      {name[0]?.toUpperCase() + name.slice(1)}
      {count !== undefined && count > 0 && <span className="count"> {formatCount(count)}</span>}
    </a>
  );
}

function contentOf(tab: Tab, props: Look & { query: URLSearchParams; id: string }): ReactNode {
  switch (tab) {
    case 'messages':
      return <MessagesTab {...props} />;
    case 'state':
      return <StateTab key={props.id} {...props} />;
    case 'diff':
      return <DiffTab key={props.id} {...props} />;
    case 'context':
      return <ContextTab {...props} />;
    case 'effects':
      return <EffectsTab {...props} />;
  }
}
