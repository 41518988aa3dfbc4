import { type BigIntStats, lstatSync, readdirSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import type { IgnoreList } from './ignore-list.ts';
import { errnoOf, type OpenFolder } from './open-folder.ts';
import type { SkipReason } from './workspace-state.ts';

/** What a path of a folder is. */
export type FoundKind = 'file' | 'link' | 'folder' | 'special';

/** One path that was found. */
export type FoundPath = {
  readonly path: string;
  readonly name: string;
  readonly kind: FoundKind;
  readonly stats: BigIntStats;
  /** The open folder it is in. */
  readonly folder: OpenFolder;
};

/** What is done with what is found; folders come before what is inside them, names in the order of their characters. */
export type FolderVisitor = {
  /** Answering `false` for a folder leaves out what is inside it. */
  visit(found: FoundPath): Promise<boolean> | boolean;
  skip(path: string, reason: SkipReason): void;
  ignore?(path: string): void;
};

/** How a folder is gone through. */
export type ScanOptions = { readonly ignore: IgnoreList; readonly signal?: AbortSignal | undefined };

/** Looking at a path takes microseconds when the system waits for it, and ten times that through a promise; others may run this often. */
const BREATH_MS = 8;

/** Goes through a folder without following links. */
export async function scanFolder(root: OpenFolder, visitor: FolderVisitor, options: ScanOptions): Promise<void> {
  await new FolderScan(visitor, options).scan(root, '');
}

class FolderScan {
  readonly #visitor: FolderVisitor;
  readonly #options: ScanOptions;
  #lastBreath = performance.now();

  constructor(visitor: FolderVisitor, options: ScanOptions) {
    this.#visitor = visitor;
    this.#options = options;
  }

  async scan(folder: OpenFolder, prefix: string): Promise<void> {
    const names = this.#read(folder, prefix);
    for (const name of names) {
      if (performance.now() - this.#lastBreath > BREATH_MS) await this.#breathe();
      const path = prefix + name;
      const stats = this.#look(folder, name, path);
      if (stats === undefined) continue;
      const kind = kindOf(stats);
      if (this.#options.ignore.ignores(path, kind === 'folder')) this.#visitor.ignore?.(path);
      else if (await this.#visitor.visit({ path, name, kind, stats, folder })) {
        if (kind === 'folder') await this.#enter(folder, name, path);
      }
    }
  }

  async #enter(parent: OpenFolder, name: string, path: string): Promise<void> {
    let folder: OpenFolder;
    try {
      folder = await parent.openFolder(name);
    } catch (error) {
      this.#visitor.skip(path, errnoOf(error) === 'EACCES' ? 'unreadable' : 'changing');
      return;
    }
    try {
      await this.scan(folder, `${path}/`);
    } finally {
      await folder.close();
    }
  }

  /** The names in a folder. Those that are no UTF-8 cannot be told apart as texts. */
  #read(folder: OpenFolder, prefix: string): string[] {
    let raw: Buffer[];
    try {
      raw = readdirSync(folder.path, { encoding: 'buffer' });
    } catch (error) {
      if (prefix === '') throw error;
      this.#visitor.skip(prefix.slice(0, -1), 'unreadable');
      return [];
    }
    const names: string[] = [];
    for (const bytes of raw) {
      const name = bytes.toString();
      if (Buffer.from(name).equals(bytes)) names.push(name);
      else this.#visitor.skip(prefix + name, 'name');
    }
    return names.sort();
  }

  #look(folder: OpenFolder, name: string, path: string): BigIntStats | undefined {
    try {
      return lstatSync(folder.at(name), { bigint: true });
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') this.#visitor.skip(path, 'unreadable');
      return undefined;
    }
  }

  async #breathe(): Promise<void> {
    await setImmediate();
    this.#options.signal?.throwIfAborted();
    this.#lastBreath = performance.now();
  }
}

function kindOf(stats: BigIntStats): FoundKind {
  if (stats.isFile()) return 'file';
  if (stats.isDirectory()) return 'folder';
  return stats.isSymbolicLink() ? 'link' : 'special';
}

/** The permissions of a path, without the bits that lend someone else's rights. */
export function modeOf(stats: BigIntStats): number {
  return Number(stats.mode & 0o777n);
}

/** Tells whether a path is still what it was, as well as the system can tell without reading it. */
export function stampOf(stats: BigIntStats): string {
  if (stats.isDirectory()) return `folder:${stats.ino}:${modeOf(stats)}`; // its times change with what is ignored in it
  return `${stats.mode}:${stats.ino}:${stats.size}:${stats.mtimeNs}:${stats.ctimeNs}`;
}
