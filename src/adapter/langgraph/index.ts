/** LangGraph.js: threads as sessions, long-term memory as a session. */

export type { PostgresSaverOptions } from './postgres-saver-database.ts';
export { openPostgresSaverDatabase } from './postgres-saver-database.ts';
export type { GraphStorageOptions, SavestateSaverOptions } from './saver-options.ts';
export { langGraphClasses } from './saver-options.ts';
export type { CheckpointSummary } from './savestate-saver.ts';
export { SavestateSaver } from './savestate-saver.ts';
export type { SavestateStoreOptions } from './savestate-store.ts';
export { SavestateStore } from './savestate-store.ts';
export type { SaverDatabaseOptions } from './sqlite-saver-database.ts';
export { openSqliteSaverDatabase } from './sqlite-saver-database.ts';
export type { StorePruneReport } from './store-history.ts';
export type { PruneStrategy } from './thread-admin.ts';
export type { ExportOptions } from './thread-export.ts';
export { exportThreads } from './thread-export.ts';
export type { ImportOptions } from './thread-import.ts';
export { importThreads } from './thread-import.ts';
export type { ThreadSource } from './thread-source.ts';
export type { TransferNote, TransferProgress, TransferReport } from './transfer-report.ts';
