import type { StateCodec } from '../../../core/codec/state-codec.ts';
import type { Chunk } from '../../../core/tree/chunk.ts';
import type { Sources } from './write-record.ts';

/**
 * Decodes the states of a page of history, which have nearly everything in common: what the first one is made of is remembered, and
 * not read again for the others. Every state is made of new objects all the same.
 */
export class PageDecoder {
  readonly #codec: StateCodec;
  #sources: Sources;
  #isLearning: boolean;

  constructor(codec: StateCodec, sources: Sources, { isLearning }: { readonly isLearning: boolean }) {
    this.#codec = codec;
    this.#sources = sources;
    this.#isLearning = isLearning;
  }

  get sources(): Sources {
    return this.#sources;
  }

  decode(root: Chunk): unknown {
    const { find, known } = this.#sources;
    if (!this.#isLearning) return this.#codec.decode(root, find, known);
    const { state, encoded } = this.#codec.decodeForEditing(root, find);
    this.#isLearning = false;
    this.#sources = { find, known: this.#codec.nearState(encoded) };
    return state;
  }
}
