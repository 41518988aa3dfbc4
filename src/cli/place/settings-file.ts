import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import type { ReadConfig } from '../../runtime/config/load-workflow-config.ts';
import type { StorageAddress } from '../../storage/open/address.ts';
import type { FoundConfig } from './config-file.ts';
import { readText, resolveFile } from './read-text.ts';

/** Settings of a project, and the file or other place they come from. */
export type FoundSettings = ReadConfig & { readonly path: string };

type Place = {
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly config: FoundConfig | undefined;
};

const SETTINGS_NAME = 'workflow.yaml';
const VARIABLES = /^SAVESTATE_(WORKFLOW|FLEET|AGENTS)_/;

/** The settings that hold here: of the file that savestate.yaml names (`settings`), else of the `workflow.yaml` of the project; undefined without any. */
export async function findSettings(place: Place): Promise<FoundSettings | undefined> {
  const path = findPath(place);
  if (path !== undefined) return readOwnSettings(path, place.env);
  const hasVariables = Object.keys(place.env).some((name) => VARIABLES.test(name));
  if (!hasVariables) return undefined;
  const { readWorkflowConfig } = await import('../../runtime/config/load-workflow-config.ts');
  return { path: 'the environment', ...readWorkflowConfig('', { env: place.env, source: 'the environment' }) };
}

function findPath({ folder, config }: Place): string | undefined {
  const base = config === undefined ? folder : dirname(config.path);
  const named = config?.config.settings;
  if (named === false) return undefined;
  if (named === undefined) {
    const path = join(base, SETTINGS_NAME);
    return existsSync(path) ? path : undefined;
  }
  const path = resolveFile(base, named);
  if (existsSync(path)) return path;
  throw new NotFoundError(`${config?.path} names the settings ${named}, and there is no such file.`, {
    details: { path },
  });
}

/** Reads the settings of a file, which may hold a workflow as well. What it leaves out, those below it may say. */
export async function readSettings(path: string, env: Place['env'], below?: ReadConfig): Promise<FoundSettings> {
  const { readWorkflowConfig } = await import('../../runtime/config/load-workflow-config.ts');
  return { path, ...readWorkflowConfig(readText(path, 'settings file'), { env, source: path }, below?.written) };
}

async function readOwnSettings(path: string, env: Place['env']): Promise<FoundSettings> {
  try {
    return await readSettings(path, env);
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    const hint = 'If the file is not for Savestate, write "settings: false" into savestate.yaml.';
    throw new InvalidInputError(`${error.message}\n${hint}`, { details: error.details, cause: error });
  }
}

/** Where settings want checkpoints to be; undefined if they say nothing about it. */
export async function addressIn(
  { path, config, written }: FoundSettings,
  { folder, env }: Pick<Place, 'folder' | 'env'>,
): Promise<StorageAddress | undefined> {
  const { storage_type: type, storage_path: at, storage_url: url } = written.workflow?.checkpointing ?? {};
  if (type === undefined && at === undefined && url === undefined) return undefined;
  const { addressOf } = await import('../../runtime/config/checkpoint-storage.ts');
  return addressOf(config.workflow.checkpointing, { env, folder: existsSync(path) ? dirname(path) : folder });
}
