import type { BigIntStats } from 'node:fs';
import { lstat, realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { StorageError } from '../../core/errors.ts';
import { IgnoreList } from './ignore-list.ts';
import { errnoOf, OpenFolder } from './open-folder.ts';
import { type FoundKind, type FoundPath, scanFolder, stampOf } from './scan-folder.ts';
import type { SkipReason } from './workspace-state.ts';

/** One path of a folder as it is now. */
export type SurveyedPath = { readonly kind: FoundKind; readonly stats: BigIntStats };

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
export type SurveyOptions = {
  /** Lists of patterns; what one of them ignores is ignored. */
  readonly ignored: readonly (readonly string[])[];
  readonly signal?: AbortSignal | undefined;
  readonly look?: (found: FoundPath) => Promise<void>;
};

/** Looks at everything in a folder that is not ignored. */
export async function surveyFolder(folder: string, { ignored, signal, look }: SurveyOptions): Promise<FolderSurvey> {
  const root = await openIfThere(folder);
  if (root === undefined) return { folder: await resolveMissing(folder), ...NOTHING };
  const paths = new Map<string, SurveyedPath>();
  const passed = { ignored: new Set<string>(), unreadable: new Set<string>() };
  try {
    const visitor = {
      visit: async (found: FoundPath) => {
        paths.set(found.path, { kind: found.kind, stats: found.stats });
        await look?.(found);
        return true;
      },
      skip: (path: string, _reason: SkipReason) => passed.unreadable.add(path),
      ignore: (path: string) => passed.ignored.add(path),
    };
    await scanFolder(root, visitor, { ignore: new IgnoreList(...ignored), signal });
    return { folder: await realpath(folder), root: rootStamp(await root.stat()), paths, ...passed };
  } finally {
    await root.close();
  }
}

const NOTHING = { paths: new Map(), ignored: new Set<string>(), unreadable: new Set<string>() };

/** Tells whether a folder is still the same one. */
export function rootStamp(stats: BigIntStats): string {
  return `${stats.dev}:${stats.ino}`;
}

async function openIfThere(folder: string): Promise<OpenFolder | undefined> {
  try {
    return await OpenFolder.open(folder);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw new StorageError(`"${folder}" cannot be opened as a folder (${errnoOf(error)}).`, { cause: error });
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
