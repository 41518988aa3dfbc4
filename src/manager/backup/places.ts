import { InvalidInputError } from '../../core/errors.ts';
import { checkValue, either, filledString, having } from '../../core/options.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { EncryptedStorage } from '../../storage/encryption/encrypted-storage.ts';
import { isSameStorage, parseStorageAddress } from '../../storage/open/address.ts';
import { openStorage } from '../../storage/open/open.ts';

/** A storage, or its address, as `open` takes it. */
export type StoragePlace = ChunkStorage | string;

const PLACE = either('a storage or an address', filledString, having('commit', 'readReachable', 'listSessions'));

/** Runs a function on two storages. Those that are given by their addresses are opened for it, and closed; the first must be there. */
export async function withStorages<Result>(
  call: string,
  { from, to }: { readonly from: StoragePlace; readonly to: StoragePlace },
  run: (from: ChunkStorage, to: ChunkStorage) => Promise<Result>,
): Promise<Result> {
  checkValue(from, PLACE, `The first argument of ${call}`);
  checkValue(to, PLACE, `The second argument of ${call}`);
  if (isSame(from, to)) throw new InvalidInputError('The two storages are the same one.');
  if (from instanceof EncryptedStorage && !(to instanceof EncryptedStorage))
    throw new InvalidInputError(
      `${call} would write what is encrypted in the clear. Pass the storage inside encrypted(): it is copied as it is, without keys.`,
    );
  const source = typeof from === 'string' ? await openPlace(from, false) : from;
  try {
    const target = typeof to === 'string' ? await openPlace(to, true) : to;
    try {
      return await run(source, target);
    } finally {
      if (target !== to) await target.close();
    }
  } finally {
    if (source !== from) await source.close();
  }
}

function isSame(from: StoragePlace, to: StoragePlace): boolean {
  return typeof from === 'string' && typeof to === 'string' ? isSameStorage(parse(from), parse(to)) : from === to;
}

function parse(address: string) {
  return parseStorageAddress(address, { folder: process.cwd() });
}

function openPlace(address: string, create: boolean): Promise<ChunkStorage> {
  return openStorage(parse(address), { create });
}
