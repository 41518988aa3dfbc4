import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { InvalidInputError, StorageError } from '../../core/errors.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { CheckpointManagerOptions } from '../../manager/manager-options.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { FileCheckpointStorage } from '../../storage/file/file-storage.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory-storage.ts';
import { SqliteCheckpointStorage } from '../../storage/sqlite/sqlite-storage.ts';
import type { CheckpointingSettings } from './config-schema.ts';
import type { Environment } from './environment-overrides.ts';

/** Where references in settings (`env:NAME`) are looked up. */
export type StorageSource = { readonly env?: Environment };

/** The storage that settings ask for, its folder made; undefined only if they say `enabled: false`. */
export async function createCheckpointStorage(
  settings: CheckpointingSettings,
  { env = {} }: StorageSource = {},
): Promise<ChunkStorage | undefined> {
  if (!settings.enabled) return undefined;
  const { storage_type: type, storage_path: path } = settings;
  switch (type) {
    case 'memory':
      return new InMemoryCheckpointStorage();
    case 'file':
      await makeFolder(path);
      return new FileCheckpointStorage({ path });
    case 'sqlite': {
      const file = /\.(db|sqlite3?)$/.test(path) ? path : join(path, 'checkpoints.db');
      await makeFolder(dirname(file));
      return new SqliteCheckpointStorage({ path: file });
    }
    case 'postgres':
      return openPostgres(settings, env);
  }
}

/** Opens the storage and a manager on it, and prunes what is older than `cleanup_after_days`: call it when the process starts. */
export async function openCheckpointManager(
  settings: CheckpointingSettings,
  {
    env = {},
    manager: options = {},
  }: StorageSource & { readonly manager?: Omit<CheckpointManagerOptions, 'storage'> } = {},
): Promise<CheckpointManager | undefined> {
  const storage = await createCheckpointStorage(settings, { env });
  if (storage === undefined) return undefined;
  const manager = new CheckpointManager({ ...options, storage });
  const { cleanup_after_days: maxAgeDays } = settings;
  if (maxAgeDays !== undefined) await manager.cleanupOldCheckpoints({ maxAgeDays });
  return manager;
}

/** The driver is loaded only by those who use it. */
async function openPostgres(settings: CheckpointingSettings, env: Environment): Promise<ChunkStorage> {
  const connectionString = resolveReference(settings.storage_url ?? '', env);
  const { PostgresCheckpointStorage } = await import('../../storage/postgres/postgres-storage.ts');
  const { storage_schema: schema, storage_tenant: tenant } = settings;
  return new PostgresCheckpointStorage({ connectionString, tenant, ...(schema !== undefined && { schema }) });
}

function resolveReference(text: string, env: Environment): string {
  const [, name] = /^env:(.+)$/.exec(text) ?? [];
  const value = name === undefined ? text : env[name];
  if (value !== undefined && value !== '') return value;
  throw new InvalidInputError(
    name === undefined
      ? 'storage_type postgres needs a storage_url.'
      : `storage_url refers to env:${name}, and ${name} is not set.`,
    { details: { key: 'storage_url' } },
  );
}

async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true });
  } catch (cause) {
    throw new StorageError(`The folder "${path}" for checkpoints cannot be made.`, { details: { path }, cause });
  }
}
