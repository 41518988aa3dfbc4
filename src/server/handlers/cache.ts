import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { StateReader } from '../../manager/engine/state-reader.ts';

/** Keeps the last results by key, up to a weight in all; those that fail are forgotten. */
export class Cache<Value> {
  readonly #kept = new Map<string, { readonly value: Promise<Value>; readonly weight: number }>();
  readonly #maxWeight: number;
  #weight = 0;

  constructor(maxWeight: number) {
    this.#maxWeight = maxWeight;
  }

  /** The kept result, or a new one. */
  get(key: string, make: () => Promise<Value>, weight = 1): Promise<Value> {
    const known = this.#kept.get(key);
    if (known !== undefined) {
      this.#kept.delete(key);
      this.#kept.set(key, known);
      return known.value;
    }
    const value = make();
    this.#kept.set(key, { value, weight });
    this.#weight += weight;
    value.catch(() => this.#drop(key));
    for (const oldest of this.#kept.keys()) {
      if (this.#weight <= this.#maxWeight || oldest === key) break;
      this.#drop(oldest);
    }
    return value;
  }

  #drop(key: string): void {
    this.#weight -= this.#kept.get(key)?.weight ?? 0;
    this.#kept.delete(key);
  }
}

/** Of decoded states this many bytes are kept, each as if it shared nothing: who looks at one asks for several parts of it. */
const MAX_BYTES = 64 * 1024 * 1024;

/** Decoded states, the last ones looked at. They are shared: nobody changes them. */
export class States {
  readonly #manager: CheckpointManager;
  readonly #reader: StateReader;
  readonly #cache = new Cache<unknown>(MAX_BYTES);

  constructor(manager: CheckpointManager) {
    this.#manager = manager;
    this.#reader = new StateReader(manager.engine);
  }

  /** The state of a checkpoint, by its id or a prefix. Throws a NotFoundError also if it was deleted since. */
  async load(idOrPrefix: string): Promise<unknown> {
    const { id, stateDigest, schemaVersion = 0, stateBytes } = await this.#manager.open(idOrPrefix);
    const read = async () => this.#reader.read(await this.#manager.engine.repository.open(id));
    return this.#cache.get(`${stateDigest} ${schemaVersion}`, read, stateBytes);
  }
}
