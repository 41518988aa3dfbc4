import type { ClassCodecs } from './class-codec.ts';
import { isSame } from './sameness.ts';
import { Shadow, type ShadowChild } from './shadow.ts';

/** Arrays longer than this are checked for stray properties only when first seen: the check reads every key. */
export const STRAY_CHECK_ITEMS = 64;

type Fields = { readonly [key: string]: unknown };

/**
 * The walk over what did not change, which is nearly all of a state, without what a walk needs to describe a change. Sees every
 * mutation that the full walk sees.
 */
export class UnchangedCheck {
  readonly #codecs: ClassCodecs;

  constructor(codecs: ClassCodecs) {
    this.#codecs = codecs;
  }

  /** Whether a live value is still what is remembered of it. `false` also where only the full walk can tell. */
  readonly isSame = (value: unknown, before: ShadowChild): boolean => {
    if (!(before instanceof Shadow)) return isSame(value, before);
    return before.source === value && (before.isFrozen || this.#isSameContent(value, before));
  };

  #isSameContent(value: unknown, before: Shadow): boolean {
    if (typeof value !== 'object' || value === null) return false;
    const prototype: object | null = Object.getPrototypeOf(value);
    switch (before.kind) {
      case 'object':
        return prototype === Object.prototype && this.#isSameRecord(value as Fields, before);
      case 'Array':
        return prototype === Array.prototype && this.#isSameArray(value as unknown[], before);
      case 'class':
        return prototype !== null && this.#isSameInstance(value, prototype, before);
      default:
        return false;
    }
  }

  #isSameRecord(value: Fields, { keys, children }: Shadow): boolean {
    let at = 0;
    for (const key in value) {
      if (key !== keys[at] || !this.isSame(value[key], children[at])) return false;
      at++;
    }
    return at === keys.length;
  }

  #isSameArray(value: readonly unknown[], { children }: Shadow): boolean {
    if (value.length !== children.length) return false;
    for (let at = 0; at < children.length; at++) if (!this.isSame(value[at], children[at])) return false;
    return value.length > STRAY_CHECK_ITEMS || countKeys(value) === value.length;
  }

  #isSameInstance(instance: object, prototype: object, before: Shadow): boolean {
    const codec = this.#codecs.forInstance(instance, prototype);
    const data = before.children[0];
    if (codec?.isUnchanged === undefined || codec.tag !== before.keys[0] || !(data instanceof Shadow)) return false;
    return codec.isUnchanged(instance, data, this.isSame);
  }
}

function countKeys(value: object): number {
  let count = 0;
  for (const _ in value) count++;
  return count;
}
