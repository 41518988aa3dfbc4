import { createForeignCodec, unknownTagOf } from '../../core/record/foreign-class.ts';
import type { ClassCodec } from '../../core/value/class-codec.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../storage/contract.ts';

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
