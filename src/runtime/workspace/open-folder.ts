import { randomBytes } from 'node:crypto';
import { type BigIntStats, constants, existsSync } from 'node:fs';
import { chmod, type FileHandle, lstat, mkdir, open, realpath, rename, rmdir, symlink, unlink } from 'node:fs/promises';
import { ConflictError, codeOf } from '../../core/errors.ts';

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_RDONLY, O_WRONLY } = constants;

/** Opens a file or folder as a place only, whatever its permissions. Linux; Node has no name for it. */
const O_PATH = 0o10000000;

const TEMPORARY = /^\.savestate-[0-9a-f]{16}\.tmp$/;

/** How a folder is held: by a descriptor that nobody can move elsewhere (Linux), or by its path, checked when it is opened. */
export type Anchor = 'descriptor' | 'path';

const DEFAULT_ANCHOR: Anchor = process.platform === 'linux' && existsSync('/proc/self/fd') ? 'descriptor' : 'path';

/** Whether a name is that of a file that was being written when its process was killed. */
export function isTemporaryName(name: string): boolean {
  return TEMPORARY.test(name);
}

/**
 * A folder that is held open, so that what happens inside it happens in this folder, even if someone puts a link in its place meanwhile.
 * Names are single names, never paths. Links are never followed.
 */
export class OpenFolder {
  /** A path to reach it by, for as long as it is open. */
  readonly path: string;
  readonly #anchor: Anchor;
  readonly #handle: FileHandle;

  private constructor(path: string, anchor: Anchor, handle: FileHandle) {
    this.path = anchor === 'descriptor' ? `/proc/self/fd/${handle.fd}` : path;
    this.#anchor = anchor;
    this.#handle = handle;
  }

  /** Opens a folder by its path; links on the way to it are followed, once. */
  static async open(folder: string, anchor: Anchor = DEFAULT_ANCHOR): Promise<OpenFolder> {
    return OpenFolder.#open(await realpath(folder), anchor);
  }

  /** Opens a folder inside this one; fails with ENOTDIR or ELOOP if it is a link or no folder. */
  async openFolder(name: string): Promise<OpenFolder> {
    return OpenFolder.#open(this.at(name), this.#anchor);
  }

  static async #open(path: string, anchor: Anchor): Promise<OpenFolder> {
    const handle = await open(path, (anchor === 'descriptor' ? O_PATH : O_RDONLY) | O_DIRECTORY | O_NOFOLLOW);
    try {
      if (anchor === 'path') await checkPlace(path, handle);
      return new OpenFolder(path, anchor, handle);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  at(name: string): string {
    return `${this.path}/${name}`;
  }

  stat(): Promise<BigIntStats> {
    return this.#handle.stat({ bigint: true });
  }

  /** What has this name, the link itself if it is one; undefined if nothing has. */
  async lstat(name: string): Promise<BigIntStats | undefined> {
    try {
      return await lstat(this.at(name), { bigint: true });
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined;
      throw error;
    }
  }

  /** Writes a whole file or nothing, in place of whatever file or link has the name. */
  async writeFile(name: string, content: string | Uint8Array, mode: number): Promise<void> {
    await this.#put(name, async (temporary) => {
      const handle = await open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
      try {
        await handle.writeFile(content);
        await handle.chmod(mode);
      } finally {
        await handle.close();
      }
    });
  }

  /** Makes a link in place of whatever file or link has the name. */
  async writeLink(name: string, target: string): Promise<void> {
    await this.#put(name, (temporary) => symlink(target, temporary));
  }

  async #put(name: string, create: (temporary: string) => Promise<void>): Promise<void> {
    const temporary = this.at(`.savestate-${randomBytes(8).toString('hex')}.tmp`);
    try {
      await create(temporary);
      await rename(temporary, this.at(name));
    } catch (error) {
      await unlink(temporary).catch(() => undefined);
      throw error;
    }
  }

  async makeFolder(name: string): Promise<void> {
    await mkdir(this.at(name), 0o700);
  }

  /** Removes a file, link or empty folder. */
  async remove(name: string, kind: 'file' | 'link' | 'folder'): Promise<void> {
    await (kind === 'folder' ? rmdir(this.at(name)) : unlink(this.at(name)));
  }

  /** Changes the permissions of this folder. */
  async setMode(mode: number): Promise<void> {
    await chmod(this.path, mode);
  }

  /** Changes the permissions of a file or folder inside, never of what a link points to. */
  async setModeOf(name: string, mode: number): Promise<void> {
    const isByDescriptor = this.#anchor === 'descriptor';
    const handle = await open(this.at(name), (isByDescriptor ? O_PATH : O_RDONLY) | O_NOFOLLOW);
    try {
      if ((await handle.stat()).isSymbolicLink()) throw new ConflictError(`"${name}" has become a link meanwhile.`);
      await (isByDescriptor ? chmod(`/proc/self/fd/${handle.fd}`, mode) : handle.chmod(mode));
    } finally {
      await handle.close();
    }
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

/** Without descriptors to go by, a component that became a link is noticed here, and only here. */
async function checkPlace(path: string, handle: FileHandle): Promise<void> {
  const found = await handle.stat({ bigint: true });
  const named = await lstat(await realpath(path), { bigint: true });
  if ((await realpath(path)) === path && found.ino === named.ino && found.dev === named.dev) return;
  throw new ConflictError(`"${path}" is not where it was: a folder on the way to it has become a link.`, {
    details: { path },
  });
}
