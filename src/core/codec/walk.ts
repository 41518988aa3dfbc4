import { InvalidInputError, SavestateError } from '../errors.ts';
import { formatPath, formatShortPath, type PathStep } from '../path.ts';
import { noteChange } from '../tree/alignment.ts';
import { type Look, withTraces } from '../tree/list-trace.ts';
import { countExactly, countKept, countSame, isSame, isSameList, replaceIfNew } from '../tree/sameness.ts';
import {
  frozenItems,
  isFrozenChild,
  isFrozenContainer,
  KnownChildren,
  keep,
  Shadow,
  type ShadowChild,
  type ShadowKind,
} from '../tree/shadow.ts';
import { isUnchanged, STRAY_CHECK_ITEMS } from '../tree/unchanged.ts';
import { atomBytes, atomTag, encodeAtom, isTooLong, MAX_BIGINT_DIGITS } from '../value/atom.ts';
import type { ClassCodecs } from '../value/class-codec.ts';
import { errorClass, errorFields } from '../value/error-value.ts';
import { traceFields } from '../value/field-trace.ts';
import { FIELD_CHARS, OBJECT_MIN_ITEMS, type ValueLimits } from '../value/format.ts';
import { describeStray, findImpossible } from '../value/genuine.ts';
import type { CapturedValues } from './captured-values.ts';
import { changedContent, isSameSequence, isTraced, type NewContent, type Sequence } from './sequence.ts';
import type { CapturedState } from './state-codec.ts';

type Entries = Map<unknown, unknown> | Set<unknown>;
type Fields = { readonly [key: string]: unknown };

/** What a walk may take for granted. */
export type WalkOptions = {
  /** New elements of lists that were captured already are taken from there. */
  readonly written?: CapturedValues;
  /** How many elements of long lists of instances are looked into, if not all. */
  readonly look?: Look | undefined;
};

/** A part of a sequence: from a place on, up to another one from the end. */
type Range = { readonly from: number; readonly suffix: number };

/**
 * Walks a live value against the shadow of its last known form. Returns the same shadow where nothing changed and a new one
 * where something did; sees every in-place mutation, because it skips by identity only what is deeply frozen.
 * One walker serves one walk.
 */
export class Walker {
  readonly #codecs: ClassCodecs;
  readonly #limits: ValueLimits;
  readonly #options: WalkOptions;
  /** What holds instances that were found captured already. */
  readonly adopted: CapturedState[] = [];
  readonly #steps: PathStep[] = [];
  readonly #ancestors = new Set<object>();
  #nodes = 0;

  constructor(codecs: ClassCodecs, limits: ValueLimits, options: WalkOptions = {}) {
    this.#codecs = codecs;
    this.#options = options;
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
    if (old instanceof Shadow && old.kind === 'text') withChange(shadow, old);
    return shadow;
  }

  #walkObject(value: object, old: Shadow | undefined): Shadow {
    if (old?.isFrozen === true && old.source === value) return old;
    if (isTraced(value, old)) return old as Shadow;
    if (this.#ancestors.has(value))
      throw this.#refuse('a reference to one of its own containers (a cycle)', 'Break the cycle');
    if (this.#ancestors.size >= this.#limits.maxDepth) {
      throw this.#refuse(`nested deeper than ${this.#limits.maxDepth} levels`, 'Flatten it, or raise limits.maxDepth');
    }
    this.#ancestors.add(value);
    const shadow = this.#walkByPrototype(value, old);
    this.#ancestors.delete(value);
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
    if (value instanceof Map) return this.#walkItems('Map', { items: [...value].flat(1), source: value, old });
    return this.#walkItems('Set', { items: [...value], source: value, old });
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
      return withChange(shadow, known);
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
    if (old?.kind !== kind) return this.#walkFields(kind, value, undefined);
    const { keys, children } = old;
    if (keys.length >= OBJECT_MIN_ITEMS) return this.#walkFields(kind, value, old);
    let changed: ShadowChild[] | undefined;
    let at = 0;
    for (const key in value) {
      if (key !== keys[at]) return this.#walkFields(kind, value, old);
      const before = children[at];
      const after = this.#walkChild(value[key], before, key);
      if (after !== before || after === 0) changed = replaceIfNew(changed, { children, at, after });
      at++;
    }
    if (at !== keys.length) return this.#walkFields(kind, value, old);
    return changed === undefined ? keep(old, value) : this.#create(kind, value, { keys, children: changed });
  }

  /** An object with many keys, or with others than before. */
  #walkFields(kind: ShadowKind, value: Fields, old: Shadow | undefined): Shadow {
    let keys: readonly string[] = Object.keys(value);
    if (old !== undefined && isSameList(keys, old.keys)) keys = old.keys;
    else this.#checkObject(value, null);
    const items = keys.map((key) => value[key]);
    const shadow = this.#walkSequence(kind, { items, keys, source: value, old });
    if (shadow.isFrozen && keys.length >= OBJECT_MIN_ITEMS) shadow.items = items;
    return shadow;
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

