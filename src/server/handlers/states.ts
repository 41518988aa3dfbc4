import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { StateReader } from '../../manager/engine/state-reader.ts';
import { Cache } from './cache.ts';

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
