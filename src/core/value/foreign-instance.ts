import type { ClassCodec } from './class-codec.ts';

/** An instance of a class that only the program knows that saved it: its tag and its data. */
export class ForeignInstance {
  readonly tag: string;
  readonly data: unknown;

  constructor(tag: string, data: unknown) {
    this.tag = tag;
    this.data = data;
  }
}

/** Reads instances with this tag, and writes them again as they were. */
export function foreignCodec(tag: string): ClassCodec<ForeignInstance> {
  return {
    tag,
    class: ForeignInstance,
    encode: ({ data }) => data,
    decode: (data) => new ForeignInstance(tag, data),
  };
}
