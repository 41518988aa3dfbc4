/** LangGraph.js: threads as sessions, long-term memory as a session. */

export { langGraphClasses, type SavestateSaverOptions } from './codec/saver-options.ts';
export { SavestateSaver } from './saver/savestate-saver.ts';
export { SavestateStore, type SavestateStoreOptions } from './store/savestate-store.ts';
export { SavestateThreads } from './threads/savestate-threads.ts';
export { openPostgresSaverDatabase, type PostgresSaverOptions } from './transfer/postgres-saver-database.ts';
export type { SaverDatabaseOptions } from './transfer/saver-database.ts';
export { openSqliteSaverDatabase } from './transfer/sqlite-saver-database.ts';
export { type ExportOptions, exportThreads } from './transfer/thread-export.ts';
export { type ImportOptions, importThreads } from './transfer/thread-import.ts';
export type { ThreadSource } from './transfer/thread-source.ts';
export type { TransferReport } from './transfer/thread-transfer.ts';
