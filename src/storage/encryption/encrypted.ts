import { callback, checkOptions, checkValue, either, having, type OptionChecks } from '../../core/options.ts';
import type { ChunkStorage } from '../contract.ts';
import { EncryptedStorage } from './encrypted-storage.ts';
import type { Keyring } from './keyring.ts';
import type { Keys } from './keys.ts';

/** Which keys encrypt what. */
export type EncryptionOptions = {
  readonly keys: Keyring | Keys;
  /**
   * The name of the key for a session that is begun now, such as its user's: what may be forgotten together. Default: `main` for all.
   * It returns a string, always. A session keeps the key name it was begun with. Nothing is shared between key names, so that equal content is stored for each.
   */
  readonly keyFor?: ((sessionId: string) => string) | undefined;
};

/** What keys may be given as. */
export const keysOption = either('a Keyring, a KeyFile, or { read, add? }', having('read'), having('format', 'list'));

/** A keyring as a place where keys are kept. */
export const keysOf = (keys: Keyring | Keys): Keys => ('read' in keys ? keys : { read: async () => keys });

const OPTIONS: OptionChecks<EncryptionOptions> = {
  keys: { required: keysOption },
  keyFor: callback,
};

/**
 * Encrypts all that a storage is given: states, headers, effects and names, by AES-256-GCM. Ids of checkpoints, their lineage, times and
 * sizes stay in the clear. Use it in place of the storage; closing it closes the storage.
 */
export function encrypted(storage: ChunkStorage, options: EncryptionOptions): ChunkStorage {
  checkValue(storage, having('commit', 'readReachable', 'listSessions'), 'The storage of encrypted()');
  checkOptions(options, OPTIONS, 'encrypted()');
  const { keys, keyFor } = options;
  return new EncryptedStorage(storage, keysOf(keys), keyFor);
}
