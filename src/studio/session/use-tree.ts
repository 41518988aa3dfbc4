import { useEffect, useState } from 'react';
import { ask, type Reply } from '../data/server.ts';

type Level = Reply<'GET /v1/checkpoints/{checkpoint}/state'>;
/** A value of a state, as the tree shows it. */
export type Node = Level['parts'][number];
/** A line of the tree: a value, or that there are more of them. */
export type Row = { readonly depth: number; readonly path: string } & (
  | { readonly node: Node }
  | { readonly node?: undefined; readonly left: number; readonly next: string }
);

/** What is read of the parts of a value. */
type Parts = { readonly nodes: readonly Node[]; readonly count: number; readonly next: string | undefined };

/** The open parts of a state, flat; long lists come page by page. */
export function useTree(id: string, isShown: (path: string) => boolean) {
  const [parts, setParts] = useState<ReadonlyMap<string, Parts>>(new Map());
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set(['$']));
  const [error, setError] = useState<Error>();
  const load = async (path: string, cursor?: string) => {
    try {
      const reply = await ask('GET /v1/checkpoints/{checkpoint}/state', {
        params: { checkpoint: id },
        query: { path, ...(cursor !== undefined && { cursor }) },
      });
      setParts((before) => new Map(before).set(path, joined(before.get(path), reply)));
    } catch (problem) {
      setError(problem as Error);
    }
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: read once; another checkpoint is another component
  useEffect(() => void load('$'), []);
  const toggle = (path: string) => {
    if (!parts.has(path)) void load(path);
    const next = new Set(open);
    if (!next.delete(path)) next.add(path);
    setOpen(next);
  };
  return {
    rows: [...rowsOf(parts, { open, isShown, path: '$', depth: 0 })],
    error,
    toggle,
    load,
    isOpen: (path: string) => open.has(path),
    isLoading: parts.size === 0 && error === undefined,
  };
}

function joined(before: Parts | undefined, { parts, count, next }: Level): Parts {
  return { nodes: [...(before?.nodes ?? []), ...parts], count: count ?? parts.length, next };
}

type TreeView = {
  readonly open: ReadonlySet<string>;
  readonly isShown: (path: string) => boolean;
  readonly path: string;
  readonly depth: number;
};

function* rowsOf(parts: ReadonlyMap<string, Parts>, place: TreeView): Generator<Row> {
  const { path, depth, open, isShown } = place;
  const { nodes = [], count = 0, next } = parts.get(path) ?? {};
  for (const node of nodes) {
    if (!isShown(node.path)) continue;
    yield { node, path: node.path, depth };
    if (open.has(node.path)) yield* rowsOf(parts, { ...place, path: node.path, depth: depth + 1 });
  }
  if (next !== undefined) yield { path, depth, left: count - nodes.length, next };
}
