export type { MigrationOptions } from './database/migrate-postgres.ts';
export { migratePostgres } from './database/migrate-postgres.ts';
export type { PostgresStorageOptions } from './database/postgres-options.ts';
export { PostgresCheckpointStorage } from './postgres-storage.ts';
