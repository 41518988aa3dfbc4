import type { ChunkStorage } from '../../../storage/contract.ts';

type Method = 'readCheckpoint' | 'listCheckpoints';

/** A storage around a storage that tells how often one of its methods was called: how far something is that tells nothing itself. */
export function countCalls(
  storage: ChunkStorage,
  method: Method,
  onCall: (count: number) => Promise<void>,
): ChunkStorage {
  let count = 0;
  return new Proxy(storage, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (name !== method) return value.bind(target);
      return async (...args: unknown[]): Promise<unknown> => {
        await onCall(++count);
        return Reflect.apply(value, target, args);
      };
    },
  });
}
