import { groupBy } from '../group-by.ts';
import { findIncreasing } from './align.ts';
import type { ChunkSource, Steps } from './chunk-source.ts';
import { type Comparison, type InnerDelta, openValues } from './delta.ts';
import { alignEntries, type Entry, entriesOf, type Segment } from './entry.ts';
import { kindOf, type Linked, type LinkedObject, Tree } from './linked.ts';
import { placeMoves } from './list-moves.ts';

/** An element that has no equal at its place: what became of it is found step by step. */
type Loose = {
  readonly index: number;
  readonly run: number;
  readonly name: string;
  readonly value: Linked;
  /** How many elements that stay come before it. */
  gap: number;
  role: 'alone' | 'moved' | 'paired';
};

type Sides = { readonly before: readonly Loose[]; readonly after: readonly Loose[] };

type Couple = readonly [before: Loose, after: Loose];

/** More moves than this are no help to a reader and slow to apply: the elements are paired by place instead. */
const MAX_MOVES = 10_000;

/** Compares two arrays, flat or trees: removals, moves, additions, and what changed inside elements that stayed. */
export function* diffList(
  comparison: Comparison,
  before: Tree | readonly Linked[],
  after: Tree | readonly Linked[],
): Steps<InnerDelta> {
  const { chunks } = comparison;
  const segments = yield* alignEntries(chunks, entriesOf(before), entriesOf(after));
  const sides = findLoose(segments);
  const moved = coupleMoves(sides);
  const left: Sides = { before: sides.before.filter(isAlone), after: sides.after.filter(isAlone) };
  yield* chunks.open([...left.before, ...left.after].map(linkedOf));
  const paired = couplePairs(left, chunks);
  const nested = paired.map(([one, other]) => [other.index, comparison.compare(one.value, other.value)] as const);
  const removed = left.before.filter(isAlone);
  const added = left.after.filter(isAlone);
  yield* openValues(chunks, [...removed, ...added, ...moved.map(([one]) => one)].map(linkedOf));
  return {
    removes: removed.map(({ index, value }) => [index, value] as const).reverse(),
    moves: listMoves(sides, moved),
    adds: added.map(({ index, value }) => [index, value] as const),
    nested,
  };
}

function linkedOf({ value }: Loose): Linked {
  return value;
}

function isAlone({ role }: Loose): boolean {
  return role === 'alone';
}

function findLoose(segments: readonly Segment[]): Sides {
  const before: Loose[] = [];
  const after: Loose[] = [];
  const indexes = { before: 0, after: 0 };
  segments.forEach((segment, run) => {
    if (segment.state !== 'same') {
      before.push(...toLoose(segment.before, indexes.before, run));
      after.push(...toLoose(segment.after, indexes.after, run));
    }
    indexes.before += countItems(segment.before);
    indexes.after += countItems(segment.after);
  });
  return { before, after };
}

function toLoose(entries: readonly Entry[], from: number, run: number): Loose[] {
  return entries.map(({ name, value }, at) => ({ index: from + at, run, name, value, gap: 0, role: 'alone' }));
}

function countItems(entries: readonly Entry[]): number {
  return entries.reduce((count, { items }) => count + items, 0);
}

/** Couples elements that left one place and came up, unchanged, at another. */
function coupleMoves({ before, after }: Sides): Couple[] {
  const leaving = groupBy(before.toReversed(), ({ name }) => name);
  const couples: Couple[] = [];
  for (const element of after) {
    const match = leaving.get(element.name)?.pop();
    if (match !== undefined) couples.push([match, element]);
  }
  if (couples.length > MAX_MOVES) return [];
  for (const couple of couples) for (const element of couple) element.role = 'moved';
  return couples;
}

function listMoves({ before, after }: Sides, couples: readonly Couple[]): [number, number, Linked][] {
  if (couples.length === 0) return [];
  countGaps(before);
  countGaps(after);
  return placeMoves(couples)
    .filter(({ from, to }) => from !== to)
    .map(({ mover: [element], from, to }) => [from, to, element.value]);
}

function countGaps(side: readonly Loose[]): void {
  let gone = 0;
  for (const element of side) {
    element.gap = element.index - gone;
    if (element.role !== 'paired') gone++;
  }
}

/** Couples elements of one run that are the same thing in two states: the same id, or else the same place and kind. */
function couplePairs({ before, after }: Sides, chunks: ChunkSource): Couple[] {
  const runs = groupBy(after, ({ run }) => run);
  const couples = [...groupBy(before, ({ run }) => run)].flatMap(([run, olds]) => {
    const news = runs.get(run) ?? [];
    return coupleRun(olds.map(toMember(chunks)), news.map(toMember(chunks)));
  });
  for (const couple of couples) for (const element of couple) element.role = 'paired';
  return couples;
}

type Member = { readonly element: Loose; readonly kind: string; readonly id: unknown };

function toMember(chunks: ChunkSource): (element: Loose) => Member {
  return (element) => {
    const value = chunks.resolve(element.value);
    const kind = kindOf(value);
    const isFlat = kind === 'object' && !(value instanceof Tree);
    return { element, kind, id: isFlat ? idOf(value as LinkedObject) : undefined };
  };
}

function idOf(fields: LinkedObject): string | number | undefined {
  const id = Object.hasOwn(fields, 'id') ? fields.id : undefined;
  return typeof id === 'string' || typeof id === 'number' ? id : undefined;
}

function coupleRun(olds: readonly Member[], news: readonly Member[]): Couple[] {
  let [oldFrom, newFrom] = [0, 0];
  return [...sameIds(olds, news), [olds.length, news.length] as const].flatMap(([oldAt, newAt]) => {
    const between = coupleByPlace(olds.slice(oldFrom, oldAt), news.slice(newFrom, newAt));
    [oldFrom, newFrom] = [oldAt + 1, newAt + 1];
    const [old, now] = [olds[oldAt], news[newAt]];
    return old === undefined || now === undefined ? between : [...between, [old.element, now.element] as const];
  });
}

/** The places of members with equal ids, as far as they are in the same order. */
function sameIds(olds: readonly Member[], news: readonly Member[]): (readonly [number, number])[] {
  const places = new Map<unknown, number>();
  news.forEach(({ id }, at) => {
    if (id !== undefined && !places.has(id)) places.set(id, at);
  });
  const found = olds.flatMap(({ id }, at) => {
    const place = places.get(id);
    return place === undefined ? [] : [[at, place] as const];
  });
  return findIncreasing(found.map(([, place]) => place)).map((index) => found[index] as readonly [number, number]);
}

/** Members with different ids are different things, whatever their places. */
function coupleByPlace(olds: readonly Member[], news: readonly Member[]): Couple[] {
  return olds.flatMap((old, at) => {
    const now = news[at];
    return now !== undefined && old.kind === now.kind && old.id === now.id ? [[old.element, now.element] as const] : [];
  });
}
