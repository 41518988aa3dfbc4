import { createHash } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import type { ReadConfig, WrittenConfig } from '../../runtime/config/load-workflow-config.ts';
import { type Address, formatAddress, isRemote, parseAddress, withholding } from './address.ts';
import type { Config } from './config-schema.ts';
import { readConfigured, resolveFile } from './read-text.ts';

/** The name of the file that says where a project's checkpoints are. */
export const CONFIG_NAME = 'savestate.yaml';
/** Used when nothing says where checkpoints are. */
export const DEFAULT_STORAGE = 'sqlite:.savestate/checkpoints.db';

const SETTINGS_NAME = 'workflow.yaml';
const VARIABLES = /^SAVESTATE_(WORKFLOW|FLEET|AGENTS)_/;

/** A configuration and where it was found. */
export type FoundConfig = { readonly path: string; readonly config: Config };

/** Settings of a project, the file or other place they come from, and what the path of its storage is relative to. */
export type FoundSettings = ReadConfig & { readonly path: string; readonly folder: string };

/** Aborts when a run took as long as the settings allow; undefined if they set no limit. A timer counts whole milliseconds. */
export function timeLimitOf(settings: FoundSettings | undefined): AbortSignal | undefined {
  const seconds = settings?.config.workflow.timeout_seconds;
  return seconds === undefined ? undefined : AbortSignal.timeout(Math.ceil(seconds * 1_000));
}

type Env = Readonly<Record<string, string | undefined>>;

/** Where a command is, and what holds there. */
export type Surroundings = {
  readonly folder: string;
  readonly env: Env;
  readonly config: FoundConfig | undefined;
};

/** The path of the nearest configuration file, in this folder or one above. */
export function findConfigPath(folder: string): string | undefined {
  for (let at = folder; ; at = dirname(at)) {
    const path = join(at, CONFIG_NAME);
    if (existsSync(path)) return path;
    if (dirname(at) === at) return undefined;
  }
}

/** Reads the nearest configuration; undefined if there is none. Refuses what it does not know, by line and column. */
export async function readConfig(folder: string): Promise<FoundConfig | undefined> {
  const path = findConfigPath(folder);
  return path === undefined
    ? undefined
    : { path, config: await parseConfig(readConfigured(path, 'configuration'), path) };
}

async function parseConfig(text: string, path: string): Promise<Config> {
  const [{ yamlSource }, { checkSchema }, { problemsError }, { configSchema }] = await Promise.all([
    import('../../runtime/config/yaml-source.ts'),
    import('../../runtime/config/schema-problems.ts'),
    import('../../runtime/config/problem.ts'),
    import('./config-schema.ts'),
  ]);
  const source = yamlSource(text);
  if (source.problems.length > 0) throw problemsError(path, source.problems);
  const { value, problems } = checkSchema({ source, schema: configSchema, value: source.data ?? {}, path: [] });
  if (value === undefined) throw problemsError(path, problems);
  return value;
}

/** Changes one value of a configuration file and leaves its comments; `undefined` removes it. */
export async function writeConfigValue(path: string, key: string, value: string | undefined): Promise<void> {
  const [{ isMap }, { yamlDocument }, { problemsError }] = await Promise.all([
    import('yaml'),
    import('../../runtime/config/yaml-source.ts'),
    import('../../runtime/config/problem.ts'),
  ]);
  const before = existsSync(path) ? readConfigured(path, 'configuration') : '';
  const { document, problems } = yamlDocument(before);
  if (problems.length > 0) throw problemsError(path, problems);
  if (document.contents !== null && !isMap(document.contents)) await parseConfig(before, path); // says what it is
  if (value === undefined) document.delete(key);
  else document.set(key, value);
  const text = document.contents === null ? '' : document.toString();
  await parseConfig(text, path);
  writeFileSync(path, text);
}

