import { CorruptError, KeyError } from '../../core/errors.ts';
import { isSealedName } from '../../core/record/sealed-name.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { type Address, formatAddress, openAddress } from '../place/address.ts';
import { findKeys, type KeySource } from '../place/key-source.ts';
import type { Surroundings } from '../place/project.ts';

/** How a storage is opened. One that is not encrypted although there are keys is refused, taken (`allow`), or made (`make`). */
export type OpenKeyedOptions = { readonly create?: boolean; readonly plain?: 'refuse' | 'allow' | 'make' };

/** Opens the storage at an address, through the keys that hold here if it is encrypted, or is to be. */
export async function openKeyed(
  place: Surroundings,
  address: Address,
  { create = true, plain = 'refuse' }: OpenKeyedOptions = {},
): Promise<ChunkStorage> {
  if (address.kind === 'remote') return openAddress(address, { create }); // the server has the keys
  const source = await findKeys(place);
  const storage = await openAddress(address, { create, near: place.folder });
  try {
    const kind = await kindOf(storage);
    checkKind(kind, { plain, hasKeys: source !== undefined, shown: formatAddress(address) });
    if (source === undefined || kind === 'plain' || plain === 'make') return storage;
    return await encrypt(storage, source.keys, place);
  } catch (error) {
    await storage.close();
    throw error;
  }
}

async function encrypt(
  storage: ChunkStorage,
  keys: KeySource['keys'],
  { config }: Surroundings,
): Promise<ChunkStorage> {
  const { encrypted } = await import('../../storage/encryption/encrypted.ts');
  const isPerSession = config?.config.encryption?.keyPer === 'session';
  return encrypted(storage, isPerSession ? { keys, keyFor: (sessionId) => sessionId } : { keys });
}

/** A damaged storage counts as plain: what is wrong with it is told by who reads it. */
async function kindOf(storage: ChunkStorage): Promise<'plain' | 'sealed' | 'empty'> {
  const [first] = await storage.listSessions({ limit: 1 }).catch(() => ['damaged']);
  if (first === undefined) return 'empty';
  return isSealedName(first) ? 'sealed' : 'plain';
}

type Wanted = Required<Pick<OpenKeyedOptions, 'plain'>> & { readonly hasKeys: boolean; readonly shown: string };

function checkKind(kind: 'plain' | 'sealed' | 'empty', { plain, hasKeys, shown }: Wanted): void {
  const details = { reason: 'missing', storage: shown };
  if (kind === 'sealed' && !hasKeys)
    throw new KeyError(
      `The storage ${shown} is encrypted. Say where its keys are: encryption.keys in savestate.yaml, SAVESTATE_KEY_FILE, SAVESTATE_KEYS or SAVESTATE_KEY_COMMAND.`,
      { details },
    );
  if (kind === 'sealed' && plain === 'make')
    throw new KeyError(`The storage ${shown} is encrypted, so that --to-plain needs another one.`, { details });
  if (kind === 'plain' && hasKeys && plain === 'refuse')
    throw new CorruptError(
      `The storage ${shown} is not encrypted, and there are keys for it. Encrypt it into a new one with "savestate copy --to <address>", or take the keys out of savestate.yaml and the environment.`,
      { details: { storage: shown } },
    );
}
