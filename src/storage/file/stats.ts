import type { StorageStats } from '../contract.ts';
import { mapBounded } from './bounded.ts';
import type { Store } from './store.ts';

const PARALLEL_READS = 16;

/** Counts what can be read of a store and sums up the sizes of its files. */
export async function measureStore(store: Store): Promise<StorageStats> {
  const { logs } = await store.sessions.survey();
  const rows = logs.flatMap((log) => [...log.rows.values()]);
  const tombstones = rows.filter((row) => row.isDeleted).length;
  let chunks = 0;
  let bytes = 0;
  for await (const digests of store.chunks.listAll()) {
    const found = await store.chunks.measure(digests);
    chunks += found.chunks;
    bytes += found.bytes;
  }
  for (const { folder } of logs) {
    const names = ((await store.fileSystem.readFolder(folder)) ?? []).map(({ name }) => `${folder}/${name}`);
    const sizes = await mapBounded(names, PARALLEL_READS, (path) => store.fileSystem.statSize(path));
    bytes += sizes.reduce((sum: number, size) => sum + (size ?? 0), 0);
  }
  return { checkpoints: rows.length - tombstones, tombstones, chunks, sessions: logs.length, bytes };
}
