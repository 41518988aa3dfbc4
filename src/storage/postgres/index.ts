export type { MigrationOptions } from './migration.ts';
export { migratePostgres } from './migration.ts';
export type { PostgresStorageOptions } from './postgres-options.ts';
export { PostgresCheckpointStorage } from './postgres-storage.ts';
