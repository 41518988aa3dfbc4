import { StateCodec } from '../../core/codec/state-codec.ts';
import { InvalidInputError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type CheckpointId, parseSessionId, type SessionId } from '../../core/record/id.ts';
import { createRedactor } from '../../core/secret/redaction.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { isCheckpointStorage } from '../../storage/whole/checkpoint-storage.ts';
import { WholeCheckpointStorage } from '../../storage/whole/whole-storage.ts';
import type { CheckpointManagerOptions } from '../manager-options.ts';
import { RetentionQueue } from '../retention/retention-queue.ts';
import { type PruneOptions, type PruneResult, RetentionRunner } from '../retention/retention-runner.ts';
import { readCurrentBranch } from './current-branch.ts';
import { Events, type FailureSource } from './events.ts';
import { Migrations } from './migrations.ts';
import { createPorts, type ManagerPorts } from './ports.ts';
import { Repository } from './repository.ts';
import { mergeRetention, type RetentionPolicy } from './retention-policy.ts';
import { ShadowBudget } from './shadow-budget.ts';

const DEFAULT_SHADOW_BUDGET_BYTES = 256 * 1024 * 1024;

/** How an engine is made: as a manager is. `keepsAll` leaves retention out, for adapters without a manager. */
export type EngineOptions = Omit<CheckpointManagerOptions, 'agents'> & { readonly keepsAll?: boolean };

type EngineParts = Pick<
  Engine,
  'storage' | 'repository' | 'codec' | 'plainCodec' | 'events' | 'ports' | 'shadows' | 'migrations' | 'keepers'
>;

/** Remembers something of sessions, and hears when one is deleted. */
export type SessionKeeper = {
  /** The session was deleted. */
  forget(sessionId: SessionId): void;
  /** Deletes a session, unless something is under way in it; what begins meanwhile waits. Returns whether it was deleted. */
  whileIdle(sessionId: SessionId, end: () => Promise<boolean>): Promise<boolean>;
};

type Retention = { readonly runner: RetentionRunner; readonly queue: RetentionQueue };

/** What everything inside this package builds on: a storage, and the one way to read it, write to it and tell of it. */
export class Engine {
  readonly storage: ChunkStorage;
  readonly repository: Repository;
  readonly codec: StateCodec;
  /** Leaves no secrets out: for what was redacted before, and for copies that stay in this process. */
  readonly plainCodec: StateCodec;
  readonly events: Events;
  readonly ports: ManagerPorts;
  readonly shadows: ShadowBudget;
  readonly migrations: Migrations;
  readonly keepers: Set<SessionKeeper>;
  readonly retention: RetentionRunner;
  readonly #queue: RetentionQueue;

  private constructor(parts: EngineParts, retention: RetentionPolicy | Retention) {
    this.storage = parts.storage;
    this.repository = parts.repository;
    this.codec = parts.codec;
    this.plainCodec = parts.plainCodec;
    this.events = parts.events;
    this.ports = parts.ports;
    this.shadows = parts.shadows;
    this.migrations = parts.migrations;
    this.keepers = parts.keepers;
    this.retention = 'queue' in retention ? retention.runner : new RetentionRunner(this, retention);
    this.#queue = 'queue' in retention ? retention.queue : this.#openQueue();
  }

  #openQueue(): RetentionQueue {
    return new RetentionQueue(this.retention, (error) => this.events.report(error, 'retention'));
  }

  static open(options: EngineOptions): Engine {
    const { storage: given, secrets, schemaVersion, migrations, now, random, setTimer } = options;
    const redaction = secrets === 'store-secrets-in-plain-text' ? {} : { redact: createRedactor(secrets) };
    const plainCodec = new StateCodec({ classes: options.classes, limits: options.limits });
    const storage = isCheckpointStorage(given) ? new WholeCheckpointStorage(given, plainCodec) : given;
    const parts = {
      storage,
      repository: new Repository(storage),
      codec: new StateCodec({ classes: options.classes, limits: options.limits, ...redaction }),
      plainCodec,
      events: new Events(options.onHandlerError ?? warnAboutFailure),
      ports: createPorts({ now, random, setTimer }),
      shadows: new ShadowBudget(options.shadowBudgetBytes ?? DEFAULT_SHADOW_BUDGET_BYTES),
      migrations: new Migrations(schemaVersion, migrations),
      keepers: new Set<SessionKeeper>(),
    };
    return new Engine(parts, options.keepsAll === true ? {} : mergeRetention(options.retention, storage));
  }

  /** The same storage, events and retention without the caller's migrations: for states that are not the caller's. */
  withoutMigrations(): Engine {
    return new Engine(
      { ...this, migrations: new Migrations(undefined) },
      {
        runner: this.retention,
        queue: this.#queue,
      },
    );
  }

  /** The checkpoint with this id or unique prefix, without its state. Throws a NotFoundError. Reads no other. */
  async open(idOrPrefix: string): Promise<Checkpoint> {
    return (await this.repository.open(idOrPrefix)).checkpoint;
  }

  /** The newest checkpoint of a branch; undefined if there is no such branch. */
  async headOf(sessionId: SessionId, branch: string): Promise<CheckpointId | undefined> {
    return (await this.repository.readRef(sessionId, 'branch', branch)) as CheckpointId | undefined;
  }

  /** The branch that a session is opened on when none is named. */
  currentBranch(sessionId: SessionId): Promise<string> {
    return readCurrentBranch(this.repository, sessionId);
  }

  /** Tells the handlers of a save that is durable, and leaves to retention what it pushed out. */
  async afterSave(checkpoint: Checkpoint): Promise<void> {
    await this.events.emit('checkpoint_saved', checkpoint);
    await this.#queue.note(checkpoint);
  }

  /** Resolves when retention has done what saves left to it. */
  settled(): Promise<void> {
    return this.#queue.settled();
  }

  /** Applies retention to everything, or to one session. */
  async prune({ sessionId, ...options }: PruneOptions): Promise<PruneResult> {
    const place = sessionId === undefined ? {} : { sessionId: parseSessionId(sessionId) };
    await this.settled();
    return this.retention.prune({ ...options, ...place });
  }

  /** Deletes a session while nothing is under way in it here; returns whether it did. */
  endSession(sessionId: SessionId, end: () => Promise<boolean>): Promise<boolean> {
    let run = end;
    for (const keeper of this.keepers) {
      const inner = run;
      run = () => keeper.whileIdle(sessionId, inner);
    }
    return run();
  }
}

/** The engine of a manager; throws an InvalidInputError for anything else. */
export function engineOf(manager: { readonly engine: Engine }): Engine {
  if (manager?.engine instanceof Engine) return manager.engine;
  throw new InvalidInputError('This is not a CheckpointManager of this copy of savestate.');
}

function warnAboutFailure(error: unknown, source: FailureSource): void {
  const what = source === 'retention' ? 'Retention after a save failed' : `A handler of ${source} failed`;
  process.emitWarning(
    `${what}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
    'SavestateWarning',
  );
}
