import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { NotFoundError, UnsupportedError } from '../../core/errors.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { formatStorageAddress, type StorageAddress, storageExists } from './storage-address.ts';

/** Opens a storage. Looking at one that does not exist must not make it, so that is a NotFoundError unless `create`. */
export async function openStorage(
  address: StorageAddress,
  { create = false }: { readonly create?: boolean } = {},
): Promise<ChunkStorage> {
  if (!create && !storageExists(address)) throw noStorage(address);
  switch (address.kind) {
    case 'sqlite': {
      mkdirSync(dirname(address.path), { recursive: true });
      const { SqliteCheckpointStorage } = await import('../../storage/sqlite/sqlite-storage.ts');
      return new SqliteCheckpointStorage({ path: address.path });
    }
    case 'file': {
      const { FileCheckpointStorage } = await import('../../storage/file/file-storage.ts');
      return new FileCheckpointStorage({ path: address.path });
    }
    case 'postgres':
      return openPostgres(address);
  }
}

async function openPostgres(address: Extract<StorageAddress, { kind: 'postgres' }>): Promise<ChunkStorage> {
  const { PostgresCheckpointStorage } = await import('../../storage/postgres/index.ts').catch((cause: unknown) => {
    throw new UnsupportedError('For PostgreSQL the package pg is needed. Install it: npm install pg', { cause });
  });
  const { url: connectionString, tenant, schema } = address;
  return new PostgresCheckpointStorage({
    connectionString,
    tenant,
    ...(schema !== undefined && { schema }),
    maxConnections: 4,
    retryForMs: RETRY_MS,
  });
}

/** A person waits: a server that does not answer is told sooner than to a program. */
const RETRY_MS = 5_000;

function noStorage(address: StorageAddress): NotFoundError {
  const shown = formatStorageAddress(address);
  return new NotFoundError(
    `There is no storage at ${shown}. Make one with "savestate init", or name another with --storage.`,
    { details: { kind: 'storage', storage: shown } },
  );
}
