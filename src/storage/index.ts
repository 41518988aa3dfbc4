/** What one needs to write a byte-level storage. */

export { type Chunk, type ChunkContent, type Digest, formatChunk, parseChunk } from '../core/tree/chunk.ts';
export type {
  CheckpointQuery,
  CheckpointRow,
  CheckpointRowWithRoot,
  CheckpointWatcher,
  ChunkStorage,
  CollectResult,
  Commit,
  CommitResult,
  Deletion,
  EffectRow,
  NewCheckpoint,
  NewEffect,
  Ref,
  RefChange,
  RefKind,
  StorageStats,
  StorageWatch,
} from './contract.ts';
export { matchesQuery, selectRows } from './query.ts';
export { Reachable, readReachableByLevel } from './reachable.ts';
export { createRef } from './ref.ts';
export { checkExpectations, checkRequirement, moved, replaced, taken } from './refusal.ts';
