import type { ChunkContent, Digest } from '../tree/chunk.ts';
import { asList, REF_TEXT, readCounts } from '../value/grammar.ts';
import { align } from './align.ts';
import type { ChunkSource, Steps } from './chunk-source.ts';
import { type Linked, linkChunk, Ref, Tree } from './linked.ts';
import { identify } from './unlink.ts';

/** An element of a collection (height 0), or a closed node of its tree. Equal names mean equal content. */
export type Entry = {
  readonly name: string;
  readonly height: number;
  readonly items: number;
  readonly value: Linked;
};

/** A stretch of both sequences: the same on both sides, different down to the elements, or still to be looked into. */
export type Segment = {
  readonly state: 'same' | 'changed' | 'open';
  readonly before: readonly Entry[];
  readonly after: readonly Entry[];
};

/** The entries of a collection as its own chunk shows them: of a tree the open edges, highest nodes first. */
export function entriesOf(collection: Tree | readonly Linked[]): Entry[] {
  if (!(collection instanceof Tree)) return collection.map(itemEntry);
  const { levels, items } = collection;
  const entries = levels.flatMap((nodes, at) =>
    nodes.map(({ ref, items }) => nodeEntry(ref, levels.length - at, items)),
  );
  for (const item of items) entries.push(itemEntry(item));
  return entries;
}

function itemEntry(value: Linked): Entry {
  return { name: identify(value), height: 0, items: 1, value };
}

/** A leaf may have the very text, and so the digest, of an array that is an element: those are named with a sign before it. */
function nodeEntry(value: Ref, height: number, items: number): Entry {
  return { name: value.digest, height, items, value };
}

function readNode(content: ChunkContent, height: number): Entry[] {
  const { text, refs } = content;
  if (height > 1) {
    return readCounts(content).map((items, at) => nodeEntry(new Ref(refs[at] as Digest), height - 1, items));
  }
  const hasOnlyRefs = refs.length > 0 && text.length === refs.length * (REF_TEXT.length + 1) + 1;
  if (hasOnlyRefs) return refs.map((digest) => itemEntry(new Ref(digest)));
  return asList<Linked>(linkChunk(content)).map(itemEntry);
}

/**
 * Aligns two collections level by level. Nodes that both have are never opened; of what differs the highest nodes are
 * opened first, so that trees of different heights meet at the same level.
 */
export function* alignEntries(
  chunks: ChunkSource,
  before: readonly Entry[],
  after: readonly Entry[],
): Steps<readonly Segment[]> {
  let segments: readonly Segment[] = [{ state: 'open', before, after }];
  for (;;) {
    segments = segments.flatMap((segment) => (segment.state === 'open' ? split(segment) : [segment]));
    const open = segments.filter(({ state }) => state === 'open');
    if (open.length === 0) return segments;
    yield* chunks.open(highestRefs(open));
    segments = segments.map((segment) => (segment.state === 'open' ? expand(chunks, segment) : segment));
  }
}

function split({ before, after }: Segment): Segment[] {
  const segments: Segment[] = [];
  const places = { before: 0, after: 0 };
  const pushChanged = (beforeEnd: number, afterEnd: number) => {
    if (beforeEnd === places.before && afterEnd === places.after) return;
    const part = { before: before.slice(places.before, beforeEnd), after: after.slice(places.after, afterEnd) };
    segments.push({ state: topHeight(part) > 0 ? 'open' : 'changed', ...part });
  };
  for (const match of align(before.map(nameOf), after.map(nameOf))) {
    pushChanged(match.before, match.after);
    places.before = match.before + match.length;
    places.after = match.after + match.length;
    const same = { before: before.slice(match.before, places.before), after: after.slice(match.after, places.after) };
    segments.push({ state: 'same', ...same });
  }
  pushChanged(before.length, after.length);
  return segments;
}

function nameOf(entry: Entry): string {
  return entry.name;
}

function topHeight({ before, after }: Pick<Segment, 'before' | 'after'>): number {
  let height = 0;
  for (const entry of before) if (entry.height > height) height = entry.height;
  for (const entry of after) if (entry.height > height) height = entry.height;
  return height;
}

function* highestRefs(segments: readonly Segment[]): Iterable<Linked> {
  for (const segment of segments) {
    const height = topHeight(segment);
    for (const entry of segment.before) if (entry.height === height) yield entry.value;
    for (const entry of segment.after) if (entry.height === height) yield entry.value;
  }
}

function expand(chunks: ChunkSource, segment: Segment): Segment {
  const height = topHeight(segment);
  const open = (entries: readonly Entry[]) => {
    const opened: Entry[] = [];
    for (const entry of entries) {
      if (entry.height < height) opened.push(entry);
      else for (const child of readNode(chunks.find((entry.value as Ref).digest), height)) opened.push(child);
    }
    return opened;
  };
  return { state: 'open', before: open(segment.before), after: open(segment.after) };
}

/** The elements of entries, all nodes opened. */
export function* openItems(chunks: ChunkSource, entries: readonly Entry[]): Steps<readonly Entry[]> {
  const [segment] = yield* alignEntries(chunks, entries, []);
  return segment?.before ?? [];
}
