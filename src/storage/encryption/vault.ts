import { CorruptError, KeyError } from '../../core/errors.ts';
import { isCheckpointId } from '../../core/record/id.ts';
import { NAME_START, SEALED_NAMES } from '../../core/record/sealed-name.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import { DigestCipher, KeyedHash, NameSealer, Sealer } from './cipher.ts';
import { KEY_ID, type Keyring, type NamedKeys } from './keyring.ts';
import { Recent } from './recent.ts';

const MAX_RECENT = 10_000;
const BLIND_BYTES = 16;
const KEYRING_ID = /^[0-9a-f]{8}$/;

/** What the keys of one name do: seal texts, and name chunks. */
export class Lock {
  readonly name: string;
  /** Names of chunks: equal chunks of one name have one name. */
  readonly chunks: DigestCipher;
  readonly #newest: { readonly id: string; readonly sealer: Sealer };

  constructor(name: string, digests: string, newest: { readonly id: string; readonly sealer: Sealer }) {
    this.name = name;
    this.chunks = new DigestCipher(digests, 'chunks');
    this.#newest = newest;
  }

  /** The newest key. */
  get keyId(): string {
    return this.#newest.id;
  }

  /** By the newest key. */
  seal(text: string, place: string): string {
    return `${this.#newest.id}.${this.#newest.sealer.seal(text, place)}`;
  }
}

type HeldKey = { readonly sealer: Sealer; readonly lock: string };

/** A keyring at work. */
export class Vault {
  readonly ring: Keyring;
  /** Digests of records and effects. */
  readonly digests: DigestCipher;
  readonly #id: string;
  readonly #keys = new Map<string, HeldKey>();
  readonly #removed = new Map<string, string>();
  readonly #locks = new Map<string, Lock>();
  readonly #names: NameSealer;
  readonly #hash: KeyedHash;
  readonly #tombstones: Sealer;
  readonly #sealedNames = new Recent<string, string>(MAX_RECENT);
  readonly #openNames = new Recent<string, string>(MAX_RECENT);
  readonly #blinds = new Recent<string, string>(MAX_RECENT);

  constructor(ring: Keyring) {
    this.ring = ring;
    const { names, entries } = ring.content;
    this.digests = new DigestCipher(names, 'digests');
    this.#names = new NameSealer(names);
    this.#hash = new KeyedHash(names, 'fields');
    this.#tombstones = new Sealer(names, 'tombstones');
    this.#id = this.#hash.digest('id').toString('hex').slice(0, 8);
    for (const entry of entries) this.#hold(entry);
  }

