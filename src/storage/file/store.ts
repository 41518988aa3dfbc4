import { dirname, resolve } from 'node:path';
import { CorruptError, InvalidInputError, StorageError, UnsupportedError } from '../../core/errors.ts';
import { ChunkFolder } from './chunk-folder.ts';
import { DurableFiles, parseOwnedName } from './durable-files.ts';
import { folderGone } from './file-error.ts';
import { type FileSystem, hasFileCode } from './file-system.ts';
import { Markers } from './markers.ts';
import { Sessions } from './sessions.ts';

/** The names at the top of a store. */
export const STORE_FOLDERS = ['chunks', 'sessions', 'temp', 'locks'] as const;

/** The file that makes a folder a store. */
export const FORMAT_NAME = 'format.json';

const FORMAT = 'savestate-files';
const VERSION = 1;

/** The exact text of the format file; anything else is another version, another program's, or damage. */
export const FORMAT_TEXT = `${JSON.stringify({ format: FORMAT, version: VERSION }, null, 2)}\n`;

/** The parts of an open store. */
export type Store = {
  readonly root: string;
  readonly fileSystem: FileSystem;
  readonly files: DurableFiles;
  readonly chunks: ChunkFolder;
  readonly sessions: Sessions;
  readonly markers: Markers;
};

/** What a store is opened with. */
export type StoreOptions = { readonly path: string; readonly fileSystem: FileSystem; readonly lockTimeoutMs: number };

/** Opens the store in a folder, or makes one if the folder is missing or empty. */
export async function openStore({ fileSystem, lockTimeoutMs, ...options }: StoreOptions): Promise<Store> {
  const root = await openRoot(fileSystem, options.path);
  const files = new DurableFiles(fileSystem, `${root}/temp`);
  const path = `${root}/${FORMAT_NAME}`;
  const found = await fileSystem.readFile(path);
  if (found === undefined) await createFormat(fileSystem, root);
  const bytes = found ?? (await fileSystem.readFile(path)) ?? new Uint8Array();
  checkFormat(Buffer.from(bytes).toString('latin1'), root);
  await makeStoreFolders(files, root);
  await files.clearLeftovers(`${root}/sessions`);
  await new DurableFiles(fileSystem, root).clearLeftovers(root);
  return {
    root,
    fileSystem,
    files,
    chunks: new ChunkFolder(files, `${root}/chunks`),
    sessions: new Sessions(files, `${root}/sessions`),
    markers: new Markers({ fileSystem, folder: `${root}/locks`, timeoutMs: lockTimeoutMs }),
  };
}

/** Throws if the folder is gone, or its format file is gone or was replaced: the next process would not know the folder for a store. */
export async function checkIsStore({ fileSystem, root }: Store): Promise<void> {
  const path = `${root}/${FORMAT_NAME}`;
  if ((await fileSystem.statSize(path)) === FORMAT_TEXT.length) return;
  if ((await fileSystem.readFolder(root)) === undefined) throw folderGone(root);
  throw new StorageError(
    `${path} was deleted or changed while the storage was open, so nothing is read from it or saved to it. Put it back (${JSON.stringify(FORMAT_TEXT)}), then try again.`,
    { details: { path } },
  );
}

async function openRoot(fileSystem: FileSystem, path: string): Promise<string> {
  const absolute = resolve(path);
  // The root itself may be a link its owner made; below it none is followed.
  const found = await fileSystem.realPath(absolute);
  if (found !== undefined) return found;
  await makeFolders(fileSystem, absolute);
  return (await fileSystem.realPath(absolute)) ?? absolute;
}

async function makeFolders(fileSystem: FileSystem, path: string): Promise<void> {
  try {
    await fileSystem.makeFolder(path);
  } catch (error) {
    if (!hasFileCode(error, 'ENOENT')) throw error;
    await makeFolders(fileSystem, dirname(path));
    await fileSystem.makeFolder(path);
  }
}

/**
 * Makes the way to a new store durable, all of it: another process may have made any part of it a moment ago. The format file
 * comes after, so that whoever finds one can rely on the way to it.
 */
async function syncWayTo(fileSystem: FileSystem, root: string): Promise<void> {
  for (let path = root; path !== dirname(path); path = dirname(path)) {
    await fileSystem.syncFolder(dirname(path)).catch((error: unknown) => {
      // A folder that cannot be opened or synced is not one that a process of this user just made.
      if (!hasFileCode(error, 'EACCES', 'EPERM', 'EINVAL', 'ENOTSUP', 'EROFS')) throw error;
    });
  }
}

async function makeStoreFolders(files: DurableFiles, root: string): Promise<void> {
  const present = new Set((await files.fileSystem.readFolder(root))?.map(({ name }) => name));
  const missing = STORE_FOLDERS.filter((name) => !present.has(name));
  // The format file first: folders without it would look like another program's.
  if (missing.length > 0) await files.syncFolder(root);
  for (const name of STORE_FOLDERS) await files.fileSystem.makeFolder(`${root}/${name}`);
  // Also if all was there: the process that made it may not have come to its sync yet.
  await files.syncFolder(root);
}

async function createFormat(fileSystem: FileSystem, root: string): Promise<void> {
  const names = ((await fileSystem.readFolder(root)) ?? []).map(({ name }) => name);
  // Another process was faster, a moment ago.
  if (names.includes(FORMAT_NAME)) return;
  const foreign = names.find((name) => parseOwnedName(name) === undefined);
  if (foreign !== undefined) {
    throw new InvalidInputError(
      `${root} holds "${foreign}" and no ${FORMAT_NAME}, so it is no store. Choose an empty folder.`,
      { details: { path: root } },
    );
  }
  await syncWayTo(fileSystem, root);
  // The store's own temporary folder comes after the format file: until then a folder that is not empty is not ours.
  const temp = new DurableFiles(fileSystem, root);
  const path = await temp.writeTemp(FORMAT_TEXT);
  try {
    await fileSystem.link(path, `${root}/${FORMAT_NAME}`);
  } catch (error) {
    if (hasFileCode(error, 'EPERM', 'ENOTSUP', 'ENOSYS', 'EOPNOTSUPP')) throw noHardLinks(root, error);
    if (!hasFileCode(error, 'EEXIST')) throw error;
  } finally {
    await temp.discard(path);
  }
}

function noHardLinks(root: string, cause: unknown): UnsupportedError {
  return new UnsupportedError(
    `The file system of ${root} has no hard links, which this storage needs to keep processes apart. Use another disk, or SQLite.`,
    { details: { path: root }, cause },
  );
}

/** Throws unless a format file's text is the one this version writes. */
export function checkFormat(text: string, root: string): void {
  if (text === FORMAT_TEXT) return;
  const { format, version } = parseLoosely(text);
  const details = { path: `${root}/${FORMAT_NAME}`, version };
  if (format === FORMAT && typeof version === 'number' && version > VERSION) {
    throw new UnsupportedError(
      `The store in ${root} has format version ${version}; this program reads up to version ${VERSION}. Use a newer one.`,
      { details },
    );
  }
  throw new CorruptError(
    `${root}/${FORMAT_NAME} is damaged, or is another program's. A store of this version holds exactly ${JSON.stringify(FORMAT_TEXT)}.`,
    { details },
  );
}

function parseLoosely(text: string): { readonly format?: unknown; readonly version?: unknown } {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : {};
  } catch (error) {
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}
