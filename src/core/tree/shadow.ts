import type { FieldTrace } from '../value/field-trace.ts';
import type { Digest } from './chunk.ts';
import type { ListTrace } from './list-trace.ts';

/** How a container is saved. `text` is a long string, `bytes` a binary atom, `atom` an object without children. */
export type ShadowKind = 'object' | 'bare' | 'Array' | 'Map' | 'Set' | 'Error' | 'class' | 'atom' | 'bytes' | 'text';

/** One closed node of a tree: a chunk that holds `entries` elements of the level below, `items` elements of the collection in all. */
export type TreeNode = { readonly digest: Digest; readonly entries: number; readonly items: number };

/** The closed nodes of one level, and how many elements of the level below they hold together. */
export type TreeLevel = { readonly nodes: readonly TreeNode[]; readonly entries: number };

/** The levels of a tree, lowest first. What follows the last closed node of a level is its open edge. */
export type TreeLevels = readonly TreeLevel[];

/** How the children of a collection came from those of an earlier shadow: equal at both ends. */
export type Change = { readonly from: Shadow; readonly prefix: number; readonly suffix: number };

/** A primitive, or the shadow of a container. */
export type ShadowChild = unknown;

/**
 * A container as it was last walked: its plain children and what is known of its stored form. Shadows of one state share
 * the unchanged ones of the state before. Content never changes after it was made; the caches may be filled in later.
 */
export class Shadow {
  // What every save reads of every shadow comes first, so that it is in one line of the processor's cache.
  /** What the fields of a class instance held when it was last found to be like this. */
  trace: FieldTrace | undefined;
  readonly kind: ShadowKind;
  /** The live value this was taken from: a hint for pairing, and proof of equality if `isFrozen`. */
  source: unknown;
  /** Keys of an object; tag of an atom, error or class instance in the first place. */
  readonly keys: readonly string[];
  /** Values of an object, elements, or alternating keys and values of a Map. */
  readonly children: readonly ShadowChild[];
  /** The source and everything below it is frozen, so it is still what it was. */
  isFrozen = false;
  /**
   * The elements of a frozen array or large object, in an array that is not frozen: V8 reads those many times faster. Of a long text
   * or bytes: where the pieces end.
   */
  items: readonly unknown[] | undefined;
  /** Of a list: what its first elements held. It goes on to the next shadow of a list that changes. */
  traces: ListTrace | undefined;
  /** Some child may be `0`: then comparing with `===` is not enough, because it takes `0` for `-0`. */
  holdsZero = false;

  /** Cache: the text a parent would take in, and the refs in it. Dropped when long. */
  text: string | undefined;
  refs: readonly Digest[] = NO_REFS;
  textChars = -1;
  /** Cache: set while this is a chunk of its own in the latest state that holds it. */
  digest: Digest | undefined;
  /** Cache: set while this is written as a tree. */
  levels: TreeLevels | undefined;
  /** Cache: how to get the levels from those of an older shadow; dropped once used. */
  change: Change | undefined;
  /** Logical size: characters of the whole value's text with nothing shared. */
  sizeChars = 0;

  constructor(
    kind: ShadowKind,
    source: unknown,
    content: { keys?: readonly string[]; children?: readonly ShadowChild[] },
  ) {
    this.kind = kind;
    this.source = source;
    this.keys = content.keys ?? NO_KEYS;
    this.children = content.children ?? NO_CHILDREN;
  }
}

const NO_REFS: readonly Digest[] = Object.freeze([]);
const NO_KEYS: readonly string[] = Object.freeze([]);
const NO_CHILDREN: readonly ShadowChild[] = Object.freeze([]);

/** Notes that a live value was found equal to a shadow. */
export function keep(shadow: Shadow, source: unknown): Shadow {
  if (shadow.source !== source) {
    shadow.source = source;
    shadow.isFrozen = false;
  }
  if (!shadow.isFrozen && isFrozenContainer(shadow.kind, source))
    shadow.isFrozen = shadow.children.every(isFrozenChild);
  return shadow;
}

/** Whether a value's own fields or elements cannot change any more. */
export function isFrozenContainer(kind: ShadowKind, source: unknown): boolean {
  return (kind === 'object' || kind === 'Array' || kind === 'bare') && Object.isFrozen(source);
}

/** Whether nothing in a child can change any more. */
export function isFrozenChild(child: ShadowChild): boolean {
  return !(child instanceof Shadow) || child.isFrozen;
}

/** The live elements behind a deeply frozen array: comparing with them skips by identity. */
export function frozenItems(shadow: Shadow): readonly unknown[] | undefined {
  return shadow.isFrozen ? shadow.items : undefined;
}

/** The children of an older shadow between two places, each found by what it may be paired with now. */
export class KnownChildren {
  readonly #old: Shadow;
  readonly #from: number;
  readonly #to: number;
  #bySource: Map<unknown, ShadowChild> | undefined;
  #byKey: Map<string, ShadowChild> | undefined;

  constructor(old: Shadow, from: number, to: number) {
    this.#old = old;
    this.#from = from;
    this.#to = to;
  }

  at(place: number): ShadowChild {
    return this.#old.children[place];
  }

  /** The shadow that was taken from this live element: nearly always it is still in its place. */
  ofItem(item: unknown, at: number): ShadowChild {
    const child = this.#old.children[at];
    if (child instanceof Shadow && child.source === item) return child;
    this.#bySource ??= this.#map((shadow) => (shadow instanceof Shadow ? shadow.source : undefined));
    return this.#bySource.get(item);
  }

  /** What stood under this key. */
  ofKey(key: string, at: number): ShadowChild {
    const { keys, children } = this.#old;
    if (keys[at] === key) return children[at];
    this.#byKey ??= this.#map((_, place) => keys[place] as string);
    return this.#byKey.get(key);
  }

  #map<Name>(nameOf: (child: ShadowChild, place: number) => Name | undefined): Map<Name, ShadowChild> {
    const found = new Map<Name, ShadowChild>();
    for (let at = this.#from; at < this.#to; at++) {
      const name = nameOf(this.#old.children[at], at);
      if (name !== undefined) found.set(name, this.#old.children[at]);
    }
    return found;
  }
}
