import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { InvalidInputError, KeyError, messageOf, NotFoundError, StorageError } from '../../core/errors.ts';
import { checkValue, filledString } from '../../core/options.ts';
import { isProcessAlive, MACHINE, PROCESS_ID } from '../process-identity.ts';
import { Keyring } from './keyring.ts';
import type { Keys } from './keys.ts';

const OWNER_ONLY = 0o600;
const OTHERS = 0o077;
const TRIES = 100;
const TRY_AGAIN_MS = 50;
const EMPTY_MS = 1000;
/** Who holds a lock, so that others see when that one died. */
const OWN_LOCK = `${MACHINE} ${PROCESS_ID}`;

let changes = 0;

/** How often `update` changed a key file in this process: what goes by keys reads them again when it did. A first key of a name is met. */
export const countKeyFileChanges = (): number => changes;

/** Keys in a file that only its owner may read. Keep it, and its backups, apart from the storage. */
export class KeyFile implements Keys {
  readonly path: string;
  #last: { readonly stamp: string; readonly ring: Keyring } | undefined;

  constructor(path: string) {
    checkValue(path, filledString, 'The path of KeyFile');
    this.path = path;
  }

  async read(): Promise<Keyring> {
    const { path } = this;
    const found = statSync(path, { throwIfNoEntry: false });
    if (found === undefined)
      throw new NotFoundError(
        `There is no key file ${path}. Make one with "savestate key add", or bring the right one.`,
        {
          details: { path },
        },
      );
    if (!found.isFile()) throw new InvalidInputError(`The key file ${path} is no file.`, { details: { path } });
    if (process.platform !== 'win32' && (found.mode & OTHERS) !== 0)
      throw new KeyError(`Others may read the key file ${path}. Make it yours alone: chmod 600 ${path}`, {
        details: { reason: 'exposed', path },
      });
    const stamp = stampOf(found);
    if (this.#last?.stamp !== stamp) this.#last = { stamp, ring: Keyring.parse(readFileSync(path, 'utf8')) };
    return this.#last.ring;
  }

  /** Adds a key for a name, unless another process did so just now. */
  async add(name: string): Promise<Keyring> {
    return this.#change((ring) => {
      const isThere = ring.list().some((key) => key.name === name && key.isNewest);
      return isThere ? ring : ring.add(name);
    });
  }

  /**
   * Changes the file for good, one process at a time. From when it resolves on, this process goes by the new keys; what uses a removed key
   * at that moment is refused. Others notice within a minute.
   */
  async update(change: (ring: Keyring) => Keyring): Promise<Keyring> {
    const ring = await this.#change(change);
    changes++;
    return ring;
  }

  async #change(change: (ring: Keyring) => Keyring): Promise<Keyring> {
    const unlock = await this.#lock();
    try {
      const before = await this.read();
      const ring = Keyring.from(change(before), 'What the function given to KeyFile.update() returns');
      if (ring.content.names !== before.content.names)
        throw new InvalidInputError(
          'KeyFile.update() would replace the keyring by another one, and nothing could be read any more. Return what add() or remove() of the given one returns.',
        );
      this.#write(ring);
      return ring;
    } finally {
      unlock();
    }
  }

  /** Makes the file with its first key, and says whether it did: a file that is there stays. */
  async create(): Promise<boolean> {
    if (existsSync(this.path)) return false;
    const unlock = await this.#lock();
    try {
      if (existsSync(this.path)) return false;
      this.#write(Keyring.create());
      return true;
    } finally {
      unlock();
    }
  }

  /** The new content is whole and on the disk before it takes the place of the old. */
  #write(ring: Keyring): void {
    const path = this.#realPath();
    const draft = `${path}.new`;
    const text = ring.format();
    Keyring.parse(text); // what could not be read again would lock everybody out
    try {
      rmSync(draft, { force: true }); // of a process that died
      const stamp = writeDraft(draft, text);
      renameSync(draft, path);
      this.#last = { stamp, ring };
      if (process.platform !== 'win32') withFile(dirname(path), 'r', fsyncSync);
    } catch (cause) {
      if (statSync(draft, { throwIfNoEntry: false })?.isFile() === true) rmSync(draft, { force: true }); // it holds secrets
      throw new StorageError(`The key file ${this.path} cannot be written: ${messageOf(cause)}.`, {
        cause,
        details: { path },
      });
    }
  }

  /** Behind links: what is removed must be gone from the file that held it. */
  #realPath(): string {
    return existsSync(this.path) ? realpathSync(this.path) : this.path;
  }

  async #lock(): Promise<() => void> {
    const lock = `${this.#realPath()}.lock`;
    for (let n = 0; n < TRIES; n++) {
      if (isMade(lock)) return () => rmSync(lock, { force: true });
      if (!clearDead(lock)) await pause(TRY_AGAIN_MS);
    }
    throw new StorageError(
      `Another process is changing ${this.path}. If none is, one died: delete ${lock} and retry.`,
      {
        details: { path: lock },
      },
    );
  }
}

/** Makes a lock that names its holder from its first moment: a process may be killed between any two lines. */
function isMade(lock: string): boolean {
  const draft = `${lock}.${PROCESS_ID}`;
  try {
    withFile(draft, 'w', (file) => writeSync(file, OWN_LOCK));
    linkSync(draft, lock);
    return true;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw new StorageError(`The key file cannot be changed: ${messageOf(cause)}.`, { cause });
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Removes the lock of a process of this machine that died; of several who try, one does. Returns whether to look again at once. */
function clearDead(lock: string): boolean {
  if (!isDead(lock)) return false;
  const turn = `${lock}.dead`;
  if (!isMade(turn)) return clearDead(turn);
  try {
    if (isDead(lock)) rmSync(lock, { force: true }); // still: only who has the turn removes it
    return true;
  } finally {
    rmSync(turn, { force: true });
  }
}

/** Whether who made a lock died. An empty one is of an older version that was killed while it made it. */
function isDead(lock: string): boolean {
  try {
    const { size, mtimeMs } = statSync(lock);
    if (size === 0) return Date.now() - mtimeMs > EMPTY_MS;
    const [machine, holder = ''] = readFileSync(lock, 'utf8').split(' ');
    return machine === MACHINE && !isProcessAlive(holder);
  } catch {
    return false; // it was removed meanwhile
  }
}

const stampOf = ({ mtimeMs, ino, size }: Stats): string => `${mtimeMs} ${ino} ${size}`;

/** Returns its stamp, which it keeps when it is renamed. */
function writeDraft(path: string, text: string): string {
  let stamp = '';
  withFile(path, 'wx', (file) => {
    writeFileSync(file, text);
    fsyncSync(file);
    stamp = stampOf(fstatSync(file));
  });
  return stamp;
}

function withFile(path: string, flags: string, work: (file: number) => void): void {
  const file = openSync(path, flags, OWNER_ONLY);
  try {
    work(file);
  } finally {
    closeSync(file);
  }
}