  #walkArray(value: readonly unknown[], old: Shadow | undefined): Shadow {
    if (!Object.isFrozen(value)) return this.#walkItems('Array', { items: value, source: value, old });
    if (old === undefined || value.length <= STRAY_CHECK_ITEMS) this.#checkArray(value);
    const items = [...value];
    const shadow = this.#walkItems('Array', { items, source: value, old });
    shadow.items = items;
    return shadow;
  }

  #walkItems(kind: ShadowKind, sequence: Sequence): Shadow {
    const old = sequence.old?.kind === kind ? sequence.old : undefined;
    if (old === undefined || sequence.items.length <= STRAY_CHECK_ITEMS) this.#checkArray(sequence.items);
    return this.#walkSequence(kind, { ...sequence, old });
  }

  /** Walks what changed between the elements that are the same at both ends. */
  #walkSequence(kind: ShadowKind, sequence: Sequence): Shadow {
    const { items, keys, source, old } = sequence;
    if (old === undefined) {
      const children = this.#walkRange(sequence, { from: 0, suffix: 0 });
      return withTraces(this.#create(kind, source, { ...(keys && { keys }), children }), undefined);
    }
    const prefix = this.#countPrefix(sequence, old);
    if (prefix === items.length && prefix === old.children.length) return keep(old, source);
    const suffix = this.#countSuffix(sequence, old, prefix);
    const middle = this.#walkRange(sequence, { from: prefix, suffix });
    const kept = prefix === old.children.length ? old.children : old.children.slice(0, prefix);
    const children = suffix === 0 ? kept.concat(middle) : kept.concat(middle, old.children.slice(-suffix));
    if (isSameSequence(sequence, old, { prefix, middle })) return keep(old, source);
    const content = { ...(keys && { keys }), ...changedContent(old, middle, children) };
    const shadow = withTraces(this.#create(kind, source, content), old, prefix);
    return noteChange(shadow, old, { prefix, suffix });
  }

  /** How many elements from the front are what they were. */
  #countPrefix({ items, keys, source }: Sequence, old: Shadow): number {
    const most = Math.min(items.length, old.children.length);
    const end = keys === undefined || keys === old.keys ? most : countSame(keys, old.keys, most);
    const frozen = frozenItems(old);
    const count = old.holdsZero ? countExactly : countSame;
    if (frozen !== undefined) return countKept(source, old.source) ?? count(items, frozen, end);
    let at = old.traces?.countUntouched(items, end, this.#options.look) ?? 0;
    // What was frozen since it was last seen is walked once more, which takes note of that.
    const isFrozen = Object.isFrozen(source);
    while (at < end && this.#isUnchanged(items[at], old.children[at], { step: stepTo(keys, at), isFrozen })) at++;
    return at;
  }

  #countSuffix({ items, keys, source }: Sequence, old: Shadow, prefix: number): number {
    const end = Math.min(items.length, old.children.length) - prefix;
    const frozen = frozenItems(old);
    const shift = old.children.length - items.length;
    const isFrozen = frozen === undefined && Object.isFrozen(source); // of a large object it looks at every key
    let count = 0;
    for (let at = items.length - 1; count < end; at--, count++) {
      if (keys !== undefined && keys !== old.keys && keys[at] !== old.keys[at + shift]) break;
      if (
        frozen !== undefined
          ? !isSame(items[at], frozen[at + shift])
          : !this.#isUnchanged(items[at], old.children[at + shift], { step: stepTo(keys, at), isFrozen })
      )
        break;
    }
    return count;
  }

  #isUnchanged(
    item: unknown,
    before: ShadowChild,
    { step, isFrozen }: { readonly step: PathStep; readonly isFrozen: boolean },
  ): boolean {
    if (!(before instanceof Shadow)) return isSame(item, before);
    if (before.source !== item) return false;
    if (isFrozen && !before.isFrozen && Object.isFrozen(item)) return this.#walkChild(item, before, step) === before;
    return isUnchanged(item, before) || this.#walkChild(item, before, step) === before;
  }

  /** Walks elements that changed or moved, each against the shadow of the same key or live object, else of the same place. */
  #walkRange({ items, keys, old }: Sequence, { from, suffix }: Range): ShadowChild[] {
    const children: ShadowChild[] = [];
    const to = items.length - suffix;
    const known = old && new KnownChildren(old, from, old.children.length - suffix);
    for (let at = from; at < to; at++) {
      const item = items[at];
      if (item === undefined && !(at in items))
        throw this.#refuse(`a hole at index ${at} of an array`, 'Fill it, or use null');
      const before = keys === undefined ? this.#pair(item, known, at) : known?.ofKey(keys[at] as string, at);
      children.push(this.#walkChild(item, before, stepTo(keys, at)));
    }
    return children;
  }

  #pair(item: unknown, known: KnownChildren | undefined, at: number): ShadowChild {
    return known?.ofItem(item, at) ?? this.#adopt(item) ?? known?.at(at);
  }

  #adopt(item: unknown): Shadow | undefined {
    const found = this.#options.written?.take(item);
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
    const sentence = `Cannot save ${formatShortPath(this.#steps)}: it is ${found}. ${advice}.`;
    return new InvalidInputError(sentence, { details: { path: formatPath(this.#steps) }, cause });
  }
}

function stepTo(keys: readonly string[] | undefined, at: number): PathStep {
  return keys?.[at] ?? at;
}

/** Lets the composer build on the pieces of the older text or bytes; how many it shares with them it finds itself. */
function withChange(shadow: Shadow, from: Shadow | undefined): Shadow {
  if (from?.levels !== undefined) shadow.change = { from, prefix: 0, suffix: 0 };
  return shadow;
}
