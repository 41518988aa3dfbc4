import { useVirtualizer } from '@tanstack/react-virtual';
import { useRef } from 'react';
import { countOf, quoteArgument } from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { useReplyIf } from '../data/use-reply.ts';
import { useSession } from '../data/use-timeline.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress, setQuery } from '../frame/place.ts';
import { AgentSquare, nameAgents } from '../parts/agent.tsx';
import { CommandLine } from '../parts/command.tsx';
import { Icon } from '../parts/icon.tsx';
import { Loaded } from '../parts/trouble.tsx';
import { CompareFigures } from './compare-figures.tsx';

/** Two branches beside each other. */
export type Compared = Reply<'GET /v1/sessions/{session}/compare'>;

/** Two branches, aligned from where they part; one step more in one of them does not shift the rest. */
export function CompareScreen({ sessionId, query }: { sessionId: string; query: URLSearchParams }) {
  const { view, session: opened } = useSession(sessionId);
  const session = opened.value;
  nameAgents(view.timeline.names.agents);
  const names = (session?.branches ?? []).filter(({ isAnswer }) => !isAnswer).map(({ name }) => name);
  const a = query.get('a') ?? session?.currentBranch;
  const b = query.get('b') ?? names.find((name) => name !== a);
  const request = a === undefined || b === undefined ? undefined : { params: { session: sessionId }, query: { a, b } };
  const compared = useReplyIf('GET /v1/sessions/{session}/compare', request);
  return (
    <>
      <header className="topbar">
        <nav className="crumbs" aria-label="Place">
          <Link href="/s">Sessions</Link>
          <span className="sep">/</span>
          <Link className="clip" href={sessionAddress(sessionId)}>
            {sessionId}
          </Link>
          <span className="sep">/</span>
          <h1>Compare</h1>
        </nav>
        <span className="vr" />
        <Choice letter="a" names={names} value={a} />
        <button
          type="button"
          className="btn icon"
          aria-label="Swap the branches"
          onClick={() => setQuery({ a: b, b: a }, { replace: true })}
        >
          <Icon name="swap" small />
        </button>
        <Choice letter="b" names={names} value={b} />
        <span className="grow" />
        <CommandLine
          command={`savestate diff ${quoteArgument(a ?? '')} ${quoteArgument(b ?? '')} --session ${quoteArgument(sessionId)}`}
        />
      </header>
      {session !== undefined && names.length < 2 ? (
        <p className="empty">This session has one branch. Fork it to have two to compare.</p>
      ) : (
        <Loaded of={compared}>{(value) => <ComparedBranches compared={value} sessionId={sessionId} />}</Loaded>
      )}
    </>
  );
}

function Choice({ letter, names, value }: { letter: 'a' | 'b'; names: readonly string[]; value: string | undefined }) {
  return (
    <label style={{ display: 'inline-flex', alignItems: 'center', gap: 8 }}>
      {letter.toUpperCase()}
      <select
        className="select"
        style={{ width: 'auto', maxWidth: 200 }}
        value={value ?? ''}
        onChange={(event) => setQuery({ [letter]: event.target.value }, { replace: true })}
      >
        {value !== undefined && !names.includes(value) && <option>{value}</option>}
        {names.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}

function ComparedBranches({ compared, sessionId }: { compared: Compared; sessionId: string }) {
  const { a, b, counts, forkPoint, firstDivergence, steps, common } = compared;
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: steps.length,
    getScrollElement: () => box.current,
    estimateSize: () => 28,
    overscan: 10,
  });
  return (
    <>
      <div className="subbar">
        {forkPoint !== undefined && (
          <span>
            Fork point <Link href={sessionAddress(sessionId, { at: forkPoint.id })}>#{forkPoint.sequence}</Link>
          </span>
        )}
        {firstDivergence !== undefined && (
          <>
            <span className="vr" />
            <button
              type="button"
              className="btn sm quiet"
              onClick={() => rows.scrollToIndex(firstDivergence, { align: 'center' })}
            >
              First divergence
            </button>
          </>
        )}
        <span className="vr" />
        <span className="t2">
          {common} before the fork, {counts.same} alike, {counts.changed} changed, {counts.only_a} only in A,{' '}
          {counts.only_b} only in B
        </span>
      </div>
      <div className="figures">
        <section className="pane" aria-label="Steps">
          <div className="cmp-row" style={{ height: 32, background: 'var(--bg-app)' }}>
            <div>
              A <b className="strong clip">{a.branch}</b>
              <span className="t2">{countOf(a.checkpoints, 'checkpoint')} after the fork</span>
            </div>
            <div className="sign" />
            <div>
              B <b className="strong clip">{b.branch}</b>
              <span className="t2">{countOf(b.checkpoints, 'checkpoint')} after the fork</span>
            </div>
          </div>
          <div className="scroll grow" ref={box}>
            {steps.length === 0 && <p className="empty">Nothing was said after the fork, on either side.</p>}
            <div className="virtual" style={{ height: rows.getTotalSize() }}>
              {rows.getVirtualItems().map(({ index, start }) => (
                <div key={index} style={{ transform: `translateY(${start}px)` }}>
                  <StepRow step={steps[index]} isFirst={index === firstDivergence} sessionId={sessionId} />
                </div>
              ))}
            </div>
          </div>
        </section>
        <CompareFigures compared={compared} />
      </div>
    </>
  );
}

const SIGNS = { same: '=', changed: '~', only_a: '−', only_b: '+' } as const;

function StepRow({
  step,
  isFirst,
  sessionId,
}: {
  step: Compared['steps'][number] | undefined;
  isFirst: boolean;
  sessionId: string;
}) {
  if (step === undefined) return null;
  const { kind, a, b } = step;
  return (
    <div
      className="cmp-row"
      style={isFirst ? { boxShadow: 'inset 2px 0 var(--accent)' } : {}}
      title={isFirst ? 'First divergence' : undefined}
    >
      <StepCell said={a} tone={kind === 'only_a' ? 'is-a' : ''} sessionId={sessionId} />
      <div className="sign">{SIGNS[kind]}</div>
      <StepCell said={b} tone={kind === 'only_b' ? 'is-b' : ''} sessionId={sessionId} />
    </div>
  );
}

type Said = NonNullable<Compared['steps'][number]['a']>;

function StepCell({ said, tone, sessionId }: { said: Said | undefined; tone: string; sessionId: string }) {
  if (said === undefined) return <div className="is-none" />;
  const number = said.sequence ?? said.index + 1;
  return (
    <div className={tone}>
      <span className="num t3" style={{ width: 32 }}>
        {said.checkpointId === undefined ? (
          number
        ) : (
          <Link href={sessionAddress(sessionId, { at: said.checkpointId })}>{number}</Link>
        )}
      </span>
      <AgentSquare name={said.speaker} />
      <span className="clip grow" title={said.text}>
        {said.text || said.tools.join(', ')}
      </span>
    </div>
  );
}
