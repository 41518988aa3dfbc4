import type { ReactNode } from 'react';
import { setQuery } from '../frame/place.ts';
import { ContextTab } from './context-tab.tsx';
import { DiffTab } from './diff-tab.tsx';
import { EffectsTab } from './effects-tab.tsx';
import { MessagesTab } from './messages-tab.tsx';
import type { Shared } from './session-screen.tsx';
import { StateTab } from './state-tab.tsx';

const TABS = ['messages', 'state', 'diff', 'context', 'effects'] as const;
type Tab = (typeof TABS)[number];

/** What is in the selected checkpoint. */
export function StepPane(props: Shared & { query: URLSearchParams }) {
  const { selection, query, view } = props;
  const asked = query.get('tab');
  const tab = TABS.find((name) => name === asked) ?? 'messages';
  const { id } = selection;
  return (
    <section className="pane" aria-label={`Checkpoint ${view.timeline.sequences[selection.at] ?? ''}`}>
      <div className="head" style={{ height: 'var(--subbar)', background: 'var(--bg)' }}>
        <div className="tabs" role="tablist">
          {TABS.map((name) => (
            <TabLink key={name} name={name} isOpen={name === tab} />
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

function TabLink({ name, isOpen }: { name: Tab; isOpen: boolean }) {
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
    </a>
  );
}

function contentOf(tab: Tab, props: Shared & { query: URLSearchParams; id: string }): ReactNode {
  switch (tab) {
    case 'messages':
      return <MessagesTab {...props} />;
    case 'state':
      return <StateTab key={props.id} {...props} />;
    case 'diff':
      return <DiffTab {...props} />;
    case 'context':
      return <ContextTab {...props} />;
    case 'effects':
      return <EffectsTab {...props} />;
  }
}
