import type { FindChunk } from '../codec/decode.ts';
import { type EncodedState, findIn, StateCodec } from '../codec/state-codec.ts';
import { hasErrorCode, type SavestateError } from '../errors.ts';
import type { ChunkContent } from '../tree/chunk.ts';
import type { ClassCodec } from '../value/class-codec.ts';
import type { ValueLimits } from '../value/format.ts';
import type { JsonValue } from '../value/json.ts';

/** An instance of a class that only the program knows that saved it: its tag and its data. */
export class ForeignInstance {
  readonly tag: string;
  readonly data: unknown;

  constructor(tag: string, data: unknown) {
    this.tag = tag;
    this.data = data;
  }
}

/** Lets instances with this tag be read, and written again as they were. */
export function createForeignCodec(tag: string): ClassCodec {
  // A class of its own, because codecs are found by class.
  const Foreign = class extends ForeignInstance {};
  return {
    tag,
    class: Foreign,
    encode: (instance) => (instance as ForeignInstance).data,
    decode: (data) => new Foreign(tag, data),
  };
}

/** The tag of a class without a codec, if that is what went wrong. */
export function unknownTagOf(error: unknown): string | undefined {
  if (!hasErrorCode(error, 'UNSUPPORTED')) return undefined;
  const { tag } = (error as SavestateError).details;
  return typeof tag === 'string' ? tag : undefined;
}

/** Reads states with classes it does not know, and writes them as they were. It learns the classes as it meets them. */
export class TolerantCodec {
  readonly #classes: ClassCodec[] = [];
  readonly #limits: Partial<ValueLimits>;
  #codec: StateCodec;

  constructor(limits: Partial<ValueLimits> = {}) {
    this.#limits = limits;
    this.#codec = new StateCodec({ limits });
  }

  decode(root: ChunkContent, find: FindChunk): unknown {
    for (;;) {
      try {
        return this.#codec.decode(root, find);
      } catch (error) {
        const tag = unknownTagOf(error);
        if (tag === undefined || this.#classes.some((known) => known.tag === tag)) throw error;
        this.#classes.push(createForeignCodec(tag));
        this.#codec = new StateCodec({ classes: this.#classes, limits: this.#limits });
      }
    }
  }

  decodeJson(json: JsonValue): unknown {
    return this.decode({ text: JSON.stringify(json), refs: [] }, findIn(new Map()));
  }

  encode(state: unknown): EncodedState {
    return this.#codec.encode(state);
  }
}
