import { join, resolve } from 'node:path';
import { InvalidInputError } from '../../core/errors.ts';
import * as is from '../../core/options.ts';
import {
  checkOptions,
  checkValue,
  describeValue,
  isRecord,
  type OptionCheck,
  type OptionChecks,
} from '../../core/options.ts';
import type { CheckpointManagerOptions } from '../../manager/call-options.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import type { StorageAddress } from '../../storage/open/address.ts';
import { openStorage } from '../../storage/open/open.ts';
import { type CheckpointingSettings, checkpointingSchema, type GivenCheckpointing } from './config-schema.ts';
import { findStrayKeys } from './contradictions.ts';
import type { Environment } from './environment-overrides.ts';
import { formatProblem } from './problem.ts';
import { checkSchema } from './schema-problems.ts';
import { dataSource } from './yaml-source.ts';

/** Where references in settings (`env:NAME`) are looked up, and what their paths are relative to (default: the working folder). */
export type StorageSource = { readonly env?: Environment; readonly folder?: string };

const SOURCE: OptionChecks<StorageSource> = { env: is.record, folder: is.string };

/** The storage that settings ask for, its folder made; undefined only if they say `enabled: false`. What they leave out is as in a file. */
export async function createCheckpointStorage(
  settings: GivenCheckpointing,
  source: StorageSource = {},
): Promise<ChunkStorage | undefined> {
  checkOptions(source, SOURCE, 'createCheckpointStorage()');
  return openSettings(parseSettings(settings, 'createCheckpointStorage()'), source);
}

async function openSettings(settings: CheckpointingSettings, source: StorageSource): Promise<ChunkStorage | undefined> {
  return settings.enabled ? openStorage(addressOf(settings, source)) : undefined;
}

const WANTED = 'config.workflow.checkpointing of loadWorkflowConfig(), or settings such as { storage_type: "memory" }';

const checkpointing: OptionCheck = (value) => {
  if (!isRecord(value)) return `must be ${WANTED}; found ${describeValue(value)}`;
  const source = dataSource(value);
  const { value: settings, problems } = checkSchema({ source, schema: checkpointingSchema, value, path: [] });
  const [first] = problems;
  if (first !== undefined) return `must be ${WANTED}; found ${formatProblem(first)}`;
  const defaults = checkpointingSchema.parse({});
  const isWritten = (key: keyof CheckpointingSettings): boolean => settings?.[key] !== defaults[key];
  return findStrayKeys(settings?.storage_type ?? defaults.storage_type, isWritten)[0]?.[1];
};

function parseSettings(settings: GivenCheckpointing, of: string): CheckpointingSettings {
  checkValue(settings, checkpointing, `The settings of ${of}`);
  return checkpointingSchema.parse(settings);
}

type OpenManagerOptions = StorageSource & { readonly manager?: Omit<CheckpointManagerOptions, 'storage'> };

const OPEN: OptionChecks<OpenManagerOptions> = { ...SOURCE, manager: is.record };

/** Opens the storage and a manager on it, and prunes what is older than `cleanup_after_days`: call it when the process starts. */
export async function openCheckpointManager(
  settings: GivenCheckpointing,
  options: OpenManagerOptions = {},
): Promise<CheckpointManager | undefined> {
  checkOptions(options, OPEN, 'openCheckpointManager()');
  const parsed = parseSettings(settings, 'openCheckpointManager()');
  const storage = await openSettings(parsed, options);
  if (storage === undefined) return undefined;
  const manager = new CheckpointManager({ ...options.manager, storage });
  const { cleanup_after_days: maxAgeDays } = parsed;
  if (maxAgeDays !== undefined) await manager.cleanupOldCheckpoints({ maxAgeDays });
  return manager;
}

/** Where the storage is that settings ask for. */
export function addressOf(
  settings: CheckpointingSettings,
  { env = {}, folder = '' }: StorageSource = {},
): StorageAddress {
  const path = resolve(folder, settings.storage_path);
  switch (settings.storage_type) {
    case 'memory':
      return { kind: 'memory' };
    case 'file':
      return { kind: 'file', path, isConfigured: true };
    case 'sqlite':
      return {
        kind: 'sqlite',
        path: /\.(db|sqlite3?)$/.test(path) ? path : join(path, 'checkpoints.db'),
        isConfigured: true,
      };
    case 'postgres': {
      const url = resolveReference(settings.storage_url ?? '', env);
      return { kind: 'postgres', url, tenant: settings.storage_tenant, schema: settings.storage_schema };
    }
  }
}

function resolveReference(text: string, env: Environment): string {
  const [, name] = /^env:(.+)$/.exec(text) ?? [];
  const value = name === undefined ? text : env[name];
  if (value !== undefined && value !== '') return value;
  throw new InvalidInputError(
    name === undefined
      ? 'storage_type postgres needs a storage_url.'
      : `storage_url refers to env:${name}, and ${name} is not set.`,
    { details: { key: 'storage_url' } },
  );
}
