import { randomUUID } from 'node:crypto';
import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf, InvalidInputError, messageOf, StorageError } from '../../core/errors.ts';
import { checkValue, filledString } from '../../core/options.ts';
import type { ObjectStore, StoredObject } from './object-store.ts';

const NAME = /^[0-9a-f-]+$/;

/** Objects as files of a folder, such as one that several machines share. */
export class FolderObjects implements ObjectStore {
  readonly #path: string;

  constructor(path: string, ...others: readonly never[]) {
    if (others.length > 0) throw new InvalidInputError('FolderObjects takes a folder, and no options.');
    checkValue(path, filledString, 'The folder of FolderObjects');
    this.#path = path;
  }

  /** Durable before it has its name, and the name before this resolves. */
  put(name: string, bytes: Uint8Array): Promise<void> {
    return attempt(`write the object ${name}`, async () => {
      const folder = this.#folderOf(name);
      await mkdir(folder, { recursive: true });
      const temporary = join(folder, `${randomUUID()}.temp`); // which is no name of an object
      const file = await open(temporary, 'wx');
      try {
        await file.writeFile(bytes);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, join(folder, name));
      for (const made of [folder, this.#path]) await syncFolder(made);
    });
  }

  replace(name: string, bytes: Uint8Array): Promise<void> {
    return this.put(name, bytes); // a rename takes the place of what is there
  }

  get(name: string, { from, to }: { readonly from: number; readonly to: number }): Promise<Uint8Array | undefined> {
    return attempt(`read the object ${name}`, async () => {
      const file = await open(join(this.#folderOf(name), name), 'r').catch(undefinedIfAbsent);
      if (file === undefined) return undefined;
      try {
        const { bytesRead, buffer } = await file.read(new Uint8Array(to - from), 0, to - from, from);
        return bytesRead === to - from ? buffer : undefined;
      } finally {
        await file.close();
      }
    });
  }

  delete(name: string): Promise<void> {
    return attempt(`delete the object ${name}`, () => rm(join(this.#folderOf(name), name), { force: true }));
  }

  async *list(): AsyncGenerator<StoredObject> {
    const read = (path: string) =>
      attempt(`list ${path}`, async () => (await readdir(path).catch(undefinedIfAbsent)) ?? []);
    for (const part of await read(this.#path))
      for (const name of NAME.test(part) ? await read(join(this.#path, part)) : []) {
        const found = NAME.test(name) ? await stat(join(this.#path, part, name)).catch(undefinedIfAbsent) : undefined;
        if (found !== undefined) yield { name, bytes: found.size, modifiedMs: found.mtimeMs };
      }
  }

  #folderOf(name: string): string {
    return join(this.#path, name.slice(0, 2));
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

function undefinedIfAbsent(error: unknown): undefined {
  if (codeOf(error) === 'ENOENT') return undefined;
  throw error;
}

async function attempt<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (cause) {
    throw new StorageError(`Could not ${what}: ${messageOf(cause)}. Check the folder, its permissions and the disk.`, {
      cause,
    });
  }
}
