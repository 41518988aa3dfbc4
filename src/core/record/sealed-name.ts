import { KeyError } from '../errors.ts';

/** Marks a sealed name; what follows is the keyring's id and the sealed text. */
export const NAME_START = 'sealed.';

const FORM = `sealed\\.[0-9a-f]{8}\\.[\\w-]+`;

/** Finds sealed names in a text. */
export const SEALED_NAMES: RegExp = new RegExp(FORM, 'g');

const WHOLE = new RegExp(`^${FORM}$`);

/** Whether a name was sealed: what goes by it can be read with its keys alone. */
export function isSealedName(name: string): boolean {
  return WHOLE.test(name);
}

/** Says that a storage was opened without its keys. */
export function encryptedError(): KeyError {
  return new KeyError('This storage is encrypted. Open it with its keys: encrypted(storage, { keys }).', {
    details: { reason: 'missing' },
  });
}
