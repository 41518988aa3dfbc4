import { InvalidInputError, messageOf, SavestateError, UnsupportedError } from '../errors.ts';
import { describeValue } from '../options.ts';
import type { ReadFields } from './field-trace.ts';

/** How instances of one class are saved, registered in code by the caller. Data can name a tag, never a class or module. */
export type ClassCodec<Instance extends object = object> = {
  /** The name under which instances are stored; keep it when the class is renamed. */
  readonly tag: string;
  readonly class: abstract new (...args: never[]) => Instance;
  /**
   * Whether an instance of another class is one of this class all the same: made by a second copy of its package. Asked once per class.
   * Never true for a subclass, which would come back without what it adds.
   */
  recognises?(instance: object): boolean;
  /** The instance's data, made of values that can be saved. */
  encode(instance: Instance): unknown;
  /**
   * For classes with many instances: says that `encode` reads nothing but enumerable fields, so that it need not run while these hold
   * what they held. Fields named in `except` are not looked into: nothing may change what is in them.
   */
  readonly readsOnlyFields?: ReadFields;
  decode(data: unknown): Instance;
};

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
function foreignCodec(tag: string): ClassCodec<ForeignInstance> {
  return {
    tag,
    class: ForeignInstance,
    encode: ({ data }) => data,
    decode: (data) => new ForeignInstance(tag, data),
  };
}

/** What becomes of instances without a codec: an error, or a `ForeignInstance` that is written as it was read. */
export type UnknownClasses = 'refuse' | 'keep';

/** The class codecs of one manager, looked up by exact class when saving and by tag when restoring. */
export class ClassCodecs {
  readonly #byPrototype = new Map<object, ClassCodec>();
  readonly #byTag = new Map<string, ClassCodec>();
  /** What was found for classes that are registered under another copy, or not at all. */
  readonly #recognised = new WeakMap<object, ClassCodec | 'none'>();

  readonly #unknown: UnknownClasses;

  constructor(codecs: readonly ClassCodec[] = [], unknown: UnknownClasses = 'refuse') {
    this.#unknown = unknown;
    for (const codec of codecs) {
      if (this.#byTag.has(codec.tag)) throw new InvalidInputError(`Two class codecs have the tag "${codec.tag}".`);
      const prototype = codec.class.prototype as object;
      const other = this.#byPrototype.get(prototype);
      if (other !== undefined)
        throw new InvalidInputError(
          `The class ${codec.class.name} has two class codecs, "${other.tag}" and "${codec.tag}". Leave one out.`,
        );
      this.#byPrototype.set(prototype, codec);
      this.#byTag.set(codec.tag, codec);
    }
  }

  /** The codec of an instance, given with its prototype. */
  forInstance(instance: object, prototype: object): ClassCodec | undefined {
    const codec = this.#byPrototype.get(prototype);
    if (codec !== undefined) return codec;
    if (this.#unknown === 'keep' && instance instanceof ForeignInstance)
      return foreignCodec(instance.tag) as ClassCodec;
    return this.#recognise(instance, prototype);
  }

  /** What fields tell of an instance; undefined if they may not tell all. */
  readonly findReadFields = (instance: object, prototype: object): ReadFields | undefined =>
    this.forInstance(instance, prototype)?.readsOnlyFields;

  #recognise(instance: object, prototype: object): ClassCodec | undefined {
    const known = this.#recognised.get(prototype);
    if (known !== undefined) return known === 'none' ? undefined : known;
    const codec = [...this.#byTag.values()].find((candidate) => candidate.recognises?.(instance) === true);
    this.#recognised.set(prototype, codec ?? 'none');
    return codec;
  }

  decode(tag: string, data: unknown): object {
    const codec = this.#byTag.get(tag);
    if (codec === undefined && this.#unknown === 'keep') return new ForeignInstance(tag, data);
    if (codec === undefined) {
      throw new UnsupportedError(
        `The state holds an instance tagged "${tag}", and no class codec with that tag is registered. Pass it in the option classes of the manager; an adapter exports its own, such as langGraphClasses of savestate/langgraph.`,
        { details: { tag } },
      );
    }
    const made = runDecode(codec, data);
    if (made instanceof codec.class) return made;
    if (typeof made === 'object' && made !== null && codec.recognises?.(made) === true) return made;
    throw new InvalidInputError(
      `The class codec with the tag "${tag}" must decode to an instance of ${codec.class.name}; found ${describeValue(made)}.`,
      { details: { tag } },
    );
  }
}

function runDecode(codec: ClassCodec, data: unknown): unknown {
  try {
    return codec.decode(data);
  } catch (cause) {
    if (cause instanceof SavestateError) throw cause;
    const reason = messageOf(cause);
    throw new InvalidInputError(
      `The class codec "${codec.tag}" of ${codec.class.name || 'a class without a name'} threw in decode: ${reason}. The stored data is as it was saved; mend the codec.`,
      { details: { tag: codec.tag }, cause },
    );
  }
}
