import type { ChunkContent } from '../tree/chunk.ts';
import { ClassCodecs } from '../value/class-codec.ts';
import type { ValueLimits } from '../value/format.ts';
import { Decoder, type FindChunk } from './decode.ts';
import { DecodedParts } from './parts.ts';

/** Checks that states can be read, by reading them: whatever loading one refuses is refused. Instances are left to their codecs. */
export class StateCheck {
  readonly #parts = new DecodedParts();
  readonly #codecs = new ClassCodecs([], 'keep');
  readonly #limits: ValueLimits;

  constructor(limits: ValueLimits) {
    this.#limits = limits;
  }

  /** Throws what loading this state would throw. What it returns is to look at only: parts of it are used again. */
  read(root: ChunkContent, find: FindChunk): { readonly value: unknown; readonly sizeBytes: number } {
    this.#parts.turn();
    const options = { codecs: this.#codecs, limits: this.#limits, parts: this.#parts, isStrict: true };
    const decoder = new Decoder(find, options);
    return { value: decoder.decode(root), sizeBytes: decoder.budget.totals.bytes };
  }
}
