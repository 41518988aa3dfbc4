import type { BigIntStats } from 'node:fs';
import { ConflictError, messageOf } from '../../core/errors.ts';
import type { OpenFolder } from './open-folder.ts';
import { modeOf, stampOf } from './scan-folder.ts';
import { ancestorsOf, comparePaths } from './workspace-path.ts';
import type { FailedChange, PlannedChange, PlannedContent } from './workspace-plan.ts';

/** A path that is about to change: the open folder it is in, its name there, and what has that name. */
type Spot = { readonly folder: OpenFolder; readonly name: string; readonly present: BigIntStats | undefined };

/** What an owner needs to change what is in a folder. */
const OWNER_MAY_WRITE = 0o300;

/**
 * Changes single paths inside a folder, each through folders that are held open, so that no link on the way is followed. Folders that do not
 * let themselves be changed are opened up for the time being; `setModes` puts their permissions back.
 */
export class FolderWriter {
  readonly #root: OpenFolder;
  readonly #seen: ReadonlyMap<string, string> | undefined;
  /** Permissions to be set in the end, by path; the folder itself is ''. */
  readonly #modes = new Map<string, number>();
  #last: { readonly path: string; readonly folder: OpenFolder } | undefined;

  /** With `seen`, what is not as it was seen is not touched. */
  constructor(root: OpenFolder, seen: ReadonlyMap<string, string> | undefined) {
    this.#root = root;
    this.#seen = seen;
  }

  /** Puts a file, link or folder in place. */
  async put({ path, kindBefore }: PlannedChange, content: PlannedContent): Promise<void> {
    const { folder, name, present } = await this.#unchanged(path);
    const isFolder = present?.isDirectory() === true;
    if (content.kind === 'folder') {
      this.#modes.set(path, content.mode);
      if (isFolder) return;
      if (present !== undefined) await folder.remove(name, 'file');
      return folder.makeFolder(name);
    }
    if (kindBefore === 'folder' && isFolder) await folder.remove(name, 'folder');
    if (content.kind === 'link') await folder.writeLink(name, content.target);
    else await folder.writeFile(name, content.content, content.mode);
  }

  /** Removes a file, link or empty folder. Gone already is as good. */
  async remove({ path, kind }: PlannedChange): Promise<void> {
    const { folder, name, present } = await this.#unchanged(path);
    if (present !== undefined) await folder.remove(name, kind);
    this.#modes.delete(path);
  }

  /** Removes a link that was put there just now. */
  async takeAway(path: string): Promise<void> {
    const { folder, name } = await this.#find(path);
    await folder.remove(name, 'link');
  }

  /** Sets permissions; those of folders only in the end, when nothing more happens in them. */
  async setMode({ path, mode = 0, kind }: PlannedChange): Promise<void> {
    const { folder, name } = await this.#unchanged(path);
    if (kind === 'folder') this.#modes.set(path, mode);
    else await folder.setModeOf(name, mode);
  }

  async #unchanged(path: string): Promise<Spot> {
    const spot = await this.#find(path);
    if (this.#seen !== undefined && !isAsSeen(spot.present, this.#seen.get(path)))
      throw new ConflictError('It changed since the restore was planned, and was left alone.');
    return spot;
  }

  /** Opens the folder that a path is in, from the top down. */
  async #find(path: string): Promise<Spot> {
    const above = ancestorsOf(path);
    const parent = above.at(-1) ?? '';
    if (this.#last?.path !== parent) {
      await this.#leave();
      this.#last = { path: parent, folder: await this.#openAll(above) };
    }
    const { folder } = this.#last;
    const name = path.slice(path.lastIndexOf('/') + 1);
    return { folder, name, present: await folder.lstat(name) };
  }

  async #openAll(folders: readonly string[]): Promise<OpenFolder> {
    let folder = this.#root;
    await this.#unlock(folder, '');
    for (const path of folders) {
      const outer = folder;
      try {
        folder = await outer.openFolder(path.slice(path.lastIndexOf('/') + 1));
      } finally {
        if (outer !== this.#root) await outer.close();
      }
      await this.#unlock(folder, path);
    }
    return folder;
  }

  async #unlock(folder: OpenFolder, path: string): Promise<void> {
    const mode = modeOf(await folder.stat());
    if ((mode & OWNER_MAY_WRITE) === OWNER_MAY_WRITE) return;
    if (!this.#modes.has(path)) this.#modes.set(path, mode);
    await folder.setMode(mode | 0o700);
  }

  async #leave(): Promise<void> {
    const last = this.#last;
    this.#last = undefined;
    if (last !== undefined && last.folder !== this.#root) await last.folder.close();
  }

  /** Sets the permissions of folders, innermost first; returns what failed. */
  async setModes(): Promise<FailedChange[]> {
    const failed: FailedChange[] = [];
    for (const [path, mode] of [...this.#modes].sort(([a], [b]) => comparePaths(b, a))) {
      try {
        const { folder, name, present } = path === '' ? { folder: this.#root } : await this.#find(path);
        if (name === undefined) await folder.setMode(mode);
        else if (present?.isDirectory() === true) await folder.setModeOf(name, mode);
      } catch (error) {
        failed.push({ path: path === '' ? '.' : path, action: 'chmod', problem: messageOf(error) });
      }
    }
    return failed;
  }

  async close(): Promise<void> {
    await this.#leave();
    await this.#root.close();
  }
}

/** Folders are told by their identity alone: the restore itself changes their times, and opens them up. */
function isAsSeen(present: BigIntStats | undefined, seen: string | undefined): boolean {
  if (present === undefined || seen === undefined) return present === undefined && seen === undefined;
  return present.isDirectory() ? seen.startsWith(`folder:${present.ino}:`) : seen === stampOf(present);
}
