import { useState } from 'react';
import { quoteArgument } from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import type { Timeline } from '../data/timeline.ts';
import { useReplyIf } from '../data/use-reply.ts';
import { useSession } from '../data/use-timeline.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress, setQuery } from '../frame/place.ts';
import { nameAgents } from '../parts/agent.tsx';
import { BranchSelect } from '../parts/branch-select.tsx';
import { CopyCommand } from '../parts/command.tsx';
import { Crumbs } from '../parts/crumbs.tsx';
import { Icon } from '../parts/icon.tsx';
import { Loaded } from '../parts/trouble.tsx';
import { ComparedBranches } from './compared-branches.tsx';
import { GROUPINGS } from './step-rows.ts';

/** More than so many are not shown: what differs that much is better looked at in parts. */
const MOST_STEPS = 10_000;

/** Two branches beside each other. */
export type Compared = Reply<'GET /v1/sessions/{session}/compare'>;

/** Two branches, aligned from where they part; one step more in one of them does not shift the rest. */
export function CompareScreen({ sessionId, query }: { sessionId: string; query: URLSearchParams }) {
  const { view, session: opened } = useSession(sessionId);
  const session = opened.value;
  nameAgents(view.timeline);
  const names = (session?.branches ?? []).filter(({ isAnswer }) => !isAnswer).map(({ name }) => name);
  const a = query.get('a') ?? session?.currentBranch;
  const b = query.get('b') ?? names.find((name) => name !== a);
  const request = a === undefined || b === undefined ? undefined : { params: { session: sessionId }, query: { a, b } };
  const compared = useReplyIf('GET /v1/sessions/{session}/compare', request);
  const [whole, setWhole] = useState<string>();
  const pair = JSON.stringify([a, b]);
  const cursor = whole === pair ? compared.value?.next : undefined;
  const rest = useReplyIf(
    'GET /v1/sessions/{session}/compare',
    cursor === undefined || request === undefined
      ? undefined
      : { ...request, query: { ...request.query, cursor, limit: MOST_STEPS } },
  );
  const choice = (side: 'a' | 'b', value: string | undefined) => (
    <BranchSelect
      label={side.toUpperCase()}
      names={names}
      lanes={view.timeline.names.branches}
      branch={value ?? ''}
      onChoose={(name) => setQuery({ [side]: name }, { replace: true })}
    />
  );
  return (
    <>
      <header className="topbar">
        <Crumbs sessionId={sessionId}>
          <h1>Compare</h1>
        </Crumbs>
        <span className="vr" />
        {choice('a', a)}
        <button
          type="button"
          className="btn icon"
          aria-label="Swap the branches"
          onClick={() => setQuery({ a: b, b: a }, { replace: true })}
        >
          <Icon name="swap" small />
        </button>
        {choice('b', b)}
        <span className="grow" />
        <TipsLink sessionId={sessionId} compared={compared.value} />
        <CopyCommand
          command={`savestate diff ${quoteArgument(a ?? '')} ${quoteArgument(b ?? '')} --session ${quoteArgument(sessionId)}`}
        />
      </header>
      {session !== undefined && b === undefined ? (
        <p className="empty">This session has one branch. Fork it to have two to compare.</p>
      ) : (
        <Loaded of={compared}>
          {(value) => (
            <ComparedBranches
              key={query.get('by')}
              compared={withStatus(withSteps(value, rest.value), view.timeline)}
              sessionId={sessionId}
              timeline={view.timeline}
              by={GROUPINGS.find((name) => name === query.get('by')) ?? 'Step'}
              onMore={whole === pair ? undefined : () => setWhole(pair)}
            />
          )}
        </Loaded>
      )}
    </>
  );
}

/** With the steps that were asked for later. */
function withSteps(compared: Compared, rest: Compared | undefined): Compared {
  return rest === undefined ? compared : { ...compared, steps: [...compared.steps, ...rest.steps] };
}

/** A fork that nobody ran is not running, whatever its origin did. */
function withStatus({ a, b, ...compared }: Compared, timeline: Timeline): Compared {
  const side = (run: Compared['a']): Compared['a'] => {
    const { status, ...rest } = run;
    return timeline.statusOn(run.branch, timeline.find(run.headId)) === status ? run : rest;
  };
  return { ...compared, a: side(a), b: side(b) };
}

function TipsLink({ sessionId, compared }: { sessionId: string; compared: Compared | undefined }) {
  if (compared === undefined) return null;
  const { a, b } = compared;
  return (
    <Link className="btn" href={sessionAddress(sessionId, { page: 'diff', a: a.headId, b: b.headId })}>
      <Icon name="compare" small />
      Diff the tips
    </Link>
  );
}
