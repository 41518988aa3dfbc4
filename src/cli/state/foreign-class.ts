import type { ClassCodec } from '../../core/class-codec.ts';
import { hasErrorCode, type SavestateError } from '../../core/errors.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../storage/contract.ts';

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

/**
 * A manager that reads states with classes it does not know: it learns their tags as it meets them, and tries again. What it
 * learned is in `classes`, for those who write such states.
 */
export function openTolerantManager(storage: ChunkStorage, classes: ClassCodec[]): CheckpointManager {
  let manager = new CheckpointManager({ storage });
  const retry = async (name: string | symbol, args: unknown[]): Promise<unknown> => {
    for (;;) {
      try {
        return await Reflect.apply(Reflect.get(manager, name) as (...given: unknown[]) => unknown, manager, args);
      } catch (error) {
        const tag = unknownTagOf(error);
        if (tag === undefined || classes.some((known) => known.tag === tag)) throw error;
        classes.push(createForeignCodec(tag));
        manager = new CheckpointManager({ storage, classes });
      }
    }
  };
  return new Proxy(manager, {
    get: (_, name) => (RETRIED.has(name) ? (...args: unknown[]) => retry(name, args) : bind(manager, name)),
  });
}

/** What reads or changes states, and may be done again. */
const RETRIED: ReadonlySet<string | symbol> = new Set(['load', 'compare', 'fork', 'rewind', 'exportCheckpoint']);

function bind(manager: CheckpointManager, name: string | symbol): unknown {
  const value: unknown = Reflect.get(manager, name, manager);
  return typeof value === 'function' ? value.bind(manager) : value;
}
