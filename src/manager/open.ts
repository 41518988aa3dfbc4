import { InvalidInputError } from '../core/errors.ts';
import { parseStorageAddress } from '../storage/open/address.ts';
import { openStorage } from '../storage/open/open.ts';
import type { CheckpointManagerOptions } from './call-options.ts';
import { checkCall } from './call-options.ts';
import { CheckpointManager } from './checkpoint-manager.ts';

/**
 * Opens the storage at an address, and a manager on it: `agent.db` (SQLite), `./folder/` (files), `memory:`, or
 * `postgres://host/database?tenant=acme`. It is made if it is not there yet; the folder
 * around it is not, unless it is `.savestate`. Closing the manager closes the storage.
 */
export async function open(
  address: string,
  options: Omit<CheckpointManagerOptions, 'storage'> = {},
): Promise<CheckpointManager> {
  if (typeof address !== 'string' || address === '')
    throw new InvalidInputError(
      `open() needs an address, such as 'agent.db', './folder/', 'memory:' or 'postgres://host/database'; found ${address === '' ? 'an empty string' : typeof address}.`,
    );
  checkCall(options, 'open()');
  const storage = await openStorage(parseStorageAddress(address, { folder: process.cwd() }));
  try {
    return new CheckpointManager({ ...options, storage });
  } catch (error) {
    await storage.close();
    throw error;
  }
}
