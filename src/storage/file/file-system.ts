import { codeOf } from '../../core/errors.ts';
/** One name in a folder. `other` is what a store never holds: symbolic links, sockets, devices. */
export type FolderEntry = { readonly name: string; readonly kind: 'file' | 'folder' | 'other' };

/** A file that was just created and is not durable until `sync` resolves. */
export interface NewFile {
  write(text: string): Promise<void>;
  /** Makes the content durable, but not the file's name: that is up to `syncFolder`. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/**
 * The few steps a file storage takes on a disk, fine enough for a simulated disk to cut the power between any two.
 * Failures carry the codes of Node (`EEXIST`, `ENOSPC`, ...). Symbolic links are refused, never followed.
 */
export interface FileSystem {
  /** Names this process, so that others can tell what a dead one left behind: digits, a dash, digits. */
  readonly processId: string;
  isProcessAlive(processId: string): Promise<boolean>;
  /** The path with symbolic links resolved; `undefined` if nothing is there. */
  realPath(path: string): Promise<string | undefined>;
  /** The bytes of a regular file; `undefined` if there is none. */
  readFile(path: string): Promise<Uint8Array | undefined>;
  /** The size of a regular file; `undefined` if there is none. */
  statSize(path: string): Promise<number | undefined>;
  /** Fails with `EEXIST` if the name is taken. */
  createFile(path: string): Promise<NewFile>;
  /** Replaces a file at `to`; a folder that is not empty makes it fail with `ENOTEMPTY` or `EEXIST`. */
  rename(from: string, to: string): Promise<void>;
  /** Gives a file a second name; fails with `EEXIST` if that name is taken. */
  link(from: string, to: string): Promise<void>;
  unlink(path: string): Promise<void>;
  /** `undefined` if there is no such folder. */
  readFolder(path: string): Promise<readonly FolderEntry[] | undefined>;
  /** Creates a folder unless it is there; returns whether it did. */
  makeFolder(path: string): Promise<boolean>;
  /** Makes the names in a folder durable: those that came, and those that went. */
  syncFolder(path: string): Promise<void>;
  /** Removes a file or a folder with all it holds; does nothing if there is none. */
  removeTree(path: string): Promise<void>;
}

/** Whether a failure of a FileSystem has one of these codes. */
export function hasFileCode(error: unknown, ...codes: readonly string[]): boolean {
  return codes.includes(codeOf(error) ?? '');
}
