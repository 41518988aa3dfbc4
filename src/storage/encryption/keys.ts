import type { Keyring } from './keyring.ts';

/** Where keys are kept. `KeyFile` is one; a key management service can be another. */
export interface Keys {
  /** The keys as they are now. Asked again when something was written with a key that is not among them. */
  read(): Promise<Keyring>;
  /** Adds the first key of a name, for all who use these keys. Without it, such a key has to be added beforehand. */
  add?(name: string): Promise<Keyring>;
}
