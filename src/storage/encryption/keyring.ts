import { Buffer } from 'node:buffer';
import { hkdfSync, randomBytes } from 'node:crypto';
import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { checkValue, describeValue, having, string } from '../../core/options.ts';

/** The name of the key that protects every session, unless `keyFor` says otherwise. */
export const MAIN_KEY = 'main';

const FORMAT = 'savestate-keys/1';
const SECRET_BYTES = 32;
const MAX_KEY_NAME_CHARS = 512;
export const KEY_ID = /^k_[0-9a-f]{16}$/;

/** One key as it may be shown. A name's newest key encrypts what is written; the others only read. */
export type KeyInfo = {
  readonly id: string;
  readonly name: string;
  readonly createdAt: Date;
  readonly isNewest: boolean;
  /** When its secret was thrown away. What it protected cannot be read again. */
  readonly removedAt?: Date;
};

/** A key of a name. Without a secret it was removed, and only its id is remembered. */
export type StoredKey = {
  readonly id: string;
  readonly secret?: string;
  readonly created: string;
  readonly removed?: string;
};

/** The keys of a name, oldest first, and the secret that its chunks are named by. */
export type NamedKeys = { readonly name: string; readonly digests?: string; readonly keys: readonly StoredKey[] };

/** The same as it is stored: versions before 0.2.0 did not check names. */
type StoredEntry = Omit<NamedKeys, 'name'> & { readonly name: unknown };
type StoredContent = Omit<Content, 'entries'> & { readonly entries: readonly StoredEntry[] };

type Content = { readonly format: typeof FORMAT; readonly names: string; readonly entries: readonly NamedKeys[] };

/**
 * The keys of one storage. It never changes: `add` and `remove` return another one. `format()` is the text to keep, apart from the
 * storage and its backups; whoever has it can read everything.
 */
export class Keyring {
  /** @internal */
  readonly content: Content;

  private constructor(content: Content) {
    this.content = content;
  }

  /** A new keyring with one key, named `main`. */
  static create(): Keyring {
    return new Keyring({ format: FORMAT, names: newSecret(), entries: [] }).add(MAIN_KEY);
  }

  /** Reads what `format()` wrote. Errors never show what was read. */
  static parse(text: string): Keyring {
    const content = parseJson(text);
    if (!isContent(content))
      throw new InvalidInputError(
        'These are no keys: expected the text that "savestate key add" or Keyring.format() wrote. It was not shown, because it may hold a secret.',
      );
    const names = new Set<string>();
    for (const { name } of content.entries) {
      if (typeof name === 'string' && names.has(name))
        throw new InvalidInputError(
          `These keys have two entries named ${JSON.stringify(name)}, of which only one would be used. Put the keys of a name into one entry, oldest first.`,
        );
      if (typeof name === 'string') names.add(name);
    }
    return new Keyring({ ...content, entries: content.entries.map((entry) => withTextName(entry, names)) });
  }

  /** @internal A keyring that a caller gave or returned, also one of another copy of this package. It is never shown: it may hold secrets. */
  static from(value: unknown, what: string): Keyring {
    if (value instanceof Keyring) return value;
    if (isKeyringLike(value)) return Keyring.parse(value.format());
    const found = typeof value === 'string' ? 'a string, of which Keyring.parse() makes one' : describeValue(value);
    throw new InvalidInputError(`${what} must be a Keyring; found ${found}.`);
  }

  format(): string {
    return `${JSON.stringify(this.content, undefined, 2)}\n`;
  }

  /** Every key, also removed ones, oldest first by name. */
  list(): KeyInfo[] {
    return this.content.entries.flatMap(({ name, keys }) =>
      keys.map(({ id, created, removed }, at) => ({
        id,
        name,
        createdAt: new Date(created),
        isNewest: at === keys.length - 1 && removed === undefined,
        ...(removed !== undefined && { removedAt: new Date(removed) }),
      })),
    );
  }

