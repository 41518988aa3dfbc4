/** What one needs to write a byte-level storage. */

export type { Chunk, ChunkContent, Digest } from '../core/tree/chunk.ts';
export { formatChunk, parseChunk } from '../core/tree/chunk.ts';
export type * from './contract.ts';
export { matchesQuery, selectRows } from './query.ts';
export { Reachable, readReachableByLevel } from './reachable.ts';
export { createRef } from './ref.ts';
export { checkExpectations, gone, moved, taken } from './refusal.ts';
