import { readdirSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { InvalidInputError, messageOf, NotFoundError, StorageError } from '../../core/errors.ts';
import type { ChunkStorage } from '../contract.ts';
import { isFolder, makeFolder } from '../make-folder.ts';
import { formatStorageAddress, isEmptyFile, type StorageAddress, storageExists } from './address.ts';

/** The folder of a project's own storage. */
const OWN_FOLDER = '.savestate';

type OpenStorageOptions = {
  /** Makes what is not there yet (default). Looking at a storage must not make one: `false` is a NotFoundError then. */
  readonly create?: boolean;
  /** For a person who waits: few connections, and a server that does not answer is told of soon. */
  readonly isInteractive?: boolean;
  /** Where the person is: if there is no storage, the databases of this folder are offered. */
  readonly near?: string | undefined;
};

/** Opens the storage at an address. The driver of a database is loaded only if it is one. */
export async function openStorage(
  address: StorageAddress,
  { create = true, isInteractive = false, near }: OpenStorageOptions = {},
): Promise<ChunkStorage> {
  if (!create && !storageExists(address)) throw noStorage(address, near);
  switch (address.kind) {
    case 'memory': {
      const { InMemoryCheckpointStorage } = await import('../memory/memory-storage.ts');
      return new InMemoryCheckpointStorage();
    }
    case 'sqlite': {
      prepareFolder(dirname(address.path), address);
      const { SqliteCheckpointStorage } = await import('../sqlite/sqlite-storage.ts');
      return new SqliteCheckpointStorage({ path: address.path });
    }
    case 'file': {
      prepareFolder(address.path, address);
      const { FileCheckpointStorage } = await import('../file/file-storage.ts');
      return new FileCheckpointStorage({ path: address.path });
    }
    case 'postgres':
      return openPostgres(address, isInteractive);
  }
}

const INTERACTIVE = { maxConnections: 4, retryForMs: 5_000 };

async function openPostgres(
  { url: connectionString, tenant, schema }: Extract<StorageAddress, { kind: 'postgres' }>,
  isInteractive: boolean,
): Promise<ChunkStorage> {
  const { PostgresCheckpointStorage } = await import('../postgres/index.ts');
  return new PostgresCheckpointStorage({
    connectionString,
    tenant,
    ...(schema !== undefined && { schema }),
    ...(isInteractive && INTERACTIVE),
  });
}

type FileAddress = Extract<StorageAddress, { path: string }>;

function prepareFolder(folder: string, address: FileAddress): void {
  const { kind, path, isConfigured = basename(folder) === OWN_FOLDER } = address;
  const around = kind === 'file' ? dirname(folder) : folder;
  if (!isConfigured && !isFolder(around))
    throw new InvalidInputError(
      `The folder ${around} does not exist, or is a file, so ${path} cannot be made in it. Create it first, or choose another path.`,
      { details: { path: around } },
    );
  try {
    makeFolder(folder);
  } catch (cause) {
    const reason = messageOf(cause);
    throw new StorageError(`The folder ${folder} for checkpoints cannot be made: ${reason}. Choose another path.`, {
      details: { path: folder },
      cause,
    });
  }
}

const OFFERED = 3;

function noStorage(address: StorageAddress, near: string | undefined): NotFoundError {
  const shown = formatStorageAddress(address);
  const found = near === undefined ? [] : listDatabases(near);
  const more = found.length > OFFERED ? ` and ${found.length - OFFERED} more` : '';
  const offer = found.length === 0 ? '' : ` (here: ${found.slice(0, OFFERED).join(', ')}${more})`;
  const make = `savestate init --storage ${/^[\w@%+=:,./~-]+$/.test(shown) ? shown : JSON.stringify(shown)}`;
  const isEmpty = address.kind === 'sqlite' && isEmptyFile(address.path);
  return new NotFoundError(
    `${isEmpty ? `The file ${address.path} is empty: there is no storage in it` : `There is no storage at ${shown}`}. Name another with --storage${offer}, or make this one: ${make}`,
    {
      details: { kind: 'storage', storage: shown },
    },
  );
}

function listDatabases(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => /\.(db|sqlite3?)$/.test(name));
  } catch {
    return []; // a folder that may not be listed offers nothing
  }
}
