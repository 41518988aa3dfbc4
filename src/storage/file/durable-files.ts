import { randomUUID } from 'node:crypto';
import { StorageError, UNSYNCED } from '../../core/errors.ts';
import { mapBounded } from '../../core/time/bounded.ts';
import { type FileSystem, hasFileCode } from './file-system.ts';

const PARALLEL_CHECKS = 16;
const OWNED_NAME = /^(temp|writer|exclusive)-(\d+-\d+)-[0-9a-f]{16}$/;

/** A name that tells which process made it, so that others may clear it away when that process is dead. */
export function ownedName(kind: 'temp' | 'writer' | 'exclusive', processId: string): string {
  return `${kind}-${processId}-${randomUUID().replaceAll('-', '').slice(0, 16)}`;
}

/** Reads an owned name back; `undefined` if it is none. */
export function parseOwnedName(name: string): { readonly kind: string; readonly processId: string } | undefined {
  const [, kind, processId] = OWNED_NAME.exec(name) ?? [];
  return kind === undefined || processId === undefined ? undefined : { kind, processId };
}

/**
 * The writing side of a store: temporary files that are durable before they get their name, and folder syncs.
 * After a failed sync nobody knows what reached the disk, and asking again may answer "all is well" for pages that were
 * dropped; so from then on nothing more is written or acknowledged until the storage is opened anew.
 */
export class DurableFiles {
  readonly fileSystem: FileSystem;
  readonly #tempFolder: string;
  #failure: unknown;

  constructor(fileSystem: FileSystem, tempFolder: string) {
    this.fileSystem = fileSystem;
    this.#tempFolder = tempFolder;
  }

  /** Throws a StorageError after a failed sync. */
  checkWritable(): void {
    if (this.#failure === undefined) return;
    throw new StorageError(
      'An earlier sync to the disk failed, so this storage takes no more writes. Check the disk, then open it again.',
      { cause: this.#failure },
    );
  }

  /** A path that no one else uses, for a file or folder that is made ready before it gets its name. */
  tempPath(): string {
    return `${this.#tempFolder}/${ownedName('temp', this.fileSystem.processId)}`;
  }

  /** Writes a temporary file and makes its content durable. The caller links or renames it into place. */
  async writeTemp(text: string): Promise<string> {
    const path = this.tempPath();
    try {
      await this.writeSynced(path, text);
    } catch (error) {
      await this.discard(path);
      throw error;
    }
    return path;
  }

  /** Creates a file and makes its content durable. */
  async writeSynced(path: string, text: string): Promise<void> {
    this.checkWritable();
    const file = await this.fileSystem.createFile(path);
    try {
      await file.write(text);
      await file.sync().catch((error: unknown) => this.#failSync(error));
    } finally {
      await file.close();
    }
  }

  #failSync(error: unknown): never {
    // A full disk may show only here. The file has no name yet and is thrown away, so nothing is in doubt.
    if (!hasFileCode(error, 'ENOSPC', 'EDQUOT')) this.#failure ??= error;
    throw error;
  }

  async syncFolder(path: string): Promise<void> {
    this.checkWritable();
    try {
      await this.fileSystem.syncFolder(path);
    } catch (error) {
      this.#failure ??= error;
      throw error;
    }
    // Another commit's sync may have failed meanwhile: then this one is not acknowledged either.
    this.checkWritable();
  }

  /** Makes durable what just got its name in a folder. If that fails, it may be there or not. */
  async syncName(folder: string): Promise<void> {
    try {
      await this.syncFolder(folder);
    } catch (cause) {
      throw new StorageError(
        `The disk failed while ${folder} was written: what was just saved may be stored or lost, and nothing more is saved. Check the disk, then open the storage again.`,
        { details: { path: folder, ...UNSYNCED }, cause },
      );
    }
  }

  /** Removes what has no name yet. What cannot be removed now goes when the store is next opened. */
  async discard(path: string): Promise<void> {
    await this.fileSystem.removeTree(path).catch(() => undefined);
  }

  /**
   * Removes what processes that are dead now had under way. Some of it may be folders that were moved here from `origin` to be
   * removed: that move is made durable first, or else a power cut could bring back a folder with half of its files gone.
   */
  async clearLeftovers(origin: string): Promise<void> {
    const names = ((await this.fileSystem.readFolder(this.#tempFolder)) ?? []).map(({ name }) => name);
    const isLeft = await mapBounded(names, PARALLEL_CHECKS, (name) => this.#isLeftover(name));
    const left = names.filter((_, index) => isLeft[index]);
    if (left.length === 0) return;
    await this.syncFolder(origin);
    for (const name of left) await this.discard(`${this.#tempFolder}/${name}`);
  }

  async #isLeftover(name: string): Promise<boolean> {
    const owner = parseOwnedName(name);
    if (owner === undefined || owner.processId === this.fileSystem.processId) return false;
    return !(await this.fileSystem.isProcessAlive(owner.processId));
  }
}
