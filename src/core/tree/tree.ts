import { NODE_MAX_WEIGHT, NODE_MIN_WEIGHT, REF_WEIGHT } from '../value/format.ts';
import type { Digest } from './chunk.ts';
import type { TreeLevel, TreeLevels, TreeNode } from './shadow.ts';

/** One element of a level: an item of the collection, or a closed node of the level below. */
export type Entry = { readonly weight: number; readonly isMarked: boolean; readonly items: number };

/** A level as it is now: its elements, read only where the cut needs them. */
export type Level<E extends Entry> = { readonly length: number; at(index: number): E };

/** What is known of a level before: its closed nodes, its length, and how many elements are equal at both ends. */
type Before = TreeLevel & { readonly length: number; readonly prefix: number; readonly suffix: number };

/** A level cut anew, and how many of its nodes were taken over at both ends. */
type Cut = TreeLevel & { readonly prefix: number; readonly suffix: number };

type NodeEntry = Entry & { readonly node: TreeNode };

/** Writes a closed node: items at the lowest level, nodes above. */
export type NodeWriter<Item extends Entry> = {
  writeLeaf(items: readonly Item[]): TreeNode;
  writeInner(nodes: readonly TreeNode[]): TreeNode;
};

/** The tree a change starts from; `NO_TREE` if there was none. */
export type TreeBefore = {
  readonly levels: TreeLevels;
  readonly length: number;
  readonly prefix: number;
  readonly suffix: number;
};

const NO_LEVEL: TreeLevel = { nodes: [], entries: 0 };

export const NO_TREE: TreeBefore = { levels: [], length: 0, prefix: 0, suffix: 0 };

/**
 * Cuts a collection into the levels of its tree. Where a node ends depends only on the elements in it, never on history,
 * so equal collections have equal trees; nodes before and after a change are taken over from the tree before.
 */
export function cutTree<Item extends Entry>(
  items: Level<Item>,
  before: TreeBefore,
  writer: NodeWriter<Item>,
): TreeLevels {
  const levels: TreeLevel[] = [];
  const bottom = beforeLevel(before, 0, before);
  let cut = cutLevel(items, bottom, (leaf) => writer.writeLeaf(leaf));
  while (cut.nodes.length > 0) {
    levels.push({ nodes: cut.nodes, entries: cut.entries });
    const known = beforeLevel(before, levels.length, cut);
    cut = cutLevel(nodeLevel(cut.nodes), known, (entries) => writer.writeInner(entries.map(({ node }) => node)));
  }
  return levels;
}

/** What is known of one level before; `ends` are those of the level below after its own cut. */
function beforeLevel({ levels, length }: TreeBefore, at: number, ends: { prefix: number; suffix: number }): Before {
  const { nodes, entries } = levels[at] ?? NO_LEVEL;
  const below = at === 0 ? length : (levels[at - 1] ?? NO_LEVEL).nodes.length;
  return { nodes, entries, length: below, prefix: ends.prefix, suffix: ends.suffix };
}

function nodeLevel(nodes: readonly TreeNode[]): Level<NodeEntry> {
  return {
    length: nodes.length,
    at: (index) => {
      const node = nodes[index] as TreeNode;
      return { weight: REF_WEIGHT, isMarked: isMarkedDigest(node.digest), items: node.items, node };
    },
  };
}

function cutLevel<E extends Entry>(level: Level<E>, before: Before, write: (entries: E[]) => TreeNode): Cut {
  const { count: prefix, end: start } = nodesWithin(before, before.prefix);
  const kept = prefix === before.nodes.length ? before.nodes : before.nodes.slice(0, prefix);
  const old = { next: prefix, end: start };
  const fresh: TreeNode[] = [];
  let open: E[] = [];
  let weight = 0;
  let closed = start;
  for (let at = start; at < level.length; at++) {
    const entry = level.at(at);
    open.push(entry);
    weight += entry.weight;
    if (!isEnd(entry, weight)) continue;
    fresh.push(write(open));
    open = [];
    weight = 0;
    closed = at + 1;
    if (isResynced(before, old, level.length - closed)) {
      const rest = before.nodes.slice(old.next);
      return {
        nodes: kept.concat(fresh, rest),
        entries: closed + before.entries - old.end,
        prefix,
        suffix: rest.length,
      };
    }
  }
  return { nodes: fresh.length === 0 ? kept : kept.concat(fresh), entries: closed, prefix, suffix: 0 };
}

function isEnd(entry: Entry, weight: number): boolean {
  return weight >= NODE_MAX_WEIGHT || (weight >= NODE_MIN_WEIGHT && entry.isMarked);
}

/** How many nodes lie wholly within the first `limit` elements, and where the last of them ends. */
function nodesWithin(level: TreeLevel, limit: number): { count: number; end: number } {
  if (limit >= level.entries) return { count: level.nodes.length, end: level.entries };
  let end = 0;
  let count = 0;
  for (const { entries } of level.nodes) {
    if (end + entries > limit) break;
    end += entries;
    count++;
  }
  return { count, end };
}

/** Whether the cut is now at a place where the level before had one too, with only equal elements after it. Moves `old` on. */
function isResynced(before: Before, old: { next: number; end: number }, remaining: number): boolean {
  if (remaining > before.suffix) return false;
  const place = before.length - remaining;
  while (old.end < place && old.next < before.nodes.length) {
    old.end += before.nodes[old.next]?.entries ?? 0;
    old.next++;
  }
  return old.end === place;
}

/** Half of all digests are marked: by the last bit of their last character's code. */
export function isMarkedDigest(digest: Digest): boolean {
  return (digest.charCodeAt(digest.length - 1) & 1) === 1;
}

/** Half of all texts are marked: by the top bit of their 32-bit FNV-1a hash over UTF-16 code units. */
export function isMarkedText(text: string): boolean {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash < 0;
}
