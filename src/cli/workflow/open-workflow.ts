import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { InvalidInputError } from '../../core/errors.ts';
import { SETTINGS } from '../../runtime/config/config-schema.ts';
import { yamlSource } from '../../runtime/config/yaml-source.ts';
import { parseWorkflow } from '../../runtime/workflow/definition/parse-workflow.ts';
import type { WorkflowRegistry } from '../../runtime/workflow/definition/registry.ts';
import type { Workflow } from '../../runtime/workflow/definition/workflow.ts';
import type { Context } from '../base/context.ts';
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
  return { workflow, settings };
}

/** Whether a file holds settings and no workflow: no steps, and nothing else that a definition has. */
export async function isSettingsFile(context: Context, file: string): Promise<boolean> {
  const { data } = yamlSource(readText(resolve(context.folder, file), 'workflow file'));
  if (typeof data !== 'object' || data === null) return false;
  const { workflow } = data as { workflow?: unknown };
  const keys = typeof workflow === 'object' && workflow !== null ? Object.keys(workflow) : [];
  const isDefinition = keys.some((key) => ['name', 'description', 'checkpoint', 'output'].includes(key));
  return Object.keys(data).every((key) => Object.hasOwn(SETTINGS.top, key)) && !isDefinition;
}

/** The module with the code behind a workflow: the one named, else the one beside it with the same name; undefined if there is none. */
export function findRegistryPath(context: Context, file: string, named: string | undefined): string | undefined {
  if (named !== undefined) return resolveFile(context.folder, named);
  const base = resolve(context.folder, file).replace(/\.ya?ml$/, '');
  const found = ['.mjs', '.js'].map((ending) => `${base}${ending}`).find((path) => existsSync(path));
  return found && requireBeside(resolve(context.folder, file), found);
}

/** The code behind a workflow: what a module exports as `registry`, or what its `createRegistry` answers. */
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
