export type { MemoryDifference } from './differences.ts';
export type { ChangeOptions, MemoryChange } from './editing.ts';
export type { Embedder } from './embedder.ts';
export { type EndpointEmbedderOptions, endpointEmbedder } from './endpoint-embedder.ts';
export type { MemoryExplanation, MemoryHistoryEntry, MemorySource } from './explaining.ts';
export { extractByRules, type RuleFinding } from './extract-by-rules.ts';
export type { ExtractedMemory, ExtractionRequest, MemoryExtractor, MemoryMessage } from './extractor.ts';
export type { FieldCondition, MemoryFilters } from './filters.ts';
export type { MemoryHit, SearchOptions, SearchResult, SelectOptions } from './finding.ts';
export type { AddedMemory, AddResult } from './learning.ts';
export type { SessionPlace } from './lineages.ts';
export { localEmbedder } from './local-embedder.ts';
export { Memory, type MemoryOptions, type MemoryRewindOptions } from './memory.ts';
export { stripMemoryBlocks } from './memory-block.ts';
export type { EventPlace, LineageSegment, MemoryEvent, MemoryOperation, NewMemoryEvent } from './memory-event.ts';
export type { MemoryInput } from './memory-input.ts';
export type { MemoryFields, MemoryKind, MemoryRecord, MemoryScope, MemoryTrust } from './memory-record.ts';
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
} from './memory-storage.ts';
export type { PostgresMemoryOptions } from './postgres/postgres-memory-connection.ts';
export { PostgresMemoryStorage } from './postgres/postgres-memory-storage.ts';
export type { AddOptions } from './proposal.ts';
export type { PurgeResult } from './purging.ts';
export type { RenderOptions, RenderResult } from './rendering.ts';
export { type SqliteMemoryOptions, SqliteMemoryStorage } from './sqlite/sqlite-memory-storage.ts';
export type { VectorStatus } from './vector-index.ts';
export type { TeacherOptions, ViewOptions } from './views.ts';
