export type { MemoryDifference } from './edit/differences.ts';
export type { ChangeOptions, MemoryChange } from './edit/editing.ts';
export type { MemoryExplanation, MemoryHistoryEntry, MemorySource } from './edit/explaining.ts';
export type { PurgeResult } from './edit/purging.ts';
export type { FieldCondition, MemoryFilters } from './find/filters.ts';
export type { MemoryHit, SearchOptions, SearchResult, SelectOptions } from './find/finding.ts';
export type { RenderOptions, RenderResult } from './find/rendering.ts';
export type { AddedMemory, AddResult } from './learn/learning.ts';
export type { AddOptions } from './learn/proposal.ts';
export type { Embedder } from './log/embedder.ts';
export { type EndpointEmbedderOptions, endpointEmbedder } from './log/endpoint-embedder.ts';
export { extractByRules, type RuleFinding } from './log/extract-by-rules.ts';
export type { ExtractedMemory, ExtractionRequest, MemoryExtractor, MemoryMessage } from './log/extractor.ts';
export type { SessionPlace } from './log/lineages.ts';
export { localEmbedder } from './log/local-embedder.ts';
export { stripMemoryBlocks } from './log/memory-block.ts';
export type { MemoryInput } from './log/memory-input.ts';
export type { VectorStatus } from './log/vector-index.ts';
export type { TeacherOptions, ViewOptions } from './log/views.ts';
export { Memory, type MemoryOptions, type MemoryRewindOptions } from './memory.ts';
export type {
  EventPlace,
  LineageSegment,
  MemoryEvent,
  MemoryOperation,
  NewMemoryEvent,
} from './storage/memory-event.ts';
export type { MemoryFields, MemoryKind, MemoryRecord, MemoryScope, MemoryTrust } from './storage/memory-record.ts';
export type {
  AppendResult,
  EventQuery,
  EventVector,
  Expectation,
  IndexedEvent,
  MemoryStorage,
  RelatedQuery,
  SeriesQuery,
  StoredVector,
  VectorQuery,
} from './storage/memory-storage.ts';
export { type PostgresMemoryOptions, PostgresMemoryStorage } from './storage/postgres/postgres-memory-storage.ts';
export { type SqliteMemoryOptions, SqliteMemoryStorage } from './storage/sqlite/sqlite-memory-storage.ts';
