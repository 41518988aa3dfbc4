import { isList, isRecord, type StateValues } from './state-values.ts';

/** One change of a state. `add` puts a field into a record, or an item at the end of a list. */
export type StateChange = {
  readonly op: 'add' | 'replace' | 'remove';
  readonly path: (string | number)[];
  readonly value?: unknown;
};

type Path = StateChange['path'];
type Found = { readonly values: StateValues; readonly changes: StateChange[] };

/** What leads from one state to another. Their parts that are the same object cost nothing. */
export function changesBetween(values: StateValues, before: unknown, after: unknown): StateChange[] {
  const changes: StateChange[] = [];
  compare({ values, changes }, [], { before, after });
  return changes;
}

type Pair = { readonly before: unknown; readonly after: unknown };

function compare(found: Found, path: Path, { before, after }: Pair): void {
  if (Object.is(before, after)) return;
  if (isList(before) && isList(after)) compareLists(found, path, { before, after });
  else if (isRecord(before) && isRecord(after)) compareRecords(found, path, { before, after });
  else if (!found.values.isSame(before, after)) found.changes.push({ op: 'replace', path, value: after });
}

function compareLists(found: Found, path: Path, { before, after }: { before: unknown[]; after: unknown[] }): void {
  const common = Math.min(before.length, after.length);
  for (let at = 0; at < common; at++)
    if (!Object.is(before[at], after[at])) compare(found, [...path, at], { before: before[at], after: after[at] });
  for (let at = common; at < after.length; at++)
    found.changes.push({ op: 'add', path: [...path, at], value: after[at] });
  if (after.length < before.length)
    found.changes.push({ op: 'replace', path: [...path, 'length'], value: after.length });
}

type Fields = { readonly [key: string]: unknown };

function compareRecords(found: Found, path: Path, { before, after }: { before: Fields; after: Fields }): void {
  for (const key of Object.keys(before))
    if (!Object.hasOwn(after, key)) found.changes.push({ op: 'remove', path: [...path, key] });
  for (const [key, value] of Object.entries(after)) {
    if (Object.hasOwn(before, key)) compare(found, [...path, key], { before: before[key], after: value });
    else found.changes.push({ op: 'add', path: [...path, key], value });
  }
}

/**
 * Makes changes in place: whoever holds a part of the state goes on holding a part of it. Items are added at the end of a list,
 * whatever others added meanwhile; a change of something that is gone is none.
 */
export function applyChanges(values: StateValues, state: object, changes: readonly StateChange[]): void {
  for (const { op, path, value } of changes) {
    const key = path.at(-1);
    const holder = path.slice(0, -1).reduce<unknown>(childOf, state);
    if (key === undefined || typeof holder !== 'object' || holder === null) continue;
    if (op === 'remove') Reflect.deleteProperty(holder, key);
    else if (Array.isArray(holder) && isBeyond(holder, op, key)) holder.push(values.copyWhole(value));
    else Reflect.set(holder, key, values.copyWhole(value));
  }
}

function childOf(holder: unknown, key: string | number): unknown {
  return typeof holder === 'object' && holder !== null ? (Reflect.get(holder, key) as unknown) : undefined;
}

function isBeyond(list: readonly unknown[], op: StateChange['op'], key: string | number): boolean {
  return op === 'add' || (typeof key === 'number' && key >= list.length);
}
