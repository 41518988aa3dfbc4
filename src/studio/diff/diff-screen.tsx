import { useVirtualizer } from '@tanstack/react-virtual';
import { useMemo, useRef } from 'react';
import { formatTime, quoteArgument, shortId } from '../data/format.ts';
import { useReplyIf } from '../data/use-reply.ts';
import { Link } from '../frame/link.tsx';
import { sessionAddress, setQuery } from '../frame/place.ts';
import { CopyCommand } from '../parts/command.tsx';
import { Crumbs } from '../parts/crumbs.tsx';
import { Icon } from '../parts/icon.tsx';
import { Loaded } from '../parts/trouble.tsx';
import { ChangeList } from './change-list.tsx';
import { type Diff, type PathRow, SIGNS, TONES, toTree } from './changes.ts';
import { DiffBar } from './diff-bar.tsx';
import { useChanges } from './use-changes.ts';

/** Any two checkpoints: which paths changed, and how. */
export function DiffScreen({ sessionId, query }: { sessionId: string; query: URLSearchParams }) {
  const [a, b] = [query.get('a') ?? undefined, query.get('b') ?? undefined];
  const asked = useReplyIf(
    'GET /v1/diff',
    b === undefined ? undefined : { query: { after: b, ...(a !== undefined && { before: a }) } },
  );
  const { before, after } = asked.value ?? {};
  return (
    <>
      <header className="topbar">
        <Crumbs sessionId={sessionId}>
          <h1>Diff</h1>
        </Crumbs>
        <span className="vr" />
        <Side letter="A" of={before} sessionId={sessionId} />
        <button
          type="button"
          className="btn icon"
          aria-label="Swap the sides"
          onClick={() => setQuery({ a: after?.id, b: before?.id }, { replace: true })}
        >
          <Icon name="swap" small />
        </button>
        <Side letter="B" of={after} sessionId={sessionId} />
        <span className="grow" />
        {before !== undefined && after !== undefined && before.branch !== after.branch && (
          <Link
            className="btn"
            href={sessionAddress(sessionId, { page: 'compare', a: before.branch, b: after.branch })}
          >
            <Icon name="compare" small />
            Compare branches
          </Link>
        )}
        <CopyCommand
          command={`savestate diff ${before?.id ?? a ?? ''} ${after?.id ?? b ?? ''} --session ${quoteArgument(sessionId)}`}
        />
      </header>
      {b === undefined ? (
        <p className="empty">The address names no checkpoint to compare.</p>
      ) : (
        <Loaded of={asked}>{(diff) => <Content key={`${a} ${b}`} diff={diff} query={query} />}</Loaded>
      )}
    </>
  );
}

function Side({ letter, of: side, sessionId }: { letter: string; of: Diff['before'] | undefined; sessionId: string }) {
  if (side === undefined) return null;
  return (
    <Link className="btn" href={sessionAddress(sessionId, { at: side.id })}>
      {letter} <b className="medium">{side.branch}</b> #{side.sequence}
    </Link>
  );
}

function Content({ diff, query }: { diff: Diff; query: URLSearchParams }) {
  const shown = useChanges(diff, query);
  return (
    <>
      <DiffBar {...shown} />
      <div className="diff">
        <PathTree rows={useMemo(() => toTree(shown.changes), [shown.changes])} at={shown.at} onGo={shown.onGo} />
        <section className="pane" aria-label="Changes of both sides">
          <div className="cmp-row head-row diff-row">
            {(['before', 'after'] as const).map((side) => (
              <div key={side}>
                {side === 'before' ? 'A' : 'B'} <b className="strong clip">{diff[side].branch}</b> #
                {diff[side].sequence} <span className="mono t3">{shortId(diff[side].id)}</span>
                <span className="grow" />
                <span className="mono t3">{formatTime(Date.parse(diff[side].savedAt))}</span>
              </div>
            ))}
          </div>
          {diff.hasChanges ? <ChangeList diff={diff} {...shown} /> : <p className="empty">The two states are equal.</p>}
        </section>
      </div>
    </>
  );
}

const ROW_HEIGHT = 24;

type TreeProps = { rows: readonly PathRow[]; at: number; onGo: (to: number) => void };

/** The places that changed; a press goes to the first change there. */
function PathTree({ rows, at, onGo }: TreeProps) {
  const box = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 8,
  });
  return (
    <section className="pane" aria-label="Changed paths">
      <div className="head">
        <h2>Changed paths</h2>
      </div>
      <div className="scroll grow" ref={box}>
        <div className="virtual" role="tree" aria-label="Changed paths" style={{ height: list.getTotalSize() }}>
          {list.getVirtualItems().map(({ index, start }) => {
            const row = rows[index];
            return (
              row !== undefined && (
                <div key={row.path} style={{ transform: `translateY(${start}px)` }}>
                  <PathLine row={row} isHere={row.kind !== undefined && row.first === at} onGo={onGo} />
                </div>
              )
            );
          })}
        </div>
      </div>
    </section>
  );
}

function PathLine({ row, isHere, onGo }: { row: PathRow; isHere: boolean; onGo: (to: number) => void }) {
  const { name, depth, counts, kind, first } = row;
  return (
    <button
      type="button"
      role="treeitem"
      className="trow event-row"
      aria-level={depth + 1}
      aria-selected={isHere}
      style={{ paddingLeft: 16 + depth * 16 }}
      onClick={() => onGo(first)}
    >
      <b className={kind === undefined ? 't3' : TONES[kind]} style={{ width: 12 }}>
        {kind === undefined ? '' : SIGNS[kind]}
      </b>
      <span className="mono clip grow">{name}</span>
      {kind === undefined && (
        <span className="pm">
          {(['added', 'removed', 'changed', 'moved'] as const).map(
            (each) =>
              counts[each] > 0 && (
                <span key={each} className={TONES[each]}>
                  {SIGNS[each]}
                  {counts[each]}
                </span>
              ),
          )}
        </span>
      )}
    </button>
  );
}
