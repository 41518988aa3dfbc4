import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { Cache } from './cache.ts';

/** Of decoded states this many bytes are kept: who looks at one asks for several parts of it. */
const MAX_BYTES = 64 * 1024 * 1024;

/** Decoded states, the last ones looked at. They are shared: nobody changes them. */
export class States {
  readonly #manager: CheckpointManager;
  readonly #cache = new Cache<unknown>(MAX_BYTES);

  constructor(manager: CheckpointManager) {
    this.#manager = manager;
  }

  /** The state of a checkpoint, by its id or a prefix. Throws a NotFoundError also if it was deleted since. */
  async load(idOrPrefix: string): Promise<unknown> {
    const { id, stateBytes } = await this.#manager.open(idOrPrefix);
    return this.#cache.get(id, () => this.#manager.load(id), stateBytes);
  }
}
