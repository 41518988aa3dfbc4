import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useRef, useState } from 'react';
import { formatBytes, formatInline } from '../data/format.ts';
import { ask, type Reply } from '../data/server.ts';
import { CopyButton } from '../parts/command.tsx';
import { Icon } from '../parts/icon.tsx';
import { Skeleton, Trouble } from '../parts/trouble.tsx';
import type { Shared } from './session-screen.tsx';

type Node = Reply<'GET /v1/checkpoints/{checkpoint}/state'>['parts'][number];
type Row = { readonly node: Node; readonly depth: number };

const ROW_HEIGHT = 24;

/** The state as a tree; parts are read when they are opened, large values when they are asked for. */
export function StateTab({ id }: Shared & { id: string }) {
  const { rows, error, toggle, isOpen, isLoading } = useTree(id);
  const box = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 8,
  });
  return (
    <div className="scroll grow" ref={box}>
      {error !== undefined && <Trouble error={error} />}
      {isLoading && <Skeleton />}
      <div className="virtual" role="tree" aria-label="State" style={{ height: list.getTotalSize() }}>
        {list.getVirtualItems().map(({ index, start }) => {
          const row = rows[index];
          return (
            row && (
              <div key={row.node.path} style={{ transform: `translateY(${start}px)` }}>
                <TreeRow row={row} isOpen={isOpen(row.node.path)} onToggle={() => toggle(row.node)} />
              </div>
            )
          );
        })}
      </div>
    </div>
  );
}

const hasParts = ({ type, count = 0 }: Node) => count > 0 && type !== 'string';

function TreeRow({ row: { node, depth }, isOpen, onToggle }: { row: Row; isOpen: boolean; onToggle: () => void }) {
  const isBranch = hasParts(node);
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
      <span className="key">{String(node.key)}</span>
      <span className="t3">{isBranch ? `${node.type} of ${node.count}` : node.type}</span>
      <span className="mono t2 clip grow" title={formatInline(node.value ?? node.preview ?? '', 2_000)}>
        {node.value === undefined ? (node.preview ?? '') : formatInline(node.value)}
      </span>
      {node.bytes > 1_000 && <span className="t3 num">{formatBytes(node.bytes)}</span>}
      <CopyButton text={node.path} label="Copy the path" />
    </div>
  );
}

/** The open parts of a state, flat. */
function useTree(id: string) {
  const [parts, setParts] = useState<ReadonlyMap<string, readonly Node[]>>(new Map());
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set(['$']));
  const [error, setError] = useState<Error>();
  const load = async (path: string) => {
    try {
      const reply = await ask('GET /v1/checkpoints/{checkpoint}/state', {
        params: { checkpoint: id },
        query: { path },
      });
      setParts((before) => new Map(before).set(path, reply.parts));
    } catch (problem) {
      setError(problem as Error);
    }
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: read once; another checkpoint is another component
  useEffect(() => void load('$'), []);
  const toggle = ({ path }: Node) => {
    if (!parts.has(path)) void load(path);
    const next = new Set(open);
    if (!next.delete(path)) next.add(path);
    setOpen(next);
  };
  const rows: Row[] = [];
  const add = (path: string, depth: number) => {
    for (const node of parts.get(path) ?? []) {
      rows.push({ node, depth });
      if (open.has(node.path)) add(node.path, depth + 1);
    }
  };
  add('$', 0);
  return {
    rows,
    error,
    toggle,
    isOpen: (path: string) => open.has(path),
    isLoading: parts.size === 0 && error === undefined,
  };
}