/** The settings that hold here: of the file that savestate.yaml names (`settings`), else of the `workflow.yaml` of the project; undefined without any. */
export async function findSettings(place: Surroundings): Promise<FoundSettings | undefined> {
  const path = findSettingsPath(place);
  if (path !== undefined) return readOwnSettings(path, place.env);
  if (!Object.keys(place.env).some((name) => VARIABLES.test(name))) return undefined;
  const { readWorkflowConfig } = await import('../../runtime/config/load-workflow-config.ts');
  const read = readWorkflowConfig('', { env: place.env, source: 'the environment' });
  return { path: 'the environment', folder: place.folder, ...read };
}

function findSettingsPath(place: Surroundings): string | undefined {
  const named = place.config?.config.settings;
  if (named === false) return undefined;
  const path = named === undefined ? join(baseOf(place), SETTINGS_NAME) : resolveFile(baseOf(place), named);
  if (existsSync(path)) return path;
  if (named === undefined) return undefined;
  throw new NotFoundError(`${place.config?.path} names the settings ${named}, and there is no such file.`, {
    details: { path },
  });
}

/** Reads the settings of a file, which may hold a workflow as well. What it leaves out, those below it may say. */
export async function readSettings(path: string, env: Env, below?: FoundSettings): Promise<FoundSettings> {
  const { readWorkflowConfig } = await import('../../runtime/config/load-workflow-config.ts');
  const read = readWorkflowConfig(readConfigured(path, 'settings file'), { env, source: path }, below?.written);
  const isBelow = below?.written.workflow?.checkpointing !== undefined && !namesStorage(read.own);
  return { path, folder: isBelow ? below.folder : dirname(path), ...read };
}

/** Whether settings say themselves where checkpoints are. */
function namesStorage({ workflow }: WrittenConfig): boolean {
  const { storage_type: type, storage_path: path, storage_url: url } = workflow?.checkpointing ?? {};
  return type !== undefined || path !== undefined || url !== undefined;
}

async function readOwnSettings(path: string, env: Env): Promise<FoundSettings> {
  try {
    return await readSettings(path, env);
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    const hint = 'If the file is not for Savestate, write "settings: false" into savestate.yaml.';
    throw new InvalidInputError(`${error.message}\n${hint}`, { details: error.details, cause: error });
  }
}

/** Where settings with `checkpointing` want checkpoints to be, or undefined without it. What it leaves out has its default; savestate.yaml wins over that. */
async function addressIn(
  { path, folder, config: { workflow }, written }: FoundSettings,
  { env, config }: Surroundings,
): Promise<Address | undefined> {
  const isDefault = written.workflow?.checkpointing !== undefined && config?.config.storage === undefined;
  if (!isDefault && !namesStorage(written)) return undefined;
  const { addressOf } = await import('../../runtime/config/checkpoint-storage.ts');
  return withholding(addressOf(workflow.checkpointing, { env, folder }), { env, writtenIn: path });
}

/** What options say of the storage. `memory` is of the commands that have long-term memory. */
export type StorageOptions = {
  readonly [Name in 'storage' | 'remote' | 'tokenFile' | 'tenant' | 'schema' | 'memory']?: string | undefined;
};

type Sources = Surroundings & { readonly globals: StorageOptions; readonly settings: FoundSettings | undefined };

/** The storage that is meant: the option, the environment, savestate.yaml or workflow.yaml, then `.savestate/checkpoints.db`. */
export async function findAddress(sources: Sources): Promise<Address> {
  const address = await findNamed(sources);
  const { globals, env, config } = sources;
  const { tenant, schema, memory = env.SAVESTATE_MEMORY ?? config?.config.memory ?? '' } = globals;
  const [stray] = Object.keys(withoutUndefined({ tenant, schema }));
  if (stray === undefined || address.kind === 'postgres' || /^postgres(ql)?:/i.test(memory)) return address;
  throw new InvalidInputError(
    `--${stray} is for PostgreSQL; the storage is ${formatAddress(address)}. Leave it out, or name the storage: --storage postgres://<server>/<database>.`,
    { details: { option: stray } },
  );
}

