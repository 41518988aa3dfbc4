import { isDeepStrictEqual } from 'node:util';
import type { Change } from '../../core/diff/index.ts';
import { CorruptError, InvalidInputError, UnsupportedError } from '../../core/errors.ts';
import { freezeState } from '../../core/freeze.ts';
import { isPlainObject } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { countKept, growList } from '../../core/tree/sameness.ts';
import { FIELD_CHARS } from '../../core/value/format.ts';
import { joinItem } from '../../manager/revision/item-messages.ts';
import { withoutAbsent } from './plain.ts';

const VERSION = 1;

type Fields = { readonly [field: string]: unknown };

/**
 * A transcript as it is saved. The large fields of an item are kept apart from it, at the same place of `bodies`: so a copy of the
 * item under another id shares them. In the item itself such a field is undefined, which keeps the order of its fields.
 */
export type TranscriptState = {
  /** Whose items these are: `claude`, `openai-agents`, ... */
  readonly transcript: string;
  readonly version: number;
  readonly items: readonly unknown[];
  readonly bodies: readonly (Fields | null)[];
  /** What an adapter keeps beside the items and changes together with them. */
  readonly extra: unknown;
};

/** What a change makes of a transcript: it keeps the first items, adds others, and may replace what is beside them. */
export type TranscriptEdit = {
  readonly keep: number;
  readonly add: readonly unknown[];
  readonly extra?: unknown;
  /** What the checkpoint of the change says of itself, so that lists of sessions read no items. */
  readonly metadata?: { readonly [key: string]: unknown };
};

/** A transcript as of its head. */
export type TranscriptView<Item> = {
  readonly head: Checkpoint | undefined;
  readonly length: number;
  /** The items without their large fields; frozen. */
  readonly outlines: readonly unknown[];
  /** What the adapter keeps beside the items; null at first; frozen. */
  readonly extra: unknown;
  /** The items from a place on, as copies. */
  itemsFrom(from: number): Item[];
  /** The place of the item with an id. */
  find(id: string): number | undefined;
};

/** The transcript that a session begins with. */
export function emptyTranscript(transcript: string): TranscriptState {
  return freezeState({ transcript, version: VERSION, items: [], bodies: [], extra: null });
}

/** Reads a state as a transcript of this adapter, or throws an error that says whose it is instead. */
export function parseTranscript(state: unknown, transcript: string, sessionId: string): TranscriptState {
  const found = (typeof state === 'object' && state !== null ? state : {}) as Partial<TranscriptState>;
  const details = { sessionId, expected: transcript, found: found.transcript };
  if (found.transcript !== transcript)
    throw new InvalidInputError(
      `Session "${sessionId}" holds ${typeof found.transcript === 'string' ? `a transcript of "${found.transcript}"` : 'a state that is no transcript'}, not one of "${transcript}"; nothing was changed. Use another session id, or open it with what saved it.`,
      { details },
    );
  if (found.version !== VERSION)
    throw new UnsupportedError(
      `The transcript of session "${sessionId}" has version ${String(found.version)}, and this program knows version ${VERSION}; nothing was changed. Update savestate.`,
      { details },
    );
  const { items, bodies } = found;
  if (!Array.isArray(items) || !Array.isArray(bodies) || items.length !== bodies.length)
    throw new CorruptError(
      `The transcript of session "${sessionId}" was edited so that its items and bodies do not match. Fork from an earlier checkpoint.`,
      { details },
    );
  return freezeState(state as TranscriptState);
}

/** Why a transcript cannot be forked at an item. */
export function cannotFork(sessionId: string, length: number, at: number): InvalidInputError {
  return new InvalidInputError(
    `Session "${sessionId}" has ${length} items, so it cannot be forked at item ${at}. Give a number from 0 to ${length}.`,
    { details: { sessionId, length, at } },
  );
}

/** The transcript after a change. What is added must be the caller's own no longer: it is frozen. */
export function applyEdit(before: TranscriptState, { keep, add, extra }: TranscriptEdit): TranscriptState {
  const split = add.map(splitItem);
  const items = split.map(({ item }) => freezeState(item));
  const bodies = split.map(({ body }) => freezeState(body));
  return Object.freeze({
    ...before,
    items: growList(before.items, keep, items),
    bodies: growList(before.bodies, keep, bodies),
    extra: extra === undefined ? before.extra : freezeState(extra),
  });
}

