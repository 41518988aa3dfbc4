import { InvalidInputError, UnsupportedError } from './errors.ts';

/** How instances of one class are saved, registered in code by the caller. Data can name a tag, never a class or module. */
export type ClassCodec<Instance extends object = object> = {
  /** The name under which instances are stored; keep it when the class is renamed. */
  readonly tag: string;
  readonly class: abstract new (...args: never[]) => Instance;
  /** The instance's data, made of values that can be saved. */
  encode(instance: Instance): unknown;
  decode(data: unknown): Instance;
};

/** The class codecs of one manager, looked up by exact class when saving and by tag when restoring. */
export class ClassCodecs {
  readonly #byPrototype = new Map<object, ClassCodec>();
  readonly #byTag = new Map<string, ClassCodec>();

  constructor(codecs: readonly ClassCodec[] = []) {
    for (const codec of codecs) {
      if (this.#byTag.has(codec.tag)) throw new InvalidInputError(`Two class codecs have the tag "${codec.tag}".`);
      this.#byPrototype.set(codec.class.prototype as object, codec);
      this.#byTag.set(codec.tag, codec);
    }
  }

  forPrototype(prototype: object): ClassCodec | undefined {
    return this.#byPrototype.get(prototype);
  }

  decode(tag: string, data: unknown): object {
    const codec = this.#byTag.get(tag);
    if (codec === undefined) {
      throw new UnsupportedError(
        `The state holds an instance tagged "${tag}", and no class codec with that tag is registered.`,
        {
          details: { tag },
        },
      );
    }
    return codec.decode(data);
  }
}
