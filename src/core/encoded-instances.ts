import type { Chunk } from './chunk.ts';
import { isUntouched } from './field-trace.ts';
import { Shadow, type ShadowChild } from './shadow.ts';

/** An instance as it was encoded, and all chunks that were made with it. */
type EncodedInstance = { readonly shadow: Shadow; readonly chunks: readonly Chunk[] };

/** More are not worth holding: what is not met in the next states is not met at all. */
const MAX_INSTANCES = 32;

/**
 * Class instances that were encoded by themselves and will soon be part of a state: there they need not be encoded again. Each is given
 * out once, with its chunks, because nobody knows whether those were stored.
 */
export class EncodedInstances {
  readonly #known = new Map<unknown, EncodedInstance>();

  /** Remembers the instances in a list that was encoded. */
  add({ shadow: list, chunks }: { readonly shadow: ShadowChild; readonly chunks: readonly Chunk[] }): void {
    if (!(list instanceof Shadow)) return;
    for (const shadow of list.children) {
      if (shadow instanceof Shadow && shadow.trace !== undefined) this.#known.set(shadow.source, { shadow, chunks });
    }
    for (const oldest of this.#known.keys()) if (this.#known.size > MAX_INSTANCES) this.#known.delete(oldest);
  }

  /** Takes an instance out, if it is still as it was encoded. */
  take(instance: unknown): EncodedInstance | undefined {
    const found = this.#known.get(instance);
    if (found?.shadow.trace === undefined) return undefined;
    this.#known.delete(instance);
    return isUntouched(found.shadow.trace) ? found : undefined;
  }

  clear(): void {
    this.#known.clear();
  }
}
