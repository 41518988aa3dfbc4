import { type BigIntStats, lstatSync, readdirSync } from 'node:fs';
import { lstat, realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { codeOf, StorageError } from '../../core/errors.ts';
import type { IgnoreList } from './ignore-list.ts';
import { OpenFolder } from './open-folder.ts';
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
  skip(path: string, reason: SkipReason): unknown;
  ignore?(path: string): unknown;
};

/** Looking at a path takes microseconds when the system waits for it, and ten times that through a promise; others may run this often. */
const BREATH_MS = 8;

/** Goes through a folder without following links. */
export class FolderScan {
  readonly #visitor: FolderVisitor;
  readonly #ignore: IgnoreList;
  readonly #signal: AbortSignal | undefined;
  #lastBreath = performance.now();

  constructor(visitor: FolderVisitor, ignore: IgnoreList, signal: AbortSignal | undefined) {
    this.#visitor = visitor;
    this.#ignore = ignore;
    this.#signal = signal;
  }

  async scan(folder: OpenFolder, prefix = ''): Promise<void> {
    for (const name of this.#read(folder, prefix)) {
      if (performance.now() - this.#lastBreath > BREATH_MS) {
        await setImmediate();
        this.#signal?.throwIfAborted();
        this.#lastBreath = performance.now();
      }
      const path = prefix + name;
      const stats = this.#look(folder, name, path);
      if (stats === undefined) continue;
      const kind = kindOf(stats);
      if (this.#ignore.ignores(path, kind === 'folder')) this.#visitor.ignore?.(path);
      else if ((await this.#visitor.visit({ path, name, kind, stats, folder })) && kind === 'folder')
        await this.#enter(folder, name, path);
    }
  }

  async #enter(parent: OpenFolder, name: string, path: string): Promise<void> {
    let folder: OpenFolder;
    try {
      folder = await parent.openFolder(name);
    } catch (error) {
      this.#visitor.skip(path, codeOf(error) === 'EACCES' ? 'unreadable' : 'changing');
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
      if (codeOf(error) !== 'ENOENT') this.#visitor.skip(path, 'unreadable');
      return undefined;
    }
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

/** One path of a folder as it is now. */
export type SurveyedPath = Pick<FoundPath, 'kind' | 'stats'>;

/** What a folder holds now. */
export type FolderSurvey = {
  readonly folder: string;
  /** Absent if there is no such folder. */
  readonly root?: string;
  readonly paths: ReadonlyMap<string, SurveyedPath>;
  /** What the patterns leave out, and what could not be looked at. */
  readonly ignored: ReadonlySet<string>;
  readonly unreadable: ReadonlySet<string>;
};

/** How a folder is looked at; `look` is called with everything found, while its folder is open. */
type SurveyOptions = {
  readonly ignore: IgnoreList;
  readonly signal?: AbortSignal | undefined;
  readonly look?: (found: FoundPath) => Promise<void>;
};

/** Looks at everything in a folder that is not ignored. */
export async function surveyFolder(folder: string, { ignore, signal, look }: SurveyOptions): Promise<FolderSurvey> {
  const paths = new Map<string, SurveyedPath>();
  const found = { paths, ignored: new Set<string>(), unreadable: new Set<string>() };
  const root = await openIfThere(folder);
  if (root === undefined) return { folder: await resolveMissing(folder), ...found };
  const visitor: FolderVisitor = {
    visit: async (path) => {
      paths.set(path.path, { kind: path.kind, stats: path.stats });
      await look?.(path);
      return true;
    },
    skip: (path) => found.unreadable.add(path),
    ignore: (path) => found.ignored.add(path),
  };
  try {
    await new FolderScan(visitor, ignore, signal).scan(root);
    return { folder: await realpath(folder), root: rootStamp(await root.stat()), ...found };
  } finally {
    await root.close();
  }
}

/** Tells whether a folder is still the same one. */
export function rootStamp(stats: BigIntStats): string {
  return `${stats.dev}:${stats.ino}`;
}

async function openIfThere(folder: string): Promise<OpenFolder | undefined> {
  try {
    return await OpenFolder.open(folder);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw new StorageError(`"${folder}" cannot be opened as a folder (${codeOf(error)}).`, { cause: error });
  }
}

/** The real place of a folder that is still to be made: what is there of it, and the rest. */
async function resolveMissing(folder: string): Promise<string> {
  try {
    return await realpath(folder);
  } catch {
    const parent = dirname(folder);
    return parent === folder ? folder : join(await resolveMissing(parent), basename(folder));
  }
}

/** What was seen of each path. */
export function stampsOf({ paths }: FolderSurvey): Map<string, string> {
  return new Map([...paths].map(([path, { stats }]) => [path, stampOf(stats)]));
}

/** Whether names in a folder that differ in case only are the same name. Found out without writing, by the folder's own name. */
export async function ignoresCase(folder: string): Promise<boolean> {
  const name = basename(folder);
  const swapped = name === name.toUpperCase() ? name.toLowerCase() : name.toUpperCase();
  if (swapped === name) return process.platform === 'darwin' || process.platform === 'win32';
  try {
    const [one, other] = await Promise.all([lstat(folder), lstat(join(dirname(folder), swapped))]);
    return one.ino === other.ino && one.dev === other.dev;
  } catch {
    return false;
  }
}
