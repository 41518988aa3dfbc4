import { useVirtualizer } from '@tanstack/react-virtual';
import { useMemo, useRef } from 'react';
import { formatBytes, formatCount, formatInline } from '../data/format.ts';
import type { Reply } from '../data/server.ts';
import { server } from '../data/server.ts';
import { useReplyIf } from '../data/use-reply.ts';
import { setQuery, usePlace } from '../frame/place.ts';
import type { Look } from '../look/look.ts';
import { CopyButton } from '../parts/command.tsx';
import { Icon } from '../parts/icon.tsx';
import { Skeleton, Trouble } from '../parts/trouble.tsx';
import { type Node, useTree } from './use-tree.ts';

const ROW_HEIGHT = 24;

/** The state as a tree; parts are read when they are opened, large values when they are asked for. */
export function StateTab({ id, view, selection }: Look & { id: string }) {
  const hasParent = (view.timeline.parents[selection.at] ?? -1) >= 0;
  const isChanged = useChanged(hasParent ? id : undefined);
  const onlyChanged = usePlace().query.has('changed') && hasParent;
  const tree = useTree(id, onlyChanged ? isChanged : () => true);
  const { rows, error, isLoading } = tree;
  const box = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 8,
  });
  return (
    <>
      <label className="subbar">
        <input
          type="checkbox"
          checked={onlyChanged}
          disabled={!hasParent}
          onChange={() => setQuery({ changed: onlyChanged ? undefined : 'only' }, { replace: true })}
        />
        Only what changed since the parent
        {!hasParent && <span className="t3">This is the first checkpoint.</span>}
      </label>
      <div className="scroll grow" ref={box}>
        {error !== undefined && <Trouble error={error} />}
        {isLoading && <Skeleton />}
        {!isLoading && error === undefined && rows.length === 0 && (
          <p className="empty">{onlyChanged ? 'Nothing changed since the parent.' : 'This state is empty.'}</p>
        )}
        <div className="virtual" role="tree" aria-label="State" style={{ height: list.getTotalSize() }}>
          {list.getVirtualItems().map(({ index, start }) => {
            const row = rows[index];
            if (row === undefined) return null;
            const { node, depth, path } = row;
            return (
              <div key={node === undefined ? `${path} more` : path} style={{ transform: `translateY(${start}px)` }}>
                {node === undefined ? (
                  <MoreRow depth={depth} left={row.left} onMore={() => void tree.load(path, row.next)} />
                ) : (
                  <TreeRow
                    id={id}
                    node={node}
                    depth={depth}
                    isChanged={isChanged(path)}
                    isOpen={tree.isOpen(path)}
                    onToggle={() => tree.toggle(path)}
                  />
                )}
              </div>
            );
          })}
        </div>
      </div>
    </>
  );
}

/** Whether something at or below a path is not as it was in the parent, or is part of something new. */
function useChanged(id: string | undefined): (path: string) => boolean {
  const diff = useReplyIf('GET /v1/diff', id === undefined ? undefined : { query: { after: id } }).value;
  return useMemo(() => {
    const { exact, above } = pathsOf(diff);
    return (path) => above.has(path) || ancestorsOf(path).some((each) => exact.has(each));
  }, [diff]);
}

/** The places that changed, and all that lie above them. */
function pathsOf(diff: Reply<'GET /v1/diff'> | undefined) {
  const changes = diff === undefined ? [] : [...diff.added, ...diff.removed, ...diff.modified, ...diff.moved];
  const removed = new Set(diff?.removed.map(({ path }) => path));
  const exact = new Set(changes.map(({ path }) => path).filter((path) => !removed.has(path)));
  return { exact, above: new Set(changes.flatMap(({ path }) => ancestorsOf(path))) };
}

/** A path and those above it: $.a[3].b, $.a[3], $.a, $. */
function ancestorsOf(path: string): string[] {
  const ends = [...path.matchAll(/\.[^.[]+|\[\d+\]|\["(?:[^"\\]|\\.)*"\]/g)].map((step) => step.index);
  return [path, ...ends.map((end) => path.slice(0, end))];
}

function MoreRow({ depth, left, onMore }: { depth: number; left: number; onMore: () => void }) {
  return (
    <div className="trow" style={{ paddingLeft: 32 + depth * 16 }}>
      <button type="button" className="btn sm quiet" onClick={onMore}>
        Show more: {formatCount(left)} are left
      </button>
    </div>
  );
}

type TreeRowProps = {
  id: string;
  node: Node;
  depth: number;
  isChanged: boolean;
  isOpen: boolean;
  onToggle: () => void;
};

function TreeRow({ id, node, depth, isChanged, isOpen, onToggle }: TreeRowProps) {
  const isBranch = (node.count ?? 0) > 0 && node.type !== 'string';
  return (
    <div
      className="trow"
      role="treeitem"
      tabIndex={-1}
      aria-level={depth + 1}
      aria-expanded={isBranch ? isOpen : undefined}
      style={{ paddingLeft: 16 + depth * 16 }}
    >
      {isBranch ? (
        <button
          type="button"
          className="twist"
          aria-label={`${isOpen ? 'Close' : 'Open'} ${node.path}`}
          onClick={onToggle}
        >
          <Icon name={isOpen ? 'down' : 'right'} small />
        </button>
      ) : (
        <span style={{ width: 16 }} />
      )}
      <span className="key" title={String(node.key)}>
        <span className="clip">{String(node.key)}</span>
      </span>
      {isChanged && <span className="chip warn">changed</span>}
      <span className="t3">{isBranch ? `${node.type} of ${formatCount(node.count ?? 0)}` : node.type}</span>
      <Value node={node} />
      {node.bytes > 1_000 && <span className="t3 num">{formatBytes(node.bytes)}</span>}
      {node.isCut && !isBranch && <OpenValue id={id} path={node.path} />}
      <CopyButton text={node.path} label="Copy the path" />
    </div>
  );
}

function Value({ node: { value, preview = '' } }: { node: Node }) {
  return (
    <span className="mono t2 clip grow" title={formatInline(value ?? preview, 2_000)}>
      {value === undefined ? preview : formatInline(value)}
    </span>
  );
}

/** A value that is too large for the tree, whole, in a tab of its own. */
function OpenValue({ id, path }: { id: string; path: string }) {
  const request = { params: { checkpoint: id }, query: { path } };
  return (
    <a
      className="btn sm"
      href={server.urlOf('GET /v1/checkpoints/{checkpoint}/value', request)}
      target="_blank"
      rel="noreferrer"
    >
      Open
    </a>
  );
}
