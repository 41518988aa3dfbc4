import { type ChunkSource, type Steps, together } from './chunk-source.ts';
import { type Comparison, type InnerDelta, openValues } from './delta.ts';
import { alignEntries, type Entry, entriesOf, openItems } from './entry.ts';
import { type Linked, type LinkedObject, Pairs, Tree } from './linked.ts';

/** An object or map, flat or a tree. */
export type Fields = LinkedObject | Pairs | Tree;

/** One field of an object or entry of a map. The key of a map may be no text: then there is no path to it. */
type Field = { readonly key: string | undefined; readonly value: Linked };

/** Nodes and pairs that both sides have, in the same order to each other and to all other blocks; not opened. */
type Block = { readonly entries: readonly Entry[] };

type Unit = Field | Block;

type Sides = { readonly before: readonly Unit[]; readonly after: readonly Unit[] };

/** Whether the engine itself keeps a key in its place; never so in a map. */
type IsSorted = (key: string) => boolean;

/** Compares two objects or maps by key. Returns `whole` if a change is at a key that no path can name. */
export function* diffFields(comparison: Comparison, before: Fields, after: Fields): Steps<InnerDelta | 'whole'> {
  const { chunks } = comparison;
  const read = yield* readUnits(chunks, before, after);
  if (!hasPaths(read)) return 'whole';
  const isSorted = sortedKeys(before);
  const units = yield* openBlocks(chunks, read, findMisplaced(read, isSorted));
  if (!hasPaths(units)) return 'whole';
  const rebuilt = new Set([...findMisplaced(units, isSorted)].map(nameOf));
  return yield* diffUnits(comparison, units, rebuilt);
}

function isField(unit: Unit): unit is Field {
  return 'key' in unit;
}

function hasPaths({ before, after }: Sides): boolean {
  const hasPath = (unit: Unit) => !isField(unit) || unit.key !== undefined;
  return before.every(hasPath) && after.every(hasPath);
}

function sortedKeys(fields: Fields): IsSorted {
  const isMap = fields instanceof Pairs || (fields instanceof Tree && fields.kind === 'Map');
  return isMap ? () => false : isArrayIndex;
}

const MAX_ARRAY_INDEX = 2 ** 32 - 2;

function isArrayIndex(key: string): boolean {
  return /^(?:0|[1-9]\d{0,9})$/.test(key) && Number(key) <= MAX_ARRAY_INDEX;
}

function* readUnits(chunks: ChunkSource, before: Fields, after: Fields): Steps<Sides> {
  const olds = pairEntries(before);
  const news = pairEntries(after);
  if (olds !== undefined && news !== undefined) return yield* alignUnits(chunks, olds, news);
  const [oldFields = [], newFields = []] = yield* together([readSide(chunks, before), readSide(chunks, after)]);
  return { before: oldFields, after: newFields };
}

/** What is stored as pairs can be aligned without knowing the keys; undefined for an object that is written flat. */
function pairEntries(fields: Fields): readonly Entry[] | undefined {
  if (fields instanceof Pairs) return entriesOf(fields.pairs as readonly Linked[][]);
  return fields instanceof Tree ? entriesOf(fields) : undefined;
}

function* alignUnits(chunks: ChunkSource, before: readonly Entry[], after: readonly Entry[]): Steps<Sides> {
  const segments = yield* alignEntries(chunks, before, after);
  const changed = segments.filter(({ state }) => state === 'changed');
  yield* chunks.open(changed.flatMap((segment) => [...segment.before, ...segment.after].map(({ value }) => value)));
  const units = segments.map((segment): Sides => {
    if (segment.state !== 'same')
      return { before: toFields(chunks, segment.before), after: toFields(chunks, segment.after) };
    const block = [{ entries: segment.before }];
    return { before: block, after: block };
  });
  return { before: units.flatMap((side) => side.before), after: units.flatMap((side) => side.after) };
}

function* readSide(chunks: ChunkSource, fields: Fields): Steps<readonly Field[]> {
  const entries = pairEntries(fields);
  if (entries !== undefined) return yield* readEntries(chunks, entries);
  return Object.keys(fields).map((key) => ({ key, value: (fields as LinkedObject)[key] as Linked }));
}

function* readEntries(chunks: ChunkSource, entries: readonly Entry[]): Steps<readonly Field[]> {
  const items = yield* openItems(chunks, entries);
  yield* chunks.open(items.map(({ value }) => value));
  return toFields(chunks, items);
}

function toFields(chunks: ChunkSource, items: readonly Entry[]): Field[] {
  return items.map((item) => {
    const [key, value] = chunks.resolve(item.value) as Linked[];
    return { key: typeof key === 'string' ? key : undefined, value: value as Linked };
  });
}

/**
 * Finds what the later order cannot be reached with by removing keys and appending new ones: the units from the first one
 * on that both sides have and that stands elsewhere.
 */
function findMisplaced({ before, after }: Sides, isSorted: IsSorted): ReadonlySet<Unit> {
  const news = new Set(after.map(nameOf));
  const isOrdered = (unit: Unit) => !isField(unit) || !isSorted(unit.key as string);
  const olds = before.filter((unit) => news.has(nameOf(unit)) && isOrdered(unit));
  const ordered = after.filter(isOrdered);
  let at = 0;
  while (at < olds.length && nameOf(olds[at] as Unit) === nameOf(ordered[at] as Unit)) at++;
  return at === olds.length ? NOTHING : new Set([...olds.slice(at), ...ordered.slice(at)]);
}

const NOTHING: ReadonlySet<Unit> = new Set();

function nameOf(unit: Unit): unknown {
  return isField(unit) ? unit.key : unit;
}

/** Puts the fields of misplaced blocks in their stead, on both sides. */
function* openBlocks(chunks: ChunkSource, units: Sides, misplaced: ReadonlySet<Unit>): Steps<Sides> {
  const blocks = [...misplaced].filter((unit): unit is Block => !isField(unit));
  if (blocks.length === 0) return units;
  const contents = yield* together(blocks.map((block) => readEntries(chunks, block.entries)));
  const fields = new Map<Unit, readonly Unit[]>(blocks.map((block, at) => [block, contents[at] ?? []]));
  const open = (side: readonly Unit[]) => side.flatMap((unit): readonly Unit[] => fields.get(unit) ?? [unit]);
  return { before: open(units.before), after: open(units.after) };
}

/** Compares what is left in fields; blocks are the same on both sides. */
function* diffUnits(comparison: Comparison, units: Sides, rebuilt: ReadonlySet<unknown>): Steps<InnerDelta> {
  const before = units.before.filter(isField);
  const after = units.after.filter(isField);
  const olds = new Map(before.map(({ key, value }) => [key, value]));
  const news = new Set(after.map(({ key }) => key));
  const removes = before.filter(({ key }) => !news.has(key) || rebuilt.has(key));
  const adds = after.filter(({ key }) => !olds.has(key) || rebuilt.has(key));
  const kept = after.filter(({ key, value }) => olds.has(key) && !rebuilt.has(key) && olds.get(key) !== value);
  const nested = kept.map((field) => {
    const [key, value] = toStep(field);
    return [key, comparison.compare(olds.get(key) as Linked, value)] as const;
  });
  const opened = [...removes, ...adds].map(({ value }) => value);
  yield* openValues(comparison.chunks, opened);
  return { removes: removes.map(toStep), moves: [], adds: adds.map(toStep), nested };
}

function toStep({ key, value }: Field): [string, Linked] {
  return [key as string, value];
}