  #hold({ name, digests, keys }: NamedKeys): void {
    for (const { id, secret, removed } of keys) {
      if (secret === undefined) this.#removed.set(id, removed ?? '');
      else this.#keys.set(id, { sealer: new Sealer(secret, 'texts'), lock: name });
    }
    const newest = keys.findLast(({ secret }) => secret !== undefined);
    const held = newest === undefined ? undefined : this.#keys.get(newest.id);
    if (newest === undefined || held === undefined || digests === undefined) return;
    this.#locks.set(name, new Lock(name, digests, { id: newest.id, sealer: held.sealer }));
  }

  /** Whether this vault has no secret any more of a key that another one uses. */
  hasRemovedOf(other: Vault): boolean {
    for (const id of other.#keys.keys()) if (this.#removed.has(id)) return true;
    return false;
  }

  /** Refuses what was sealed by a lock whose key was removed since. */
  checkKept({ keyId }: Lock, what: string): void {
    const removed = this.#removed.get(keyId);
    if (removed !== undefined) throw removedKey(keyId, removed, what);
  }

  /** Whether a key of this name was removed. */
  hasForgotten(name: string): boolean {
    const entry = this.ring.content.entries.find((each) => each.name === name);
    return entry?.keys.some(({ removed }) => removed !== undefined) === true;
  }

  lock(name: string): Lock | undefined {
    return this.#locks.get(name);
  }

  get locks(): Lock[] {
    return [...this.#locks.values()];
  }

  /** The one lock that everything is under; undefined if there are or were several. */
  get onlyLock(): Lock | undefined {
    return this.#locks.size === 1 && this.ring.content.entries.length === 1 ? this.locks[0] : undefined;
  }

  /** Whether the secret of the key that sealed a text was thrown away. */
  isRemoved(sealed: string): boolean {
    return this.#removed.has(keyIdOf(sealed));
  }

  /** The lock of the key that sealed a text. */
  lockOf(sealed: string, what: string): Lock {
    const { lock } = this.#find(sealed, what);
    return this.#locks.get(lock) as Lock;
  }

  /** Reads what a lock sealed. `what` names it in errors. */
  open(sealed: string, place: string, what: string): string {
    const { sealer } = this.#find(sealed, what);
    return checkOpened(sealer.open(contentOf(sealed), place), what);
  }

  #find(sealed: string, what: string): HeldKey {
    const id = keyIdOf(sealed);
    if (!KEY_ID.test(id)) throw notSealed(what);
    const held = this.#keys.get(id);
    if (held !== undefined) return held;
    const removed = this.#removed.get(id);
    if (removed === undefined) throw missingKey(id, what);
    throw removedKey(id, removed, what);
  }

  /** Tombstones hold no content, and can be made and read without the key of what they replace. */
  sealTombstone(text: string, place: string): string {
    return `${this.#id}.${this.#tombstones.seal(text, place)}`;
  }

  openTombstone(sealed: string, place: string, what: string): string {
    const id = keyIdOf(sealed);
    if (!KEYRING_ID.test(id)) throw notSealed(what); // such as what is marked as deleted and is not
    if (id !== this.#id) throw missingKey(id, what);
    return checkOpened(this.#tombstones.open(contentOf(sealed), place), what);
  }

  /** What names sealed by this keyring start with. */
  get nameStart(): string {
    return `${NAME_START}${this.#id}.`;
  }

  /** A name that gives nothing away and can be looked up. */
  sealName(name: string): string {
    if (isCheckpointId(name)) return name; // storages look at these, and they say nothing that the rows do not
    return this.#sealedNames.get(name, () => `${this.nameStart}${this.#names.seal(name)}`);
  }

  openName(sealed: string): string {
    if (isCheckpointId(sealed)) return sealed;
    if (!sealed.startsWith(NAME_START)) throw notSealed(`The name ${JSON.stringify(sealed)}`);
    const [id = '', text = ''] = sealed.slice(NAME_START.length).split('.');
    if (id !== this.#id) throw missingKey(id, 'A name');
    return this.#openNames.get(sealed, () => checkOpened(this.#names.open(text), 'A name'));
  }

  /** A message of the storage below, with its names in the clear. One that is damaged, as the message may say, stays as it is. */
  openText(text: string): string {
    return text.replace(SEALED_NAMES, (name) => {
      try {
        return this.openName(name);
      } catch {
        return name;
      }
    });
  }

  /** What a field is looked up by. It cannot be undone. */
  blind(field: string, value: string): string {
    const key = `${field}\n${value}`;
    return this.#blinds.get(key, () => this.#hash.digest(key).toString('base64url', 0, BLIND_BYTES));
  }

  hideDigest(digest: Digest): Digest {
    return this.digests.hide([digest])[0] as Digest;
  }

  revealDigest(hidden: Digest): Digest {
    return this.digests.reveal([hidden])[0] as Digest;
  }
}

function keyIdOf(sealed: string): string {
  return sealed.slice(0, Math.max(0, sealed.indexOf('.')));
}

/** A sealed text is the id of its key, what it holds, and, of a chunk, a check for who has no key. */
function contentOf(sealed: string): string {
  return sealed.split('.', 2)[1] ?? '';
}

function checkOpened(text: string | undefined, what: string): string {
  if (text !== undefined) return text;
  throw new CorruptError(
    `${what} is damaged: its encrypted content was changed, cut off, or belongs elsewhere. Run verify to see what it affects.`,
  );
}

function notSealed(what: string): CorruptError {
  return new CorruptError(
    `${what} is not encrypted, and was not written through these keys. Copy a plain storage into a new, encrypted one.`,
  );
}

function removedKey(keyId: string, removedAt: string, what: string): KeyError {
  return new KeyError(`${what} cannot be read any more: its key ${keyId} was removed on ${removedAt.slice(0, 10)}.`, {
    details: { reason: 'removed', keyId, removedAt },
  });
}

function missingKey(keyId: string, what: string): KeyError {
  return new KeyError(
    `${what} was written with the key ${keyId}, which is not among the keys here. Use the right keys.`,
    {
      details: { reason: 'missing', keyId },
    },
  );
}
