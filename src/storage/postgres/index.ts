export { PostgresCheckpointStorage } from './postgres-storage.ts';
export { type MigrationOptions, migratePostgres } from './schema/migration.ts';
export type { PostgresStorageOptions } from './schema/postgres-connection.ts';
