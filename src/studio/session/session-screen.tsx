import { useMemo, useState } from 'react';
import { quoteArgument } from '../data/format.ts';
import { useReplyIf } from '../data/use-reply.ts';
import { useSession } from '../data/use-timeline.ts';
import { Drawer } from '../drawer/drawer.tsx';
import { type KeyMap, useKeys } from '../frame/keys.ts';
import { go, sessionAddress, setQuery } from '../frame/place.ts';
import { beginBisect } from '../look/bisect.ts';
import type { Look } from '../look/look.ts';
import { useDrift } from '../look/use-drift.ts';
import { usePath } from '../look/use-path.ts';
import { useSelection } from '../look/use-selection.ts';
import { nameAgents } from '../parts/agent.tsx';
import { CommandLine } from '../parts/command.tsx';
import { Crumbs } from '../parts/crumbs.tsx';
import { NotThere, Trouble } from '../parts/trouble.tsx';
import { RunBand } from '../runs/run-band.tsx';
import { useRun } from '../runs/use-run.ts';
import { BisectBand } from './bisect-band.tsx';
import { GraphPane } from './graph-pane.tsx';
import { Inspector } from './inspector.tsx';
import { OverviewStrip } from './overview-strip.tsx';
import { SessionBar } from './session-bar.tsx';
import { StepPane } from './step-pane.tsx';

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
  const drift = useDrift(view, selection);
  const path = usePath(view, selection.branch, query);
  const { timeline } = view;
  nameAgents(timeline);
  const tags = useMemo(
    () => new Map((session.value?.tags ?? []).map(({ name, checkpointId }) => [timeline.find(checkpointId), name])),
    [session.value, timeline],
  );
  const [isFolding, setFolding] = useState(true);
  useKeys(sessionKeys(sessionId, { selection, path, view }));
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
  if (timeline.length === 0 && !view.isLoading && session.value !== undefined)
    return (
      <>
        <header className="topbar">
          <Crumbs sessionId={sessionId} />
        </header>
        <div className="empty">
          <p>This session has no checkpoint yet. The steps that it recorded:</p>
          <CommandLine command={`savestate log --steps --session ${quoteArgument(sessionId)}`} />
        </div>
      </>
    );
  const shared: Look = { sessionId, view, selection, session: session.value, tags, drift, path };
  return (
    <>
      <SessionBar {...shared} run={run} onSearch={onSearch} />
      {error !== undefined && <Trouble error={error} />}
      {isMissing && (
        <NotThere at={query.get('at')} branch={selection.branch} onFollow={() => go(sessionAddress(sessionId))} />
      )}
      <RunBand view={run} />
      <BisectBand look={shared} query={query} />
      <OverviewStrip {...shared} />
      <div className="panes">
        <GraphPane {...shared} isFolding={isFolding} onFold={() => setFolding(!isFolding)} />
        <StepPane {...shared} query={query} />
        <Inspector {...shared} />
      </div>
      <Drawer look={shared} query={query} />
    </>
  );
}

function sessionKeys(sessionId: string, look: Pick<Look, 'selection' | 'path' | 'view'>): KeyMap {
  const { selection, path, view } = look;
  const { id, step, parent, child, follow, mark } = selection;
  const here = () => path.steps.indexOf(selection.at);
  const narrow = (range: readonly [number, number]) =>
    path.setRange(range[0] >= 0 && range[0] < range[1] ? range : undefined);
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
    c: () => go(sessionAddress(sessionId, { page: 'compare', ...view.timeline.pairOf(selection.branch) })),
    '[': () => narrow([here(), path.range?.[1] ?? path.steps.length - 1]),
    ']': () => narrow([path.range?.[0] ?? 0, here()]),
    b: () => beginBisect(look),
    '.': follow,
    Escape: () => setQuery({ vs: undefined, range: undefined }, { replace: true }),
  };
}
