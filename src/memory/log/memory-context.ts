import type { StateCodec } from '../../core/codec/state-codec.ts';
import type { MemoryStorage } from '../storage/memory-storage.ts';
import type { MemoryExtractor } from './extractor.ts';
import type { ScopeLogs } from './scope-log.ts';
import type { VectorIndex } from './vector-index.ts';
import type { Views } from './views.ts';

/** What the parts of one memory share. */
export type MemoryContext = {
  readonly storage: MemoryStorage;
  readonly views: Views;
  readonly logs: ScopeLogs;
  readonly vectors: VectorIndex;
  readonly extractor: MemoryExtractor | undefined;
  /** Leaves secrets out of whatever is stored. */
  readonly codec: StateCodec;
  readonly now: () => number;
  readonly newId: () => string;
};
