import { keepRecent } from '../keep-recent.ts';
import { Shadow } from '../tree/shadow.ts';
import { isUntouched } from '../value/field-trace.ts';
import type { CapturedState } from './state-codec.ts';

/** An instance as it was captured, and what it was captured with: their chunks are made together. */
type CapturedValue = { readonly shadow: Shadow; readonly within: CapturedState };

/** More are not worth holding: what is not met in the next states is not met at all. */
const MAX_INSTANCES = 32;

/**
 * Class instances that were captured by themselves and will soon be part of a state: there they need not be encoded again. Each is given
 * out once, with its chunks, because nobody knows whether those were stored.
 */
export class CapturedValues {
  readonly #known = new Map<unknown, CapturedValue>();

  /** Remembers the instances in a list that was captured. */
  add(list: CapturedState): void {
    if (!(list.shadow instanceof Shadow)) return;
    for (const shadow of list.shadow.children) {
      if (shadow instanceof Shadow && shadow.trace !== undefined)
        keepRecent(this.#known, [shadow.source, { shadow, within: list }], MAX_INSTANCES);
    }
  }

  /** Takes an instance out, if it is still as it was captured. */
  take(instance: unknown): CapturedValue | undefined {
    const found = this.#known.get(instance);
    if (found?.shadow.trace === undefined) return undefined;
    this.#known.delete(instance);
    return isUntouched(found.shadow.trace) ? found : undefined;
  }

  clear(): void {
    this.#known.clear();
  }
}
