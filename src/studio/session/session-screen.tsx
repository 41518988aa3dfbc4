import { useMemo, useState } from 'react';
import { useReplyIf } from '../data/use-reply.ts';
import { useSession } from '../data/use-timeline.ts';
import { type KeyMap, useKeys } from '../frame/keys.ts';
import { go, sessionAddress, setQuery } from '../frame/place.ts';
import { nameAgents } from '../parts/agent.tsx';
import { Crumbs } from '../parts/crumbs.tsx';
import { NotThere, Trouble } from '../parts/trouble.tsx';
import { RunBand } from '../runs/run-band.tsx';
import { useRun } from '../runs/use-run.ts';
import { Drawer } from './drawer.tsx';
import { GraphPane } from './graph-pane.tsx';
import { Inspector } from './inspector.tsx';
import { OverviewStrip } from './overview-strip.tsx';
import { SessionBar } from './session-bar.tsx';
import { StepPane } from './step-pane.tsx';
import { useSelection } from './use-selection.ts';

type ScreenProps = { sessionId: string; query: URLSearchParams; onSearch: () => void };

/** One session: the overview, its branches, the selected checkpoint, and the charts below. */
export function SessionScreen({ sessionId, query, onSearch }: ScreenProps) {
  const { view, session } = useSession(sessionId);
  const selection = useSelection(view, session.value, query);
  const selected = useReplyIf(
    'GET /v1/checkpoints/{checkpoint}',
    selection.id === undefined ? undefined : { params: { checkpoint: selection.id } },
  );
  const run = useRun(sessionId, selected.value?.usage.kind);
  const { timeline } = view;
  nameAgents(timeline);
  const tags = useMemo(
    () => new Map((session.value?.tags ?? []).map(({ name, checkpointId }) => [timeline.find(checkpointId), name])),
    [session.value, timeline],
  );
  const [isFolding, setFolding] = useState(true);
  useKeys(sessionKeys(sessionId, selection));
  const error = session.error ?? view.error;
  const isMissing = !view.isLoading && session.value !== undefined && selection.at < 0 && timeline.length > 0;
  if (timeline.length === 0 && error !== undefined)
    return (
      <>
        <header className="topbar">
          <Crumbs sessionId={sessionId} />
        </header>
        <Trouble error={error} />
      </>
    );
  const shared = { sessionId, view, selection, session: session.value, tags };
  return (
    <>
      <SessionBar {...shared} run={run} onSearch={onSearch} />
      {error !== undefined && <Trouble error={error} />}
      {isMissing && (
        <NotThere at={query.get('at')} branch={selection.branch} onFollow={() => go(sessionAddress(sessionId))} />
      )}
      <RunBand view={run} />
      <OverviewStrip {...shared} />
      <div className="panes">
        <GraphPane {...shared} isFolding={isFolding} onFold={() => setFolding(!isFolding)} />
        <StepPane {...shared} query={query} />
        <Inspector {...shared} />
      </div>
      <Drawer {...shared} query={query} />
    </>
  );
}

/** What the parts of the screen share. */
export type Shared = {
  readonly sessionId: string;
  readonly view: ReturnType<typeof useSession>['view'];
  readonly selection: ReturnType<typeof useSelection>;
  readonly session: ReturnType<typeof useSession>['session']['value'];
  readonly tags: ReadonlyMap<number, string>;
};

function sessionKeys(sessionId: string, selection: ReturnType<typeof useSelection>): KeyMap {
  const { id, step, parent, child, follow, mark } = selection;
  const tab = (name: string) => () => setQuery({ tab: name }, { replace: true });
  return {
    j: () => step(1),
    k: () => step(-1),
    J: () => step(10),
    K: () => step(-10),
    h: parent,
    l: child,
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    m: tab('messages'),
    s: tab('state'),
    d: tab('diff'),
    x: tab('context'),
    e: tab('effects'),
    D: mark,
    f: () => id !== undefined && go(sessionAddress(sessionId, { page: 'fork', at: id })),
    c: () => go(sessionAddress(sessionId, { page: 'compare' })),
    '.': follow,
    Escape: () => setQuery({ vs: undefined }, { replace: true }),
  };
}
