import { useVirtualizer } from '@tanstack/react-virtual';
import { useMemo, useRef, useState } from 'react';
import { countOf, formatCount } from '../data/format.ts';
import { FLAG, type Timeline } from '../data/timeline.ts';
import { useKeys } from '../frame/keys.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress } from '../frame/place.ts';
import { AgentSquare } from '../parts/agent.tsx';
import { Icon } from '../parts/icon.tsx';
import { lookOf } from '../parts/status.tsx';
import { CompareBar, numberOf } from './compare-bar.tsx';
import { CompareFigures, share } from './compare-figures.tsx';
import type { Compared } from './compare-screen.tsx';
import { type CompareGroup, type CompareRow, type Grouping, groupsOf, NO_CALL, rowsOf, toolsOf } from './step-rows.ts';

const ROW_HEIGHT = 28;

type BranchesProps = {
  compared: Compared;
  sessionId: string;
  timeline: Timeline;
  by: Grouping;
  /** Asks for the steps that are not here yet; undefined: they are asked for. */
  onMore: (() => void) | undefined;
};

/** The steps of both after the fork, and their figures. */
export function ComparedBranches({ compared, sessionId, timeline, by, onMore }: BranchesProps) {
  const { counts, firstDivergence, steps } = compared;
  const box = useRef<HTMLDivElement>(null);
  const [opened, setOpened] = useState<ReadonlySet<number | string>>(new Set());
  const [at, setAt] = useState(-1);
  const lines = useMemo(
    () => (by === 'Step' ? rowsOf(steps, opened) : groupsOf(steps, by, opened)),
    [steps, by, opened],
  );
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 10,
  });
  /** To the next line that is not the same in both, or back. */
  const jump = (by: 1 | -1) => {
    let next = at + by;
    while (next >= 0 && next < lines.length && kindOf(lines[next]) === 'same') next += by;
    if (next < 0 || next >= lines.length) return;
    setAt(next);
    rows.scrollToIndex(next, { align: 'center' });
  };
  useKeys({ n: () => jump(1), p: () => jump(-1) });
  return (
    <>
      <CompareBar compared={compared} sessionId={sessionId} by={by} onJump={jump} />
      <div className="figures">
        <section className="pane" aria-label="Steps">
          <Sides compared={compared} />
          <Edits compared={compared} timeline={timeline} />
          <div className="scroll grow" ref={box}>
            {steps.length === 0 && <p className="empty">Nothing was said after the fork, on either side.</p>}
            <div className="virtual" style={{ height: rows.getTotalSize() }}>
              {rows.getVirtualItems().map(({ index, start }) => {
                const line = lines[index];
                return (
                  <div key={index} style={{ transform: `translateY(${start}px)` }}>
                    {line !== undefined && (
                      <Line
                        line={line}
                        isHere={index === at || (at < 0 && line.at === firstDivergence)}
                        isOpen={'group' in line && opened.has(line.group)}
                        sessionId={sessionId}
                        onOpen={(name) => setOpened((open) => toggled(open, name))}
                      />
                    )}
                  </div>
                );
              })}
            </div>
            <More left={counts.same + counts.changed + counts.only_a + counts.only_b - steps.length} onMore={onMore} />
          </div>
        </section>
        <CompareFigures compared={compared} sessionId={sessionId} />
      </div>
    </>
  );
}

function toggled(open: ReadonlySet<number | string>, name: number | string): ReadonlySet<number | string> {
  return open.has(name) ? new Set([...open].filter((each) => each !== name)) : new Set([...open, name]);
}

/** What is not listed, and not counted in groups either. */
function More({ left, onMore }: { left: number; onMore: (() => void) | undefined }) {
  if (left <= 0) return null;
  if (onMore === undefined) return <p className="band-row">{countOf(left, 'step')} more are not shown here</p>;
  return (
    <button type="button" className="band-row" onClick={onMore}>
      Show more: {countOf(left, 'step')} are left
    </button>
  );
}

function Sides({ compared }: { compared: Compared }) {
  const side = (letter: 'a' | 'b') => {
    const { branch, checkpoints, status } = compared[letter];
    return (
      <div>
        {letter.toUpperCase()} <b className="strong clip">{branch}</b>
        <span className="t2 clip">
          {countOf(checkpoints, 'checkpoint')} after the fork
          {status !== undefined && `, ${lookOf(status).word.toLowerCase()}`}
        </span>
      </div>
    );
  };
  return (
    <>
      <div className="cmp-row head-row">
        {side('a')}
        <div className="sign" />
        {side('b')}
      </div>
      {compared.common > 0 && (
        <p className="band-row t2">{formatCount(compared.common)} messages before the fork are the same</p>
      )}
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

function kindOf(line: CompareRow | undefined): Compared['steps'][number]['kind'] | undefined {
  if (line === undefined) return undefined;
  if ('group' in line) return line.a === line.b ? 'same' : 'changed';
  return 'step' in line ? line.step.kind : line.steps[0]?.kind;
}

const SIGNS = { same: '=', changed: '~', only_a: '−', only_b: '+' } as const;
const WHERE = { same: 'alike', changed: 'changed', only_a: 'only in A', only_b: 'only in B' } as const;

type LineProps = {
  line: CompareRow;
  isHere: boolean;
  isOpen: boolean;
  sessionId: string;
  onOpen: (name: number | string) => void;
};

function Line({ line, isHere, isOpen, sessionId, onOpen }: LineProps) {
  const kind = kindOf(line) ?? 'same';
  if ('group' in line) return <GroupLine line={line} isHere={isHere} isOpen={isOpen} onOpen={onOpen} />;
  if (!('step' in line)) {
    const [first, last] = [line.steps[0], line.steps.at(-1)];
    const tools = toolsOf(line.steps);
    return (
      <button type="button" className={`band-row ${isHere ? 'is-here' : ''}`} onClick={() => onOpen(line.at)}>
        <Icon name="right" small />
        <span className="grow clip">
          {countOf(line.count, 'step')} {WHERE[kind]}
          {tools !== '' && `: ${tools}`}
        </span>
        <span className="t3">
          {numberOf(first)}–{numberOf(last).slice(1)}
        </span>
      </button>
    );
  }
  const { a, b } = line.step;
  return (
    <div className={`cmp-row ${isHere ? 'is-here' : ''}`}>
      <StepCell said={a} tone={kind === 'only_a' ? 'is-a' : ''} sessionId={sessionId} />
      <div className="sign" title={WHERE[kind]}>
        {SIGNS[kind]}
      </div>
      <StepCell said={b} tone={kind === 'only_b' ? 'is-b' : ''} sessionId={sessionId} />
    </div>
  );
}

type GroupProps = Pick<LineProps, 'isHere' | 'isOpen' | 'onOpen'> & { line: CompareGroup };

function GroupLine({ line: { group, by, a, b }, isHere, isOpen, onOpen }: GroupProps) {
  return (
    <button
      type="button"
      className={`band-row ${isHere ? 'is-here' : ''}`}
      aria-expanded={isOpen}
      onClick={() => onOpen(group)}
    >
      <Icon name={isOpen ? 'down' : 'right'} small />
      {by === 'Agent' && <AgentSquare name={group} />}
      <span className={`grow clip ${by === 'Tool' && group !== NO_CALL ? 'mono' : ''}`}>{group}</span>
      <span>
        ×{a} to ×{b}
      </span>
      <span className="num t3" style={{ width: 72 }}>
        {share(a, b)}
      </span>
    </button>
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