  /** With a new key for a name: the first one, or, which is rotation, the newest. */
  add(name: string = MAIN_KEY): Keyring {
    checkKeyName(name, 'The name of a key');
    const secret = newSecret();
    const key: StoredKey = { id: idOf(secret), secret, created: new Date().toISOString() };
    const { entries } = this.content;
    const found = entries.find((entry) => entry.name === name);
    const grown = { name, digests: found?.digests ?? newSecret(), keys: [...(found?.keys ?? []), key] };
    return this.#with(
      found === undefined ? [...entries, grown] : entries.map((entry) => (entry === found ? grown : entry)),
    );
  }

  /** Without the secret of a key, by its id, or of all keys of a name. What they protected is gone, wherever copies of it are. */
  remove(idOrName: string): Keyring {
    checkValue(idOrName, string, 'The id or name of a key');
    const doomed = new Set(
      this.list().flatMap((key) =>
        key.removedAt === undefined && (key.id === idOrName || key.name === idOrName) ? [key.id] : [],
      ),
    );
    if (doomed.size === 0) throw new NotFoundError(`There is no key "${idOrName}" that could be removed.`);
    const removed = new Date().toISOString();
    return this.#with(
      this.content.entries.map(({ name, digests, keys }) => {
        const left = keys.map(({ id, secret, ...rest }) =>
          doomed.has(id) ? { id, ...rest, removed } : { id, ...(secret !== undefined && { secret }), ...rest },
        );
        const isForgotten = left.every((key) => key.removed !== undefined);
        return { name, ...(!isForgotten && digests !== undefined && { digests }), keys: left };
      }),
    );
  }

  #with(entries: readonly NamedKeys[]): Keyring {
    return new Keyring({ ...this.content, entries });
  }

  /** Without any secret: a keyring that is printed by accident says nothing. */
  toJSON(): unknown {
    return { keys: this.list() };
  }

  /** The same for `console.log`. */
  [Symbol.for('nodejs.util.inspect.custom')](): unknown {
    return this.toJSON();
  }
}

/** Refuses what could not be written and read back as the name of a key. A number is none: 7 and "7" would be two names. */
export function checkKeyName(name: string, what: string): void {
  checkValue(name, string, what);
  if (name === '' || name.length > MAX_KEY_NAME_CHARS)
    throw new InvalidInputError(`${what} has 1 to ${MAX_KEY_NAME_CHARS} characters; found ${name.length}.`);
  if (KEY_ID.test(name))
    // who removes the one would remove the other
    throw new InvalidInputError(`${what} is not written as the id of a key is; found ${name}.`);
}

const newSecret = (): string => randomBytes(SECRET_BYTES).toString('base64');

/** Ids follow from secrets, so that no two keys can be taken for each other. */
function idOf(secret: string): string {
  return `k_${Buffer.from(deriveKey(secret, 'id')).toString('hex').slice(0, 16)}`;
}

/** A key for one purpose, which tells nothing about others. */
export function deriveKey(secret: string, purpose: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', Buffer.from(secret, 'base64'), '', `savestate ${purpose}`, SECRET_BYTES));
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // without the cause, which quotes the text
  }
}

/** Older versions wrote names that are no strings. They read what they sealed, by the ids of their keys, under a name of their own. */
function withTextName(entry: StoredEntry, taken: Set<string>): NamedKeys {
  if (typeof entry.name === 'string') return { ...entry, name: entry.name };
  let name = JSON.stringify(entry.name);
  while (taken.has(name)) name = `(${name})`;
  taken.add(name);
  return { ...entry, name };
}

function isContent(value: unknown): value is StoredContent {
  const { format, names, entries } = (value ?? {}) as Partial<Content>;
  return format === FORMAT && isSecret(names) && Array.isArray(entries) && entries.every(isEntry);
}

function isEntry(value: unknown): value is StoredEntry {
  const { name, digests, keys } = (value ?? {}) as Partial<NamedKeys>;
  if (name === undefined || !Array.isArray(keys) || !keys.every(isKey)) return false;
  return digests === undefined ? keys.every(({ secret }) => secret === undefined) : isSecret(digests);
}

/** What `from` asks of a keyring of another copy of this package. */
const keyringMethods = having('format', 'list');

function isKeyringLike(value: unknown): value is Pick<Keyring, 'format'> {
  return keyringMethods(value) === undefined;
}

function isKey(value: unknown): value is StoredKey {
  const { id, secret, created, removed } = (value ?? {}) as Partial<StoredKey>;
  if (typeof created !== 'string' || typeof id !== 'string') return false;
  return secret === undefined ? typeof removed === 'string' : isSecret(secret) && id === idOf(secret);
}

function isSecret(value: unknown): value is string {
  return typeof value === 'string' && Buffer.from(value, 'base64').length === SECRET_BYTES;
}
