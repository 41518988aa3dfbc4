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
  /** The elements of a frozen array, in an array that is not: V8 reads those many times faster. */
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

/** The shadows among children from a place on, by the live objects they were taken from. */
export function shadowsBySource(known: readonly ShadowChild[], from: number): Map<unknown, Shadow> {
  const bySource = new Map<unknown, Shadow>();
  for (let at = from; at < known.length; at++) {
    const child = known[at];
    if (child instanceof Shadow) bySource.set(child.source, child);
  }
  return bySource;
}