async function findNamed(sources: Sources): Promise<Address> {
  const { folder, env, globals, config, settings } = sources;
  const parse = (text: string, origin: { readonly folder: string; readonly writtenIn?: string | undefined }) =>
    parseAddress(text, { ...origin, env, tokenFile: globals.tokenFile, ...tenantOf(sources) });
  const named = readNamed(sources);
  if (named !== undefined) return parse(named, { folder });
  const wanted = settings && (await addressIn(settings, sources));
  const text = config?.config.storage;
  checkConfigured(text, config);
  if (text === undefined && wanted !== undefined) return withTenant(wanted, sources);
  const found = parse(text ?? DEFAULT_STORAGE, { folder: baseOf(sources), writtenIn: config?.path });
  const configured = withTenant('path' in found ? { ...found, isConfigured: true } : found, sources);
  checkSame(configured, wanted ?? configured, sources);
  return configured;
}

/** What was named just now, for this command or this shell. */
function readNamed({ globals: { remote, storage }, env }: Sources): string | undefined {
  if (remote === undefined) return storage ?? (env.SAVESTATE_STORAGE || undefined);
  if (!isRemote(remote))
    throw new InvalidInputError(
      `--remote takes the address of a server, such as http://127.0.0.1:4321; found "${remote.replace(/#.*/s, '#...')}". A storage at hand is named with --storage.`,
    );
  if (storage === undefined) return remote;
  throw new InvalidInputError('Name the storage once: with --remote, or with --storage.');
}

function checkConfigured(text: string | undefined, config: FoundConfig | undefined): void {
  if (text === undefined || !isRemote(text) || !text.includes('#')) return;
  throw new InvalidInputError(
    `A token does not belong in ${config?.path}. Remove the part after the #. Set SAVESTATE_TOKEN and name the server with --remote, or use --token-file.`,
  );
}

function checkSame(a: Address, b: Address, { config, settings }: Sources): void {
  const [first, second] = [formatAddress(a), formatAddress(b)];
  if (first === second) return;
  throw new InvalidInputError(
    `${config?.path} says that checkpoints are at ${first}, ${settings?.path} at ${second}. Take the storage out of one of them.`,
  );
}

/** What a file says about paths is relative to it. */
function baseOf({ config, folder }: Surroundings): string {
  return config === undefined ? folder : dirname(config.path);
}

function tenantOf({ globals, env, config }: Sources) {
  const { tenant, schema } = config?.config ?? {};
  return { tenant: globals.tenant ?? env.SAVESTATE_TENANT ?? tenant, schema: globals.schema ?? schema };
}

/** The storage of the project as the options and savestate.yaml say whose data it has. Refuses a file that says so of a storage without tenants. */
function withTenant(address: Address, sources: Sources): Address {
  if (address.kind === 'postgres') return { ...address, ...withoutUndefined(tenantOf(sources)) };
  const { tenant, schema, memory = '' } = sources.config?.config ?? {};
  const stray = Object.keys(withoutUndefined({ tenant, schema })).join(', ');
  if (stray === '' || /^postgres(ql)?:/i.test(memory)) return address;
  throw new InvalidInputError(
    `${sources.config?.path} says ${stray}, which only PostgreSQL has; the storage is ${formatAddress(address)}. Take it out of the file.`,
    { details: { path: sources.config?.path } },
  );
}

/** The folder where the command line keeps what is its own about a storage: bisect, history, what it can undo. */
export function ownFolderOf(env: Env, storage: string): string {
  const base = env.XDG_STATE_HOME || join(env.HOME || homedir(), '.local', 'state');
  return join(base, 'savestate', createHash('sha256').update(storage).digest('hex').slice(0, 16));
}
