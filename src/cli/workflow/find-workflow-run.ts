import { dirname, resolve } from 'node:path';
import { NotFoundError } from '../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { OptionRow } from '../base/command.ts';
import type { CommandInput } from '../base/command-input.ts';
import type { Context } from '../base/context.ts';
import { BegunRuns, type WorkflowPlace } from '../place/own-files.ts';

/** The option of commands that go on with the run of a workflow. */
export const WORKFLOW_OPTION: OptionRow = [
  '--workflow <file>',
  'workflow: its file; default: the one that was run here, or what savestate.yaml names',
];

/** The workflow of a session; undefined if the session holds something else. */
export async function findWorkflowRun(
  context: Context,
  input: CommandInput,
  sessionId: SessionId,
): Promise<WorkflowPlace | undefined> {
  const opened = await context.open();
  const branch = await opened.manager.currentBranch(sessionId);
  const headId = await opened.findName(sessionId, 'branch', branch);
  if (headId === undefined)
    throw new NotFoundError(`There is no session "${sessionId}" in this storage.`, { details: { sessionId } });
  return findWorkflowPlace(context, input, headId);
}

/**
 * The workflow of a checkpoint; undefined if it holds something else. Its file and module are what the command line, this machine or
 * savestate.yaml name, never what the checkpoint says.
 */
export async function findWorkflowPlace(
  context: Context,
  input: CommandInput,
  id: CheckpointId,
): Promise<WorkflowPlace | undefined> {
  const opened = await context.open();
  const state: unknown = await opened.manager.load(id);
  const isRun = typeof state === 'object' && state !== null && 'kind' in state && state.kind === 'workflow_run';
  if (!isRun) return undefined;
  const { sessionId, metadata, agentId } = await opened.openCheckpoint(id);
  const place = await findPlace(context, input, sessionId);
  if (place !== undefined) return place;
  const hint = typeof metadata?.workflowFile === 'string' ? `, from a file "${metadata.workflowFile}"` : '';
  throw new NotFoundError(
    `Session "${sessionId}" is a run of the workflow "${agentId}"${hint}, which was not begun here, and files that a checkpoint names are not loaded. Name the file yourself: savestate run <file> --session ${sessionId}, or --workflow <file> with --registry <module> for its code.`,
    { details: { sessionId } },
  );
}

async function findPlace(
  context: Context,
  input: CommandInput,
  sessionId: SessionId,
): Promise<WorkflowPlace | undefined> {
  const registry = input.text('registry');
  const named = registry === undefined ? undefined : resolve(context.folder, registry);
  const file = input.text('workflow');
  if (file !== undefined) return { file: resolve(context.folder, file), registry: named };
  const begun = (await BegunRuns.open(context)).find(sessionId) ?? (await configuredWorkflow(context));
  return begun && { ...begun, ...(named !== undefined && { registry: named }) };
}

async function configuredWorkflow(context: Context): Promise<WorkflowPlace | undefined> {
  const { path = '', config } = (await context.config()) ?? {};
  if (config?.workflow === undefined) return undefined;
  const { workflow, registry } = config;
  const folder = dirname(path);
  return { file: resolve(folder, workflow), registry: registry === undefined ? undefined : resolve(folder, registry) };
}
