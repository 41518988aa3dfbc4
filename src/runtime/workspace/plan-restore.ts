import { readlink } from 'node:fs/promises';
import { resolve } from 'node:path';
import { signal as abortSignal, checkOptions, listOf, type OptionChecks, record, string } from '../../core/options.ts';
import { IgnoreList } from './ignore-list.ts';
import { readWholeFile } from './read-whole-file.ts';
import { RestorePlanner } from './restore-planner.ts';
import { type FoundPath, ignoresCase, stampsOf, surveyFolder } from './scan-folder.ts';
import type { WorkspaceCache } from './workspace-cache.ts';
import { resolveWorkspaceOptions, type WorkspaceOptions } from './workspace-options.ts';
import type { WorkspacePlan } from './workspace-plan.ts';
import { type CheckedEntry, checkWorkspaceState, digestContent } from './workspace-state.ts';

/** How a restore is planned. */
export type PlanOptions = Pick<WorkspaceOptions, 'ignore'> & {
  /** That of the last capture of the folder; saves reading what did not change since. */
  readonly cache?: WorkspaceCache;
  readonly signal?: AbortSignal | undefined;
};

const OPTIONS: OptionChecks<PlanOptions> = { ignore: listOf(string), cache: record, signal: abortSignal };

/**
 * Lists what would have to change for a folder to be what it was when the state was captured. Changes nothing. What the state ignored, or
 * the options here ignore, stays as it is. Throws an InvalidInputError for a state that could reach outside the folder.
 */
export async function planRestore(given: unknown, folder: string, options: PlanOptions = {}): Promise<WorkspacePlan> {
  checkOptions(options, OPTIONS, 'planRestore()');
  const { ignore: ignoredHere, cache, signal } = options;
  signal?.throwIfAborted();
  const state = checkWorkspaceState(given);
  const ignored = [state.ignored, resolveWorkspaceOptions({ ignore: ignoredHere }).ignore];
  const ignore = new IgnoreList(...ignored);
  const digests = new Map<string, string>();
  const look = async (found: FoundPath): Promise<void> => {
    const digest = mayBeSame(found, state.entries.get(found.path)) ? await digestOf(found, cache) : undefined;
    if (digest !== undefined) digests.set(found.path, digest);
  };
  const survey = await surveyFolder(resolve(folder), { ignore, signal, look });
  const isCaseIgnored = survey.root !== undefined && (await ignoresCase(survey.folder));
  const { root } = survey;
  return {
    folder: survey.folder,
    ...new RestorePlanner({ state, survey, digests, ignore, isCaseIgnored }).plan(),
    seen: stampsOf(survey),
    ...(root !== undefined && { root }),
    ignored,
  };
}

/** Whether a link, or a file of the same size, might be what it was. */
function mayBeSame({ kind, stats }: FoundPath, entry: CheckedEntry | undefined): boolean {
  if (entry?.kind !== kind || entry.kind === 'folder') return false;
  return entry.kind === 'link' || entry.sizeBytes === Number(stats.size);
}

/** Undefined if it changed meanwhile, which is noticed before anything is written. */
async function digestOf(found: FoundPath, cache: WorkspaceCache | undefined): Promise<string | undefined> {
  const { kind, folder, name } = found;
  if (kind === 'link') {
    const target = await readlink(folder.at(name), { encoding: 'buffer' }).catch(() => undefined);
    return target && digestContent(target);
  }
  const known = cache?.find(found);
  if (known !== undefined) return known.entry.digest;
  const file = await readWholeFile(found, { keepBytes: () => false });
  return typeof file === 'string' ? undefined : file.digest;
}
