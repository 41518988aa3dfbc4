import { InvalidInputError, SavestateError } from '../errors.ts';
import { formatPath, type PathStep } from '../path.ts';
import { noteChange } from '../tree/alignment.ts';
import { withTraces } from '../tree/list-trace.ts';
import { commonEnds, countExactly, countSame, isSame, isSameList, replaceIfNew } from '../tree/sameness.ts';
import {
  frozenItems,
  isFrozenChild,
  isFrozenContainer,
  keep,
  Shadow,
  type ShadowChild,
  type ShadowKind,
  shadowsBySource,
} from '../tree/shadow.ts';
import { isUnchanged, STRAY_CHECK_ITEMS } from '../tree/unchanged.ts';
import { atomBytes, atomTag, encodeAtom, isTooLong, MAX_BIGINT_DIGITS } from '../value/atom.ts';
import type { ClassCodecs } from '../value/class-codec.ts';
import { errorClass, errorFields } from '../value/error-value.ts';
import { isUntouched, traceFields } from '../value/field-trace.ts';
import { FIELD_CHARS, type ValueLimits } from '../value/format.ts';
import { describeStray, findImpossible } from '../value/genuine.ts';
import type { CapturedValues } from './captured-values.ts';
import type { CapturedState } from './state-codec.ts';

/** `fresh`: the children that are not known to be frozen already; all, if absent. */
type NewContent = {
  readonly keys?: readonly string[];
  readonly children?: readonly ShadowChild[];
  readonly fresh?: readonly ShadowChild[];
  /** Whether a child is 0; looked for if absent. */
  readonly holdsZero?: boolean;
};

type Entries = Map<unknown, unknown> | Set<unknown>;
type Fields = { readonly [key: string]: unknown };

/**
 * Walks a live value against the shadow of its last known form. Answers the same shadow where nothing changed and a new one
 * where something did; sees every in-place mutation, because it skips by identity only what is deeply frozen.
 * One walker serves one walk.
 */
export class Walker {
  readonly #codecs: ClassCodecs;
  readonly #limits: ValueLimits;
  readonly #instances: CapturedValues | undefined;
  /** What holds instances that were found captured already. */
  readonly adopted: CapturedState[] = [];
  readonly #steps: PathStep[] = [];
  readonly #ancestors: object[] = [];
  #nodes = 0;

  constructor(codecs: ClassCodecs, limits: ValueLimits, instances?: CapturedValues) {
    this.#codecs = codecs;
    this.#instances = instances;
    this.#limits = limits;
  }

  /** Walks a whole value; what its own code throws (a getter, a proxy, a codec) is refused with the path it stands at. */
  walk(value: unknown, old: ShadowChild): ShadowChild {
    try {
      return this.#walk(value, old);
    } catch (error) {
      if (error instanceof SavestateError) throw error;
      throw this.#refuse(`a value that cannot be read (${String(error)})`, 'Leave it out of the state', error);
    }
  }

