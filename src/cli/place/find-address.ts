import { dirname } from 'node:path';
import { InvalidInputError } from '../../core/errors.ts';
import { formatStorageAddress, parseStorageAddress, type StorageAddress } from '../../storage/open/address.ts';
import type { FoundConfig } from './config-file.ts';
import { addressIn, type FoundSettings } from './settings-file.ts';

/** Used when nothing says where checkpoints are. */
export const DEFAULT_STORAGE = 'sqlite:.savestate/checkpoints.db';

type Sources = {
  readonly globals: {
    readonly storage?: string | undefined;
    readonly tenant?: string | undefined;
    readonly schema?: string | undefined;
  };
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly config: FoundConfig | undefined;
  readonly settings: FoundSettings | undefined;
};

/** The storage that is meant: the option, the environment, savestate.yaml or workflow.yaml, then `.savestate/checkpoints.db`. */
export async function findAddress(sources: Sources): Promise<StorageAddress> {
  const { globals, env, folder, settings } = sources;
  const named = globals.storage ?? (env.SAVESTATE_STORAGE || undefined);
  if (named !== undefined) return parse(named, folder, sources);
  const wanted = settings && (await addressIn(settings, sources));
  const configured = configuredAddress(sources);
  if (configured !== undefined && wanted !== undefined) checkSame(configured, wanted, sources);
  return configured ?? wanted ?? parse(DEFAULT_STORAGE, baseOf(sources), sources);
}

function configuredAddress(sources: Sources): StorageAddress | undefined {
  const text = sources.config?.config.storage;
  return text === undefined ? undefined : parse(text, baseOf(sources), sources);
}

/** What a file says about paths is relative to it. */
function baseOf({ config, folder }: Sources): string {
  return config === undefined ? folder : dirname(config.path);
}

function parse(text: string, folder: string, { globals, env, config }: Sources): StorageAddress {
  const { tenant, schema } = config?.config ?? {};
  return parseStorageAddress(text, {
    folder,
    tenant: globals.tenant ?? env.SAVESTATE_TENANT ?? tenant,
    schema: globals.schema ?? schema,
  });
}

function checkSame(a: StorageAddress, b: StorageAddress, { config, settings }: Sources): void {
  const [first, second] = [formatStorageAddress(a), formatStorageAddress(b)];
  if (first === second) return;
  throw new InvalidInputError(
    `${config?.path} says that checkpoints are at ${first}, ${settings?.path} at ${second}. Take the storage out of one of them.`,
  );
}
