import { dirname, relative, resolve } from 'node:path';
import { NotFoundError } from '../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../core/id.ts';
import type { Context } from '../context.ts';

/** Where the definition and the code of a run were, when it was begun here. */
export type WorkflowPlace = { readonly file: string; readonly registry: string | undefined };

/**
 * What the metadata of a run says of its files, so that it can be continued by its session alone: from other folders too, if there is a
 * savestate.yaml, and by others who have the project elsewhere.
 */
export async function toMetadata(context: Context, place: WorkflowPlace): Promise<Readonly<Record<string, unknown>>> {
  const base = await baseOf(context);
  const toStored = (path: string) => relative(base, resolve(context.folder, path));
  return {
    workflowFile: toStored(place.file),
    ...(place.registry !== undefined && { workflowRegistry: toStored(place.registry) }),
  };
}

async function baseOf(context: Context): Promise<string> {
  const found = await context.config();
  return found === undefined ? context.folder : dirname(found.path);
}

/** Where the workflow of a session is; undefined if the session holds something else. */
export async function findWorkflowRun(context: Context, sessionId: SessionId): Promise<WorkflowPlace | undefined> {
  const workspace = await context.workspace();
  const branch = await workspace.currentBranch(sessionId);
  const headId = await workspace.findName(sessionId, 'branch', branch);
  if (headId === undefined)
    throw new NotFoundError(`There is no session "${sessionId}" in this storage.`, { details: { sessionId } });
  return findWorkflowPlace(context, headId);
}

/** Where the workflow of a checkpoint is; undefined if it holds something else. */
export async function findWorkflowPlace(context: Context, id: CheckpointId): Promise<WorkflowPlace | undefined> {
  const workspace = await context.workspace();
  const state: unknown = await workspace.manager.load(id);
  const isRun = typeof state === 'object' && state !== null && 'kind' in state && state.kind === 'workflow_run';
  if (!isRun) return undefined;
  const { sessionId, metadata } = await workspace.openCheckpoint(id);
  const { workflowFile, workflowRegistry } = metadata ?? {};
  const base = await baseOf(context);
  if (typeof workflowFile === 'string')
    return {
      file: resolve(base, workflowFile),
      registry: typeof workflowRegistry === 'string' ? resolve(base, workflowRegistry) : undefined,
    };
  throw new NotFoundError(
    `Session "${sessionId}" is the run of a workflow that a program began. Name its file: savestate run <file> --session ${sessionId}`,
    { details: { sessionId } },
  );
}
