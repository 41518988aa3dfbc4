import { constants, type Stats } from 'node:fs';
import { type FileHandle, link, lstat, mkdir, open, readdir, realpath, rename, rm, unlink } from 'node:fs/promises';
import { CorruptError } from '../../core/errors.ts';
import { isProcessAlive, PROCESS_ID } from '../process-identity.ts';
import { type FileSystem, type FolderEntry, hasFileCode, type NewFile } from './file-system.ts';

// States hold what agents were told in confidence: nobody but the owner may read them.
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

const { O_RDONLY, O_DIRECTORY = 0, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants;

/** The FileSystem of this machine. */
export function nodeFileSystem(): FileSystem {
  return {
    processId: PROCESS_ID,
    isProcessAlive: async (processId) => isProcessAlive(processId),
    realPath: (path) => absentAsUndefined(realpath(path)),
    readFile: (path) => absentAsUndefined(readRegularFile(path)),
    statSize: async (path) => {
      const stats = await absentAsUndefined(lstat(path));
      return stats === undefined ? undefined : checkRegular(path, stats).size;
    },
    createFile,
    rename,
    link,
    unlink,
    readFolder: (path) => absentAsUndefined(readRealFolder(path)),
    makeFolder,
    syncFolder,
    removeTree: (path) => rm(path, { recursive: true, force: true }),
  };
}

async function absentAsUndefined<T>(promise: Promise<T>): Promise<T | undefined> {
  try {
    return await promise;
  } catch (error) {
    if (hasFileCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

async function readRegularFile(path: string): Promise<Uint8Array> {
  // Without O_NONBLOCK a named pipe in the place of a file would hang the reader.
  const handle = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch((error: unknown) => {
    throw hasFileCode(error, 'ELOOP') ? notRegular(path) : error;
  });
  try {
    const { size } = checkRegular(path, await handle.stat());
    return await readBytes(handle, size);
  } finally {
    await handle.close();
  }
}

/** Files of a store never grow, so that their size is known; `handle.readFile` would ask twice as often. */
async function readBytes(handle: FileHandle, size: number): Promise<Uint8Array> {
  const bytes = Buffer.allocUnsafe(size);
  let filled = 0;
  while (filled < size) {
    const { bytesRead } = await handle.read(bytes, filled, size - filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return bytes.subarray(0, filled);
}

function checkRegular(path: string, stats: Stats): Stats {
  if (!stats.isFile()) throw notRegular(path);
  return stats;
}

function notRegular(path: string): CorruptError {
  return new CorruptError(`${path} is not a regular file, so it was not read. Remove it; a store holds no links.`, {
    details: { path },
  });
}

async function createFile(path: string): Promise<NewFile> {
  const handle = await open(path, 'wx', FILE_MODE);
  return {
    write: (text) => handle.writeFile(text),
    sync: () => handle.sync(),
    close: () => handle.close(),
  };
}

async function readRealFolder(path: string): Promise<FolderEntry[]> {
  checkFolder(path, await lstat(path));
  const entries = await readdir(path, { withFileTypes: true });
  return entries.map((entry) => ({
    name: entry.name,
    kind: entry.isFile() ? 'file' : entry.isDirectory() ? 'folder' : 'other',
  }));
}

function checkFolder(path: string, stats: Stats): void {
  if (stats.isDirectory()) return;
  throw new CorruptError(`${path} is not a folder. Remove it; a store holds no links.`, { details: { path } });
}

async function makeFolder(path: string): Promise<boolean> {
  try {
    await mkdir(path, { mode: FOLDER_MODE });
    return true;
  } catch (error) {
    if (!hasFileCode(error, 'EEXIST')) throw error;
    checkFolder(path, await lstat(path));
    return false;
  }
}

async function syncFolder(path: string): Promise<void> {
  // Windows cannot sync a folder; its file systems order names by their own journal.
  if (process.platform === 'win32') return;
  const handle = await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
