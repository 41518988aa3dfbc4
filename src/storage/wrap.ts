import type { ChunkStorage } from './contract.ts';

/** A storage around a storage: some of its methods are these, all else is the storage's own. */
export function wrapStorage(storage: ChunkStorage, methods: Partial<ChunkStorage>): ChunkStorage {
  return new Proxy(storage, {
    get: (inner, key) => {
      const from = key in methods ? methods : inner;
      const value: unknown = Reflect.get(from, key, from);
      return typeof value === 'function' ? (value.bind(from) as unknown) : value;
    },
  });
}
