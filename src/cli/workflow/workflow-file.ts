import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError, NotFoundError, UnsupportedError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { SessionId } from '../../core/record/id.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { fieldsOf } from '../../manager/revision/transcript.ts';
import { SETTINGS } from '../../runtime/config/config-schema.ts';
import { yamlSource } from '../../runtime/config/yaml-source.ts';
import { parseWorkflow } from '../../runtime/workflow/definition/parse-workflow.ts';
import type { WorkflowRegistry } from '../../runtime/workflow/definition/registry.ts';
import type { Workflow } from '../../runtime/workflow/definition/workflow.ts';
import { closing } from '../base/closing.ts';
import type { CommandInput, Context, OpenStorage } from '../base/command.ts';
import { formatFlags } from '../base/command-input.ts';
import { addressExists } from '../place/address.ts';
import { BegunRuns, type WorkflowPlace } from '../place/own-files.ts';
import { type FoundSettings, readSettings } from '../place/project.ts';
import { readText, resolveFile } from '../place/read-text.ts';
import { importModule, requireBeside } from '../team/import-module.ts';

/** A workflow file: its definition, and its settings over those of the project. */
export type OpenedWorkflow = { readonly workflow: Workflow; readonly settings: FoundSettings };

/** Reads a workflow file. */
export async function openWorkflow(context: Context, file: string): Promise<OpenedWorkflow> {
  const path = resolve(context.folder, file);
  const workflow = parseWorkflow(readText(path, 'workflow file'), { source: file });
  const below = await context.settings();
  const settings = below?.path === path ? below : await readSettings(path, context.env, below);
  if (below?.path !== path) refuseStray(settings);
  return { workflow, settings };
}

/** Refuses settings of teams in a workflow file that is not the settings of the project: no team is run by it. */
function refuseStray({ path, own: { workflow = {}, ...teams } }: FoundSettings): void {
  const { max_rounds, max_stalls, max_resets } = workflow;
  const stray = Object.keys(withoutUndefined({ max_rounds, max_stalls, max_resets, ...teams }));
  if (stray.length === 0) return;
  throw new InvalidInputError(
    `${path} says ${stray.join(', ')}, which chats and fleets have; its steps do not look at it. Take it out, or write it into the settings of the project.`,
    { details: { settings: stray } },
  );
}

/** Whether a file holds settings and no workflow: no steps, and nothing else that a definition has. */
export async function isSettingsFile(context: Context, file: string): Promise<boolean> {
  const { data } = yamlSource(readText(resolve(context.folder, file), 'workflow file'));
  if (typeof data !== 'object' || data === null) return false;
  const keys = Object.keys(fieldsOf(fieldsOf(data).workflow));
  const isDefinition = keys.some((key) => ['name', 'description', 'checkpoint', 'output'].includes(key));
  return Object.keys(data).every((key) => Object.hasOwn(SETTINGS.top, key)) && !isDefinition;
}

/** Opens the storage of the run that is gone on with: a workflow file may name its own, one that was run here or is named now. */
export async function openRun(context: Context, input: CommandInput): Promise<OpenStorage> {
  const named = input.text('workflow');
  const file = named === undefined ? await findElsewhere(context) : resolve(context.folder, named);
  if (file !== undefined) await context.useSettings((await openWorkflow(context, file)).settings);
  await context.checkSaving();
  return context.open();
}

/** The file of a run that is in a storage of its own: of the session that is named, or else of the one that was used last. */
async function findElsewhere(context: Context): Promise<string | undefined> {
  const sessionId = await context.namedSession();
  const begun = (await BegunRuns.open(context)).findElsewhere(sessionId);
  if (begun === undefined || !existsSync(begun.file)) return undefined;
  const last = await findLast(context, sessionId);
  return last === undefined || (begun.at ?? '') > last ? begun.file : undefined;
}