/** The transcript after what others appended; undefined if they did anything else. */
export function applyAppends(before: TranscriptState, changes: readonly Change[]): TranscriptState | undefined {
  const added: { items: unknown[]; bodies: (Fields | null)[] } = { items: [], bodies: [] };
  for (const change of changes) {
    const [field, at] = change.path;
    if (change.op !== 'add' || change.path.length !== 2 || (field !== 'items' && field !== 'bodies')) return undefined;
    const list: unknown[] = added[field];
    if (at !== before[field].length + list.length) return undefined;
    list.push(freezeState(change.value));
  }
  const items = growList(before.items, before.items.length, added.items);
  const bodies = growList(before.bodies, before.bodies.length, added.bodies);
  return items.length === bodies.length ? Object.freeze({ ...before, items, bodies }) : undefined;
}

/** A transcript to look at. */
export function viewOf<Item>(
  { head, state }: { readonly head: Checkpoint | undefined; readonly state: TranscriptState },
  places: ItemPlaces,
): TranscriptView<Item> {
  const { items: outlines, extra } = state;
  return {
    head,
    length: outlines.length,
    outlines,
    extra,
    itemsFrom: (from) => itemsFrom(state, from) as Item[],
    find: (id) => places.find(outlines, id),
  };
}

/** The items from a place on, each a new copy. */
export function itemsFrom({ items, bodies }: TranscriptState, from: number): unknown[] {
  return items.slice(from).map((item, at) => copyValue(joinItem(item, bodies[from + at])));
}

function splitItem(item: unknown): { readonly item: unknown; readonly body: Fields | null } {
  if (!isPlainObject(item)) return { item, body: null };
  const large = Object.entries(item).filter(([, value]) => countChars(value, FIELD_CHARS) > FIELD_CHARS);
  if (large.length === 0) return { item, body: null };
  const without = Object.fromEntries(large.map(([field]) => [field, undefined]));
  return { item: { ...item, ...without }, body: Object.fromEntries(large) };
}

/** About how long a value is as JSON; stops counting beyond a limit. */
function countChars(value: unknown, limit: number): number {
  if (typeof value === 'string') return value.length + 2;
  if (value instanceof Uint8Array) return value.length;
  if (typeof value !== 'object' || value === null) return 4;
  let chars = 2;
  for (const [key, child] of Object.entries(value)) {
    if (chars > limit) break;
    chars += (Array.isArray(value) ? 1 : key.length + 4) + countChars(child, limit - chars);
  }
  return chars;
}

/** A copy that shares nothing that can change; the codec has found no cycle in it. */
export function copyValue<Value>(value: Value): Value {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(copyValue) as Value;
  if (isPlainObject(value))
    return Object.fromEntries(Object.entries(value).map(([field, child]) => [field, copyValue(child)])) as Value;
  return isMutableValue(value) ? structuredClone(value) : value;
}

/** Whether two lists hold the same items; a field that is undefined is as good as absent. */
export function isSameItems(left: readonly unknown[], right: readonly unknown[]): boolean {
  return isDeepStrictEqual(withoutAbsent(left), withoutAbsent(right));
}

/** Whether a value is no container, but can change all the same. */
function isMutableValue(value: object): boolean {
  return value instanceof Date || value instanceof Map || value instanceof Set || ArrayBuffer.isView(value);
}

/** Where items are, by a field that names them. What was looked at once is not looked at again while a list keeps it. */
export class ItemPlaces {
  readonly #field: string;
  readonly #places = new Map<unknown, number>();
  #seen: readonly unknown[] = [];

  constructor(field: string) {
    this.#field = field;
  }

  /** The place of the first item of this name. */
  find(items: readonly unknown[], name: unknown): number | undefined {
    if (items !== this.#seen) this.#look(items);
    return this.#places.get(name);
  }

  forget(): void {
    this.#places.clear();
    this.#seen = [];
  }

  #look(items: readonly unknown[]): void {
    const before = this.#seen;
    const kept = countKept(items, before) ?? countCommon(items, before);
    for (let at = kept; at < before.length; at++) {
      const name = this.#nameOf(before[at]);
      if (this.#places.get(name) === at) this.#places.delete(name);
    }
    for (let at = kept; at < items.length; at++) {
      const name = this.#nameOf(items[at]);
      if (name !== undefined && !this.#places.has(name)) this.#places.set(name, at);
    }
    this.#seen = items;
  }

  #nameOf(item: unknown): unknown {
    return (item as { readonly [field: string]: unknown } | null)?.[this.#field];
  }
}

/** Lists change from some place on: what has the last element of another has all of it. */
function countCommon(items: readonly unknown[], before: readonly unknown[]): number {
  const { length } = before;
  return length <= items.length && items[length - 1] === before[length - 1] ? length : 0;
}
