import { lstat, readlink } from 'node:fs/promises';
import { isAbsolute, join, relative } from 'node:path';
import { ConflictError, codeOf, messageOf, StorageError } from '../../core/errors.ts';
import { signal as abortSignal, checkOptions, flag, type OptionChecks } from '../../core/options.ts';
import { makeFolder } from '../../storage/make-folder.ts';
import { FolderWriter } from './folder-writer.ts';
import { IgnoreList } from './ignore-list.ts';
import { OpenFolder } from './open-folder.ts';
import { rootStamp, stampsOf, surveyFolder } from './scan-folder.ts';
import { ancestorsOf, comparePaths } from './workspace-path.ts';
import type { FailedChange, PlannedChange, WorkspacePlan, WorkspaceReport } from './workspace-plan.ts';

/** How a plan is carried out. */
export type ApplyOptions = {
  /** Do what the plan says even if the folder changed since it was made. Paths that the plan does not name are never touched. */
  readonly force?: boolean;
  readonly signal?: AbortSignal | undefined;
};

const OPTIONS: OptionChecks<ApplyOptions> = { force: flag, signal: abortSignal };

/** How many paths an error names. */
const NAMED_PATHS = 5;

/**
 * Carries out a plan. Each file is replaced whole or not at all; what fails is reported, and the rest goes on. A folder that changed since the
 * plan was made is refused with a ConflictError before anything is written. After an abort or a crash, plan and apply again.
 */
export async function applyRestore(plan: WorkspacePlan, options: ApplyOptions = {}): Promise<WorkspaceReport> {
  checkOptions(options, OPTIONS, 'applyRestore()');
  const { force = false, signal } = options;
  signal?.throwIfAborted();
  if (!force) await checkUnchanged(plan, signal);
  const { left, changes, root, seen } = plan;
  const restore = new Restore(signal);
  const { done, failed } = restore;
  if (changes.length > 0 || root === undefined) {
    const writer = new FolderWriter(await openRoot(plan, force), force ? undefined : seen);
    try {
      await restore.writeAll(plan, writer);
    } finally {
      failed.push(...(await writer.setModes()));
      await writer.close();
    }
  }
  return { status: failed.length + left.length === 0 ? 'complete' : 'partial', done, failed, left };
}

async function checkUnchanged(plan: WorkspacePlan, signal: AbortSignal | undefined): Promise<void> {
  const survey = await surveyFolder(plan.folder, { ignore: new IgnoreList(...plan.ignored), signal });
  const now = stampsOf(survey);
  const changed = [...new Set([...plan.seen.keys(), ...now.keys()])].filter(
    (path) => plan.seen.get(path) !== now.get(path),
  );
  if (survey.root !== plan.root || survey.folder !== plan.folder) changed.unshift('.');
  if (changed.length === 0) return;
  const named = changed.slice(0, NAMED_PATHS).map((path) => `"${path}"`);
  const more = changed.length > NAMED_PATHS ? ` and ${changed.length - NAMED_PATHS} more` : '';
  throw new ConflictError(
    `"${plan.folder}" changed since the restore was planned: ${named.join(', ')}${more}. Plan it again, or pass force.`,
    { details: { folder: plan.folder, paths: changed.slice(0, 100) } },
  );
}

async function openRoot({ folder, root }: WorkspacePlan, force: boolean): Promise<OpenFolder> {
  try {
    if (root === undefined) makeFolder(folder);
    const opened = await OpenFolder.open(folder);
    if (force || root === undefined || rootStamp(await opened.stat()) === root) return opened;
    await opened.close();
  } catch (error) {
    throw new StorageError(`"${folder}" cannot be opened as a folder (${codeOf(error)}).`, { cause: error });
  }
  throw new ConflictError(`"${folder}" is another folder than when the restore was planned. Plan it again.`);
}

class Restore {
  readonly done: PlannedChange[] = [];
  readonly failed: FailedChange[] = [];
  readonly #signal: AbortSignal | undefined;

  constructor(signal: AbortSignal | undefined) {
    this.#signal = signal;
  }

  /** What is in the way goes first, then everything is put in place, and only then is the rest deleted. Permissions come last. */
  async writeAll({ folder, changes, contents }: WorkspacePlan, writer: FolderWriter): Promise<void> {
    const inward = changes.toSorted((a, b) => comparePaths(b.path, a.path));
    const replaced = new Set(changes.filter(({ kindBefore }) => kindBefore === 'folder').map(({ path }) => path));
    const isInTheWay = ({ path }: PlannedChange) => ancestorsOf(path).some((above) => replaced.has(above));
    const deletes = inward.filter(({ action }) => action === 'delete');
    const remove = writer.remove.bind(writer);
    await this.#each(deletes.filter(isInTheWay), remove);
    await this.#each(changes, async (change) => {
      const content = contents.get(change.path);
      if (content === undefined) return false;
      await writer.put(change, content);
      // A link may be harmless by itself, and lead outside through another one that is there already.
      if (content.kind !== 'link' || (await leadsInside(folder, change.path))) return true;
      await writer.takeAway(change.path);
      throw new ConflictError('It would lead outside the folder, through another link. It was taken away again.');
    });
    await this.#each(
      deletes.filter((change) => !isInTheWay(change)),
      remove,
    );
    await this.#each(
      inward.filter(({ action }) => action === 'chmod'),
      writer.setMode.bind(writer),
    );
  }

  /** Makes changes, and notes what came of those that concern it. */
  async #each(changes: readonly PlannedChange[], work: (change: PlannedChange) => Promise<unknown>): Promise<void> {
    for (const change of changes) {
      this.#signal?.throwIfAborted();
      try {
        if ((await work(change)) !== false) this.done.push(change);
      } catch (error) {
        this.failed.push({ path: change.path, action: change.action, problem: messageOf(error) });
      }
    }
  }
}

/** More links than the system follows lead nowhere. */
const MAX_LINKS = 40;

const NO_NAMES = new Set(['', '.', '..']);

/** Whether a link ends up inside the folder, through whatever other links it leads, also if there is nothing at its end. */
async function leadsInside(folder: string, linkPath: string): Promise<boolean> {
  const pending = linkPath.split('/');
  const reached: string[] = [];
  let links = 0;
  while (pending.length > 0 && links <= MAX_LINKS) {
    const part = pending.shift() ?? '';
    if (part === '..' && reached.pop() === undefined) return false;
    if (NO_NAMES.has(part)) continue;
    const target = await readTarget(join(folder, ...reached, part));
    if (target === undefined) {
      reached.push(part);
      continue;
    }
    links++;
    if (isAbsolute(target)) reached.length = 0;
    pending.unshift(...(isAbsolute(target) ? relative(folder, target) : target).split('/'));
  }
  return true;
}

async function readTarget(path: string): Promise<string | undefined> {
  try {
    return (await lstat(path)).isSymbolicLink() ? await readlink(path) : undefined;
  } catch {
    return undefined; // nothing is there, so nothing leads on
  }
}
