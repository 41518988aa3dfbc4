import type { Digest } from '../tree/chunk.ts';
import { type Linked, type LinkedObject, type NodeRef, Opaque, Pairs, Ref, Tree } from './linked.ts';

/** Whether two values are the same: what a value is written as, refs and all, depends on the value alone. */
export function isSameLinked(a: Linked, b: Linked): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || a === null || typeof b !== 'object' || b === null) return false;
  if (Array.isArray(a)) return Array.isArray(b) && isSameList(a, b, isSameLinked);
  return Object.getPrototypeOf(a) === Object.getPrototypeOf(b) && isSameObject(a, b);
}

function isSameObject(a: Exclude<Linked, null>, b: object): boolean {
  if (a instanceof Ref) return a.digest === (b as Ref).digest;
  if (a instanceof Opaque) return a.tag === (b as Opaque).tag && isSameList(a.args, (b as Opaque).args, isSameLinked);
  if (a instanceof Pairs) return isSameLinked(a.pairs as Linked[][], (b as Pairs).pairs as Linked[][]);
  if (a instanceof Tree) return isSameTree(a, b as Tree);
  return isSameFields(a as LinkedObject, b as LinkedObject);
}

function isSameFields(a: LinkedObject, b: LinkedObject): boolean {
  const keys = Object.keys(a);
  const others = Object.keys(b);
  if (keys.length !== others.length) return false;
  let at = 0;
  for (const key of keys) if (key !== others[at++] || !isSameLinked(a[key] as Linked, b[key] as Linked)) return false;
  return true;
}

function isSameTree(a: Tree, b: Tree): boolean {
  const isSameNode = (one: NodeRef, other: NodeRef) => one.digest === other.digest;
  return (
    a.kind === b.kind &&
    a.count === b.count &&
    isSameList(a.levels, b.levels, (one, other) => isSameList(one, other, isSameNode)) &&
    isSameList(a.items, b.items, isSameLinked)
  );
}

function isSameList<T>(a: readonly T[], b: readonly T[], isSame: (one: T, other: T) => boolean): boolean {
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (!isSame(a[at] as T, b[at] as T)) return false;
  return true;
}

/** Collects the refs in a value, without those below them. */
export function collectRefs(value: Linked, into: Digest[]): void {
  if (typeof value !== 'object' || value === null) return;
  if (value instanceof Ref) into.push(value.digest);
  else if (value instanceof Tree) collectTreeRefs(value, into);
  else for (const child of childrenOf(value)) collectRefs(child, into);
}

function childrenOf(value: Linked[] | LinkedObject | Opaque | Pairs): readonly Linked[] {
  if (Array.isArray(value)) return value;
  if (value instanceof Opaque) return value.args;
  return value instanceof Pairs ? (value.pairs as Linked[][]) : Object.values(value);
}

function collectTreeRefs({ levels, items }: Tree, into: Digest[]): void {
  for (const nodes of levels) for (const { digest } of nodes) into.push(digest);
  for (const item of items) collectRefs(item, into);
}
