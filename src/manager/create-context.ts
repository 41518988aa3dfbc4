import { InvalidInputError } from '../core/errors.ts';
import { StateCodec } from '../core/state-codec.ts';
import { isCheckpointStorage } from '../storage/whole/checkpoint-storage.ts';
import { WholeCheckpointStorage } from '../storage/whole/whole-storage.ts';
import type { ManagerContext } from './context.ts';
import { type EventName, Events } from './events.ts';
import type { CheckpointManagerOptions } from './manager-options.ts';
import { Migrations } from './migrations.ts';
import { createPorts } from './ports.ts';
import { createRedactor } from './redaction.ts';
import { Repository } from './repository.ts';
import { ShadowBudget } from './shadow-budget.ts';

const DEFAULT_SHADOW_BUDGET_BYTES = 256 * 1024 * 1024;

/** Makes what the parts of a manager share from what its user gave. */
export function createContext(options: CheckpointManagerOptions): ManagerContext {
  const { storage: given, secrets, schemaVersion, migrations, now, random, setTimer } = options;
  if (typeof given !== 'object' || given === null) throw new InvalidInputError('A CheckpointManager needs a storage.');
  const redaction = secrets === 'store-secrets-in-plain-text' ? {} : { redact: createRedactor(secrets) };
  const codec = new StateCodec({ classes: options.classes, limits: options.limits, ...redaction });
  const plainCodec = new StateCodec({ classes: options.classes, limits: options.limits });
  const storage = isCheckpointStorage(given) ? new WholeCheckpointStorage(given, plainCodec) : given;
  return {
    storage,
    repository: new Repository(storage),
    codec,
    plainCodec,
    events: new Events(options.onHandlerError ?? warnAboutHandler),
    ports: createPorts({ now, random, setTimer }),
    shadows: new ShadowBudget(options.shadowBudgetBytes ?? DEFAULT_SHADOW_BUDGET_BYTES),
    migrations: new Migrations(schemaVersion, migrations),
    endings: new Set(),
  };
}

function warnAboutHandler(error: unknown, event: EventName): void {
  process.emitWarning(
    `A handler of ${event} failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
    'SavestateWarning',
  );
}