/** When the storage of the project was saved to last, in this session or any. */
async function findLast(context: Context, sessionId: SessionId | undefined): Promise<string | undefined> {
  const address = await context.address();
  if (!addressExists(address)) return undefined;
  const opened = new CheckpointManager({ storage: await context.openAt(address, { create: false }) });
  const latest = await closing(opened, (manager) => manager.latest(withoutUndefined({ sessionId })));
  return latest?.timestamp.toISOString();
}

/** The module with the code behind a workflow: the one named, else the one beside it with the same name; undefined if there is none. */
export function findRegistryPath(context: Context, file: string, named: string | undefined): string | undefined {
  if (named !== undefined) return resolveFile(context.folder, named);
  const base = resolve(context.folder, file).replace(/\.ya?ml$/, '');
  const found = ['.mjs', '.js'].map((ending) => `${base}${ending}`).find((path) => existsSync(path));
  return found && requireBeside(resolve(context.folder, file), found);
}

/** The code behind a workflow: what a module exports as `registry`, or what its `createRegistry` returns. */
export async function openWorkflowRegistry(context: Context, path: string | undefined): Promise<WorkflowRegistry> {
  if (path === undefined) return {};
  const { registry, createRegistry } = await importModule(path);
  const given: unknown = typeof createRegistry === 'function' ? await createRegistry({ env: context.env }) : registry;
  if (typeof given === 'object' && given !== null) return given;
  throw new InvalidInputError(
    `${path} exports neither "registry", with functions, agents and workflows by name, nor a function "createRegistry".`,
    { details: { path } },
  );
}

/**
 * The workflow of a checkpoint; undefined if a team saved it. What a program saved can only be continued by that program. The file and
 * module of a workflow are what the command line, this machine or savestate.yaml name, never what the checkpoint says.
 */
export async function findWorkflowPlace(
  context: Context,
  input: CommandInput,
  { id, sessionId, metadata, agentId }: Checkpoint,
): Promise<WorkflowPlace | undefined> {
  const { manager } = await context.open();
  const { kind } = fieldsOf(await manager.load(id));
  if (kind === 'group_chat' || kind === 'fleet') return undefined;
  if (kind !== 'workflow_run') throw programsOwn(sessionId);
  const [file, registry] = ['workflow', 'registry'].map((name) => {
    const named = input.text(name);
    return named === undefined ? undefined : resolve(context.folder, named);
  });
  if (file !== undefined) return { file, registry };
  const begun = (await BegunRuns.open(context)).find(sessionId) ?? (await configuredWorkflow(context));
  if (begun !== undefined) return { ...begun, ...(registry !== undefined && { registry }) };
  const hint = typeof metadata?.workflowFile === 'string' ? `, from a file "${metadata.workflowFile}"` : '';
  throw new NotFoundError(
    `Session "${sessionId}" is a run of the workflow "${agentId}"${hint}, which was not begun here, and files that a checkpoint names are not loaded. Name the file yourself: savestate run <file>${formatFlags({ session: sessionId })}, or --workflow <file> with --registry <module> for its code.`,
    { details: { sessionId } },
  );
}

function programsOwn(sessionId: SessionId): UnsupportedError {
  return new UnsupportedError(
    `Session "${sessionId}" was saved by a program of yours, not by a team or a workflow, so only that program can continue it: run it again, and it goes on from the head of the current branch.
To look: savestate log, savestate show. To continue from elsewhere: savestate rewind <revision>, or savestate fork <revision> and savestate switch <branch>; then run it.`,
    { details: { sessionId } },
  );
}

async function configuredWorkflow(context: Context): Promise<WorkflowPlace | undefined> {
  const { path = '', config } = (await context.config()) ?? {};
  if (config?.workflow === undefined) return undefined;
  const { workflow, registry } = config;
  const folder = dirname(path);
  return { file: resolve(folder, workflow), registry: registry === undefined ? undefined : resolve(folder, registry) };
}
