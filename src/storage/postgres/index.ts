export type { MigrationOptions } from './migrate-postgres.ts';
export { migratePostgres } from './migrate-postgres.ts';
export type { PostgresStorageOptions } from './postgres-options.ts';
export { PostgresCheckpointStorage } from './postgres-storage.ts';
