import { useState } from 'react';
import { countOf } from '../data/format.ts';
import { setQuery } from '../frame/place.ts';
import type { Look } from '../look/look.ts';
import { Icon } from '../parts/icon.tsx';
import { DriftPanel } from './drift-panel.tsx';
import { EventsPanel } from './events-panel.tsx';
import { StoragePanel } from './storage-panel.tsx';

const PANELS = { drift: DriftPanel, storage: StoragePanel, events: EventsPanel } as const;
type Panel = keyof typeof PANELS;
const NAMES = Object.keys(PANELS) as Panel[];

/** Below the panes: signs of drift, sizes, and all that was saved. */
export function Drawer({ look, query }: { look: Look; query: URLSearchParams }) {
  const [isOpen, setOpen] = useState(localStorage.getItem('drawer') !== 'closed');
  const asked = query.get('panel');
  const panel = NAMES.find((name) => name === asked) ?? 'drift';
  const Content = PANELS[panel];
  const open = (to: boolean) => {
    localStorage.setItem('drawer', to ? 'open' : 'closed');
    setOpen(to);
  };
  return (
    <section className={`drawer ${isOpen ? '' : 'is-closed'}`} aria-label="Charts">
      <div className="head">
        <div className="tabs" role="tablist">
          {NAMES.map((name) => (
            <button
              key={name}
              type="button"
              role="tab"
              aria-selected={isOpen && name === panel}
              onClick={() => {
                open(true);
                setQuery({ panel: name === 'drift' ? undefined : name }, { replace: true });
              }}
            >
              {name[0]?.toUpperCase() + name.slice(1)}
            </button>
          ))}
        </div>
        <span className="vr" />
        <About look={look} />
        <button
          type="button"
          className="btn sm icon quiet"
          aria-label={isOpen ? 'Close the charts' : 'Open the charts'}
          onClick={() => open(!isOpen)}
        >
          <Icon name={isOpen ? 'down' : 'up'} small />
        </button>
      </div>
      {isOpen && <Content look={look} />}
    </section>
  );
}

/** What the charts are of. */
function About({ look: { view, selection, path } }: { look: Look }) {
  const sequence = view.timeline.sequences[selection.at];
  const ends = path.range?.map((step) => view.timeline.sequences[path.steps[step] ?? -1]);
  return (
    <span className="t2 clip grow">
      {selection.branch}, {ends === undefined ? countOf(path.steps.length, 'checkpoint') : `#${ends.join('–')}`}
      {sequence !== undefined && (
        <>
          . Values at <b className="medium">#{sequence}</b>
        </>
      )}
    </span>
  );
}
