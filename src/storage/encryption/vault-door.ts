import { hasErrorCode, SavestateError } from '../../core/errors.ts';
import type { ChunkStorage } from '../contract.ts';
import { findSession } from '../query.ts';
import { countKeyFileChanges } from './key-file.ts';
import { Keyring } from './keyring.ts';
import type { Keys } from './keys.ts';
import { Vault } from './vault.ts';

/** Keys are read again after so long: a process notices a new key, and stops using a removed one, within a minute. */
const READ_AGAIN_MS = 60_000;

/** Opens the vault with the keys as they are, and goes through it with every call. */
export class VaultDoor {
  readonly #keys: Keys;
  readonly #inner: ChunkStorage;
  /** Kept when the storage is known to be of these keys. */
  #meeting: Promise<void> | undefined;
  #vault: Promise<Vault> | undefined;
  #readAtMs = 0;
  /** How often key files of this process had changed when they were read. */
  #changes = 0;

  constructor(keys: Keys, inner: ChunkStorage) {
    this.#keys = keys;
    this.#inner = inner;
  }

  /** Runs a call. If it meets a key that is not known, it is run once more with the keys as they are then. Errors are in the caller's terms. */
  async through<Result>(work: (vault: Vault) => Promise<Result>): Promise<Result> {
    const vault = await this.#open();
    try {
      await this.#meet(vault);
      return await work(vault);
    } catch (error) {
      const fresh = isMissingKey(error) ? await this.#read(vault) : vault;
      if (fresh === vault) throw inTheClear(error, vault);
      await this.#meet(fresh);
      return await work(fresh);
    }
  }

  /** The same for what only reads: it is read once more if a key was removed meanwhile, so that nothing is served that was forgotten. */
  async reading<Result>(work: (vault: Vault) => Promise<Result>): Promise<Result> {
    const before = await this.#open();
    const result = await this.through(work);
    const after = await this.#open();
    return after !== before && after.hasRemovedOf(before) ? this.reading(work) : result;
  }

  /** The vault as it is now. */
  current(): Promise<Vault> {
    return this.#open();
  }

  /** Refuses a storage of other keys, or of none: its sessions would seem to be absent, and be begun anew. */
  #meet(vault: Vault): Promise<void> {
    const again = () => {
      this.#meeting = undefined;
    };
    this.#meeting ??= this.#isOwn(vault).then(
      (isOwn) => (isOwn ? undefined : again()),
      (error: unknown) => {
        again();
        throw error;
      },
    );
    return this.#meeting;
  }

  /** False if the storage is empty. */
  async #isOwn(vault: Vault): Promise<boolean> {
    const own = await findSession(this.#inner, vault.nameStart);
    if (own?.startsWith(vault.nameStart) === true) return true;
    const other = await findSession(this.#inner);
    if (other !== undefined) vault.openName(other);
    return false;
  }

  /** The vault after a key was added for a name; undefined if these keys cannot be added to. */
  async add(name: string): Promise<Vault | undefined> {
    if (this.#keys.add === undefined) return undefined;
    const vault = new Vault(Keyring.from(await this.#keys.add(name), 'What add() of the keys returns'));
    this.#vault = Promise.resolve(vault);
    return vault;
  }

  #open(): Promise<Vault> {
    const isRecent = performance.now() - this.#readAtMs < READ_AGAIN_MS && this.#changes === countKeyFileChanges();
    if (this.#vault !== undefined && isRecent) return this.#vault;
    const before = this.#vault;
    this.#readAtMs = performance.now();
    this.#changes = countKeyFileChanges();
    const opening = Promise.resolve(before).then((vault) => this.#read(vault));
    this.#vault = opening;
    opening.catch(() => {
      this.#vault = undefined; // the next call tries again
    });
    return opening;
  }

  /** The same vault if the keys did not change: it remembers names. */
  async #read(before: Vault | undefined): Promise<Vault> {
    const ring = Keyring.from(await this.#keys.read(), 'What read() of the keys returns');
    if (before !== undefined && isSame(before.ring, ring)) return before;
    const vault = new Vault(ring);
    this.#vault = Promise.resolve(vault);
    return vault;
  }
}

const isSame = (a: Keyring, b: Keyring): boolean => a === b || a.format() === b.format();

function isMissingKey(error: unknown): boolean {
  return hasErrorCode(error, 'KEY') && (error as SavestateError).details.reason === 'missing';
}

/** An error of the storage below with its names in the clear. */
function inTheClear(error: unknown, vault: Vault): unknown {
  if (!(error instanceof SavestateError)) return error;
  const message = vault.openText(error.message);
  const details = Object.fromEntries(
    Object.entries(error.details).map(([key, value]) => [
      key,
      typeof value === 'string' ? vault.openText(value) : value,
    ]),
  );
  if (message === error.message && JSON.stringify(details) === JSON.stringify(error.details)) return error;
  return Reflect.construct(error.constructor, [message, { details, cause: error.cause }]) as unknown;
}
