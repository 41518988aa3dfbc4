export { PostgresCheckpointStorage } from './postgres-storage.ts';
export type { MigrationOptions } from './schema/migrate-postgres.ts';
export { migratePostgres } from './schema/migrate-postgres.ts';
export type { PostgresStorageOptions } from './schema/postgres-options.ts';