  #walk(value: unknown, old: ShadowChild): ShadowChild {
    switch (typeof value) {
      case 'object':
        return value === null ? null : this.#walkObject(value, old instanceof Shadow ? old : undefined);
      case 'string':
        return value.length <= FIELD_CHARS ? value : this.#walkText(value, old);
      case 'bigint':
        if (isTooLong(value)) throw this.#refuse(`a bigint of more than ${MAX_BIGINT_DIGITS} digits`, 'Save its bytes');
        return value;
      case 'function':
      case 'symbol':
        throw this.#refuse(`a ${typeof value}`, 'Leave it out of the state, or give the agent a saveState method');
      default:
        return value;
    }
  }

  #walkText(value: string, old: ShadowChild): Shadow {
    if (old instanceof Shadow && old.source === value) return old;
    const shadow = this.#create('text', value, {});
    shadow.isFrozen = true;
    if (old instanceof Shadow && old.kind === 'text') withChange(shadow, old, NO_ENDS);
    return shadow;
  }

  #walkObject(value: object, old: Shadow | undefined): Shadow {
    if (old?.isFrozen === true && old.source === value) return old;
    if (isTraced(value, old)) return old as Shadow;
    if (this.#ancestors.includes(value))
      throw this.#refuse('a reference to one of its own containers (a cycle)', 'Break the cycle');
    if (this.#ancestors.length >= this.#limits.maxDepth) {
      throw this.#refuse(`nested deeper than ${this.#limits.maxDepth} levels`, 'Flatten it, or raise limits.maxDepth');
    }
    this.#ancestors.push(value);
    const shadow = this.#walkByPrototype(value, old);
    this.#ancestors.pop();
    return shadow;
  }

  #walkByPrototype(value: object, old: Shadow | undefined): Shadow {
    const prototype: object | null = Object.getPrototypeOf(value);
    if (prototype === Object.prototype) return this.#walkRecord('object', value as Fields, old);
    if (prototype === Array.prototype && Array.isArray(value)) return this.#walkArray(value, old);
    if (prototype === null) return this.#walkRecord('bare', value as Fields, old);
    if (prototype === Map.prototype || prototype === Set.prototype) return this.#walkEntries(value as Entries, old);
    return this.#walkInstance(value, prototype, old);
  }

  #walkEntries(value: Entries, old: Shadow | undefined): Shadow {
    this.#checkStray(value);
    if (value instanceof Map) return this.#walkItems('Map', [...value].flat(1), { source: value, old });
    return this.#walkItems('Set', [...value], { source: value, old });
  }

  #walkInstance(value: object, prototype: object, old: Shadow | undefined): Shadow {
    if (value instanceof Shadow) return value; // what an earlier encoding knows of a part that did not change
    const codec = this.#codecs.forInstance(value, prototype);
    if (codec !== undefined) {
      const shadow = this.#walkPayload(['class', codec.tag], value, { payload: codec.encode(value), old });
      shadow.trace = codec.readsOnlyFields && traceFields(value, this.#codecs.findReadFields);
      return shadow;
    }
    const tag = atomTag(prototype);
    if (tag !== undefined) return this.#walkAtom(tag, value, old);
    if (value instanceof Error) {
      this.#checkObject(value, prototype);
      return this.#walkPayload(['Error', errorClass(value)], value, { payload: errorFields(value), old });
    }
    const name = (prototype as { constructor?: { name?: string } }).constructor?.name || 'an unnamed class';
    throw this.#refuse(`an instance of ${name}`, 'Register a class codec for it, or save plain data');
  }

  #walkAtom(tag: string, value: object, old: Shadow | undefined): Shadow {
    this.#checkStray(value);
    const bytes = atomBytes(value);
    const known = old?.keys[0] === tag ? old : undefined;
    if (bytes !== undefined) {
      if (known?.kind === 'bytes' && Buffer.compare(known.children[0] as Uint8Array, bytes) === 0)
        return keep(known, value);
      const shadow = this.#create('bytes', value, { keys: [tag], children: [Uint8Array.from(bytes)] });
      return withChange(shadow, known, NO_ENDS);
    }
    const text = encodeAtom(tag, value);
    if (known?.kind === 'atom' && known.children[0] === text) return keep(known, value);
    return this.#create('atom', value, { keys: [tag], children: [text] });
  }

  /** An error or class instance: a tag, and one value that holds its data. */
  #walkPayload(
    [kind, tag]: [ShadowKind, string],
    value: object,
    { payload, old }: { payload: unknown; old: Shadow | undefined },
  ): Shadow {
    const known = old?.kind === kind && old.keys[0] === tag ? old : undefined;
    const child = this.#walk(payload, known?.children[0]);
    if (known !== undefined && isSame(child, known.children[0])) return keep(known, value);
    return this.#create(kind, value, { keys: [tag], children: [child] });
  }

  #walkRecord(kind: ShadowKind, value: Fields, old: Shadow | undefined): Shadow {
    if (old?.kind !== kind) return this.#buildRecord(kind, value, undefined);
    const { keys, children } = old;
    let changed: ShadowChild[] | undefined;
    let at = 0;
    for (const key in value) {
      if (key !== keys[at]) return this.#buildRecord(kind, value, old);
      const before = children[at];
      const after = this.#walkChild(value[key], before, key);
      if (after !== before || after === 0) changed = replaceIfNew(changed, { children, at, after });
      at++;
    }
    if (at !== keys.length) return this.#buildRecord(kind, value, old);
    if (changed === undefined) return keep(old, value);
    return withChange(this.#create(kind, value, { keys, children: changed }), old);
  }

  #checkObject(value: object, prototype: object | null): void {
    const impossible = findImpossible(value, prototype);
    if (impossible !== undefined) throw this.#refuse(...impossible);
  }

  #checkStray(value: object): void {
    const found = describeStray(value);
    if (found !== undefined) throw this.#refuse(found, 'Save a plain copy, with what belongs to it beside it');
  }

  #walkChild(now: unknown, before: ShadowChild, step: PathStep): ShadowChild {
    if (now === before && typeof now !== 'function' && typeof now !== 'symbol') return now;
    this.#steps.push(step);
    const after = this.#walk(now, before);
    this.#steps.pop();
    return after;
  }

  /** The keys differ: reuses what is known of each key by its name. */
  #buildRecord(kind: ShadowKind, value: Fields, old: Shadow | undefined): Shadow {
    const keys = Object.keys(value);
    this.#checkObject(value, null);
    const places = old === undefined ? NO_PLACES : new Map(old.keys.map((key, at) => [key, at]));
    const children = keys.map((key) => {
      const place = places.get(key);
      return this.#walkChild(value[key], place === undefined ? undefined : old?.children[place], key);
    });
    if (old !== undefined && isSameList(keys, old.keys) && isSameList(children, old.children)) return keep(old, value);
    return withChange(this.#create(kind, value, { keys, children }), old);
  }

  #walkArray(value: readonly unknown[], old: Shadow | undefined): Shadow {
    if (!Object.isFrozen(value)) return this.#walkItems('Array', value, { source: value, old });
    if (old === undefined || value.length <= STRAY_CHECK_ITEMS) this.#checkArray(value);
    const items = [...value];
    const shadow = this.#walkItems('Array', items, { source: value, old });
    shadow.items = items;
    return shadow;
  }

  #walkItems(
    kind: ShadowKind,
    items: readonly unknown[],
    { source, old }: { source: object; old: Shadow | undefined },
  ): Shadow {
    if (old?.kind !== kind) {
      this.#checkArray(items);
      const children = this.#walkRange(items, { from: 0, to: items.length, old: undefined });
      return withTraces(this.#create(kind, source, { children }), undefined);
    }
    if (items.length <= STRAY_CHECK_ITEMS) this.#checkArray(items);
    const prefix = this.#countPrefix(items, old);
    if (prefix === items.length && prefix === old.children.length) return keep(old, source);
    const suffix = this.#countSuffix(items, old, prefix);
    const middle = this.#walkRange(items, { from: prefix, to: items.length - suffix, old });
    const kept = prefix === old.children.length ? old.children : old.children.slice(0, prefix);
    const children = suffix === 0 ? kept.concat(middle) : kept.concat(middle, old.children.slice(-suffix));
    if (isSameList(children, old.children)) return keep(old, source);
    const shadow = withTraces(this.#create(kind, source, changedContent(old, middle, children)), old, prefix);
    return noteChange(shadow, old, { prefix, suffix });
  }

  /** How many elements from the front are what they were. */
  #countPrefix(items: readonly unknown[], old: Shadow): number {
    const end = Math.min(items.length, old.children.length);
    const frozen = frozenItems(old);
    if (frozen !== undefined) return old.holdsZero ? countExactly(items, frozen, end) : countSame(items, frozen, end);
    let at = old.traces?.countUntouched(items, end) ?? 0;
    while (at < end && (isTraced(items[at], old.children[at]) || this.#isUnchanged(items[at], old.children[at], at)))
      at++;
    return at;
  }

  #countSuffix(items: readonly unknown[], old: Shadow, prefix: number): number {
    const end = Math.min(items.length, old.children.length) - prefix;
    const frozen = frozenItems(old);
    const shift = old.children.length - items.length;
    let count = 0;
    for (let at = items.length - 1; count < end; at--, count++) {
      if (
        frozen !== undefined
          ? !isSame(items[at], frozen[at + shift])
          : !this.#isUnchanged(items[at], old.children[at + shift], at)
      )
        break;
    }
    return count;
  }

  #isUnchanged(item: unknown, before: ShadowChild, at: number): boolean {
    if (!(before instanceof Shadow)) return isSame(item, before);
    if (before.source !== item) return false;
    if (!before.isFrozen && Object.isFrozen(item)) return this.#walkChild(item, before, at) === before; // takes note of that
    return isUnchanged(item, before) || this.#walkChild(item, before, at) === before;
  }

  /** Walks elements that changed or moved, pairing each with the shadow of the same live object, else of the same place. */
  #walkRange(
    items: readonly unknown[],
    { from, to, old }: { from: number; to: number; old: Shadow | undefined },
  ): ShadowChild[] {
    const children: ShadowChild[] = [];
    if (to === from) return children;
    const known = old?.children ?? [];
    const bySource = shadowsBySource(known, from);
    for (let at = from; at < to; at++) {
      const item = items[at];
      if (item === undefined && !(at in items))
        throw this.#refuse(`a hole at index ${at} of an array`, 'Fill it, or use null');
      children.push(this.#walkChild(item, bySource.get(item) ?? this.#adopt(item) ?? known[at], at));
    }
    return children;
  }

  #adopt(item: unknown): Shadow | undefined {
    const found = this.#instances?.take(item);
    if (found !== undefined) this.adopted.push(found.within);
    return found?.shadow;
  }

  #checkArray(items: readonly unknown[]): void {
    const keys = Object.keys(items);
    if (keys.length < items.length) throw this.#refuse('an array with holes', 'Fill them, or use null');
    this.#checkStray(items);
  }

  #create(kind: ShadowKind, source: unknown, content: NewContent): Shadow {
    const { children = [], fresh = children, holdsZero = fresh.includes(0) } = content;
    this.#nodes += 1 + fresh.length;
    if (this.#nodes > this.#limits.maxNodes) {
      throw this.#refuse(`more than ${this.#limits.maxNodes} values`, 'Save less, or raise limits.maxNodes');
    }
    const shadow = new Shadow(kind, source, content);
    shadow.isFrozen = isFrozenContainer(kind, source) && fresh.every(isFrozenChild);
    shadow.holdsZero = holdsZero;
    return shadow;
  }

  #refuse(found: string, advice: string, cause?: unknown): InvalidInputError {
    const path = formatPath(this.#steps);
    return new InvalidInputError(`Cannot save ${path}: it is ${found}. ${advice}.`, { details: { path }, cause });
  }
}

const NO_ENDS = { prefix: 0, suffix: 0 };
const NO_PLACES: ReadonlyMap<string, number> = new Map();

/** The children of a list that changed, and what is known of those it had before. */
function changedContent(old: Shadow, middle: readonly ShadowChild[], children: readonly ShadowChild[]): NewContent {
  return { children, fresh: old.isFrozen ? middle : children, holdsZero: old.holdsZero || middle.includes(0) };
}

/** Lets the composer build on the tree of the older shadow; without known ends it finds them itself. */
function withChange(shadow: Shadow, from: Shadow | undefined, ends?: { prefix: number; suffix: number }): Shadow {
  if (from?.levels !== undefined) shadow.change = { from, ...(ends ?? commonEnds(shadow, from)) };
  return shadow;
}

/** Whether an element is the instance it was, with the fields it had. Nearly all of a long conversation is told by this alone. */
function isTraced(item: unknown, before: ShadowChild): boolean {
  const trace = before instanceof Shadow ? before.trace : undefined;
  return trace !== undefined && trace[0] === item && isUntouched(trace);
}
