import { readlink } from 'node:fs/promises';
import { resolve } from 'node:path';
import { signal as abortSignal, checkOptions, listOf, type OptionChecks, record, string } from '../../core/options.ts';
import { IgnoreList } from './ignore-list.ts';
import { readWholeFile } from './read-whole-file.ts';
import { RestorePlanner } from './restore-planner.ts';
import { type FolderSurvey, type FoundPath, ignoresCase, stampsOf, surveyFolder } from './scan-folder.ts';
import type { WorkspaceCache } from './workspace-cache.ts';
import { resolveWorkspaceOptions, type WorkspaceOptions } from './workspace-options.ts';
import type { WorkspacePlan } from './workspace-plan.ts';
import { type CheckedState, checkWorkspaceState, digestContent } from './workspace-state.ts';

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
export async function planRestore(state: unknown, folder: string, options: PlanOptions = {}): Promise<WorkspacePlan> {
  checkOptions(options, OPTIONS, 'planRestore()');
  const { ignore, cache, signal } = options;
  signal?.throwIfAborted();
  const checked = checkWorkspaceState(state);
  const ignored = [checked.ignored, resolveWorkspaceOptions({ ignore }).ignore];
  const digests = new Map<string, string>();
  const look = createLook(checked, digests, cache);
  const survey = await surveyFolder(resolve(folder), { ignored, signal, look });
  const planner = new RestorePlanner({
    state: checked,
    survey,
    digests,
    ignore: new IgnoreList(...ignored),
    isCaseIgnored: survey.root !== undefined && (await ignoresCase(survey.folder)),
  });
  return { ...planner.plan(), ...seenOf(survey), ignored };
}

function seenOf(survey: FolderSurvey): Pick<WorkspacePlan, 'folder' | 'seen' | 'root'> {
  const { folder, root } = survey;
  return { folder, seen: stampsOf(survey), ...(root === undefined ? {} : { root }) };
}

/** Reads links, and the files that might be what they were: those of the same size. */
function createLook({ entries }: CheckedState, digests: Map<string, string>, cache: WorkspaceCache | undefined) {
  return async (found: FoundPath): Promise<void> => {
    const entry = entries.get(found.path);
    if (entry?.kind !== found.kind || entry.kind === 'folder') return;
    if (entry.kind === 'file' && entry.sizeBytes !== Number(found.stats.size)) return;
    const digest = entry.kind === 'link' ? await digestLink(found) : await digestFile(found, cache);
    if (digest !== undefined) digests.set(found.path, digest);
  };
}

async function digestLink({ folder, name }: FoundPath): Promise<string | undefined> {
  try {
    return digestContent(await readlink(folder.at(name), { encoding: 'buffer' }));
  } catch {
    return undefined; // it changed meanwhile, which is noticed before anything is written
  }
}

async function digestFile(found: FoundPath, cache: WorkspaceCache | undefined): Promise<string | undefined> {
  const known = cache?.find(found);
  if (known !== undefined) return known.entry.digest;
  const file = await readWholeFile(found, { keepBytes: () => false });
  return typeof file === 'string' ? undefined : file.digest;
}
