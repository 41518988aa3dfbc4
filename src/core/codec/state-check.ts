import type { ChunkContent } from '../tree/chunk.ts';
import { ClassCodecs } from '../value/class-codec.ts';
import type { ValueLimits } from '../value/format.ts';
import { Decoder, type FindChunk } from './decode.ts';
import { DecodedParts } from './decoded-parts.ts';

/** Checks that states can be read, by reading them: whatever loading one refuses is refused. Instances are left to their codecs. */
export class StateCheck {
  readonly #parts = new DecodedParts();
  readonly #codecs = new ClassCodecs([], 'keep');
  readonly #limits: ValueLimits;

  constructor(limits: ValueLimits) {
    this.#limits = limits;
  }

  /** Throws what loading this state would throw. What it returns is to look at only: parts of it are used again. */
  read(root: ChunkContent, find: FindChunk): unknown {
    this.#parts.turn();
    return new Decoder(find, { codecs: this.#codecs, limits: this.#limits, checked: this.#parts }).decode(root);
  }
}
