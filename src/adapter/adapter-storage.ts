import { withoutUndefined } from '../core/defined.ts';
import { InvalidInputError } from '../core/errors.ts';
import {
  anything,
  callback,
  checkOptions,
  describeValue,
  isRecord,
  listOf,
  type OptionChecks,
  record,
  refuseFurther,
  wholeFrom,
} from '../core/options.ts';
import { type RedactionOptions, secretsOption } from '../core/secret/redaction.ts';
import type { ClassCodec } from '../core/value/class-codec.ts';
import type { ValueLimits } from '../core/value/format.ts';
import { manager } from '../manager/call-options.ts';
import type { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { Engine, engineOf } from '../manager/engine/engine.ts';
import type { ChunkStorage } from '../storage/contract.ts';

/** Where and how an adapter keeps its states: in a storage of their own settings, or as a manager says. */
export type AdapterStorageOptions =
  | {
      readonly storage: ChunkStorage;
      readonly manager?: undefined;
      /** Codecs for classes of your own that states hold; instances of other classes are refused. */
      readonly classes?: readonly ClassCodec[];
      readonly limits?: Partial<ValueLimits>;
      /** Leaves secrets out of what is saved. Off by default: what goes on would find a reference where its value was. */
      readonly secrets?: RedactionOptions;
      /** Memory for making saves cheap, over all sessions; default 256 MiB. */
      readonly shadowBudgetBytes?: number;
      /** The clock, for tests. */
      readonly now?: () => number;
    }
  | {
      /** Its storage, classes, secrets, events and retention are used. */
      readonly manager: CheckpointManager;
      readonly storage?: undefined;
    };

/** Takes a storage for the options that name it alone; throws for what is neither, and for further arguments. */
export function toOptions<Options extends AdapterStorageOptions>(
  [given, ...further]: readonly [ChunkStorage | Options, ...unknown[]],
  more: OptionChecks,
  of: string,
): Options | { storage: ChunkStorage } {
  if (typeof given !== 'object' || given === null) throw noStorage(given);
  refuseFurther(further, of, 'Options go beside the storage: { storage, ... }');
  if ('commit' in given) return { storage: given };
  if (given.manager === undefined && typeof given.storage?.commit !== 'function')
    throw noStorage(given.storage ?? given);
  checkOptions(given, { ...(given.manager === undefined ? OF_STORAGE : OF_MANAGER), ...more }, of);
  return given;
}

const OF_MANAGER = { manager };

const OF_STORAGE = {
  storage: record,
  manager: anything,
  // What is in them is checked by the engine.
  classes: listOf(record),
  limits: record,
  secrets: secretsOption,
  shadowBudgetBytes: wholeFrom(0),
  now: callback,
};

/** What stands for all that options say: the manager, or a storage without settings; undefined if there are more. */
export function placeOf({ manager, storage, ...rest }: AdapterStorageOptions): object | undefined {
  return manager ?? (Object.keys(OF_STORAGE).some((setting) => setting in rest) ? undefined : storage);
}

function noStorage(found: unknown): InvalidInputError {
  const fields = isRecord(found) ? ` with ${Object.keys(found).join(', ') || 'no fields'}` : '';
  return new InvalidInputError(
    `A storage, { storage, ... } or { manager, ... } is needed; found ${describeValue(found)}${fields}. Give a storage, such as new SqliteCheckpointStorage({ path }), or a manager.`,
    { details: { field: 'storage' } },
  );
}

/** Opens what an adapter builds on; `ownClasses` are those that its framework's states hold. */
export function openAdapterEngine(options: AdapterStorageOptions, ownClasses: readonly ClassCodec[] = []): Engine {
  if (options.manager !== undefined) return engineOf(options.manager).withoutMigrations();
  const { storage, classes = [], secrets = 'store-secrets-in-plain-text', limits, shadowBudgetBytes, now } = options;
  const settings = withoutUndefined({ limits, shadowBudgetBytes, now });
  const engine = Engine.open({ storage, classes: [...ownClasses, ...classes], secrets, ...settings });
  engine.finishing.replacement = async (...given) =>
    (await import('../manager/transfer/replace-session.ts')).finishReplacement(...given);
  return engine;
}
