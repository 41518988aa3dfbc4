import { useVirtualizer } from '@tanstack/react-virtual';
import { useRef } from 'react';
import { countOf, quoteArgument } from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { FLAG, type Timeline } from '../data/timeline.ts';
import { useReplyIf } from '../data/use-reply.ts';
import { useSession } from '../data/use-timeline.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress, setQuery } from '../frame/place.ts';
import { AgentSquare, nameAgents } from '../parts/agent.tsx';
import { CommandLine } from '../parts/command.tsx';
import { Crumbs } from '../parts/crumbs.tsx';
import { Icon } from '../parts/icon.tsx';
import { Loaded } from '../parts/trouble.tsx';
import { CompareFigures } from './compare-figures.tsx';

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
  return (
    <>
      <header className="topbar">
        <Crumbs sessionId={sessionId}>
          <h1>Compare</h1>
        </Crumbs>
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
      {session !== undefined && b === undefined ? (
        <p className="empty">This session has one branch. Fork it to have two to compare.</p>
      ) : (
        <Loaded of={compared}>
          {(value) => <ComparedBranches compared={value} sessionId={sessionId} timeline={view.timeline} />}
        </Loaded>
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
        {value !== undefined && !names.includes(value) && <option value={value}>{value}</option>}
        {names.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

type BranchesProps = { compared: Compared; sessionId: string; timeline: Timeline };

function ComparedBranches({ compared, sessionId, timeline }: BranchesProps) {
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
              First divergence {numberOf(steps[firstDivergence])}
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
          <Edits compared={compared} timeline={timeline} />
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

/** The branches that begin with an edit, and what it is for: that is where they part. */
function Edits({ compared, timeline }: { compared: Compared; timeline: Timeline }) {
  const edits = [compared.a.branch, compared.b.branch].flatMap((branch) => {
    const first = timeline.firsts.get(timeline.names.branches.indexOf(branch)) ?? -1;
    const isEdit = ((timeline.flags[first] ?? 0) & FLAG.person) !== 0 && (timeline.parents[first] ?? -1) >= 0;
    return isEdit ? [{ branch, first }] : [];
  });
  return edits.map(({ branch, first }) => (
    <p key={branch} className="divergence">
      <Icon name="fork" small />
      <b className="medium">First divergence</b>
      <span className="t2 clip grow">
        {branch} begins with an edit{timeline.agentOf(first) === undefined ? '' : ` by ${timeline.agentOf(first)}`}
        {timeline.words.has(first) && `: ${timeline.words.get(first)}`}
      </span>
      <span className="t3">#{timeline.sequences[first]}</span>
    </p>
  ));
}

/** The number of a step, on the side that has it. */
function numberOf(step: Compared['steps'][number] | undefined): string {
  const said = step?.a ?? step?.b;
  return said === undefined ? '' : `#${said.sequence ?? said.index + 1}`;
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
