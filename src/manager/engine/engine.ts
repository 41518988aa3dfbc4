import { randomBytes } from 'node:crypto';
import { StateCodec } from '../../core/codec/state-codec.ts';
import { InvalidInputError } from '../../core/errors.ts';
import { describeValue } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import {
  type CheckpointId,
  type CheckpointIds,
  createCheckpointIds,
  inBulk,
  type SessionId,
} from '../../core/record/id.ts';
import { redactionOf, type SecretsOption } from '../../core/secret/redaction.ts';
import { type SetTimer, setProcessTimer } from '../../core/time/timer.ts';
import type { ClassCodec, UnknownClasses } from '../../core/value/class-codec.ts';
import type { ValueLimits } from '../../core/value/format.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { type CheckpointStorage, isCheckpointStorage } from '../../storage/whole/checkpoint-storage.ts';
import { WholeCheckpointStorage } from '../../storage/whole/whole-storage.ts';
import { Events, type FailureSource, type Telemetry, type TracedOutcome, type TracedWork } from './events.ts';
import { type Migration, Migrations } from './loading.ts';
import { CURRENT, DEFAULT_BRANCH } from './records.ts';
import { Repository } from './repository.ts';
import { REPORT_TYPE } from './save-options.ts';
import { Writer } from './writer.ts';

const DEFAULT_SHADOW_BUDGET_BYTES = 256 * 1024 * 1024;

/** How an engine is made. */
export type EngineOptions = {
  /** One of ours, a byte-level storage of your own, or any object that can save, load and list whole checkpoints. */
  readonly storage: ChunkStorage | CheckpointStorage;
  /** Codecs for classes that may occur inside states. */
  readonly classes?: readonly ClassCodec[] | undefined;
  /** What becomes of instances of other classes when they are read; default `refuse`. With `keep` they are saved again as they were: for tools. */
  readonly unknownClasses?: UnknownClasses | undefined;
  readonly limits?: Partial<ValueLimits> | undefined;
  /** The version of the states this program saves; older ones go through `migrations` when restored. Without one, a save keeps the version of its parent. */
  readonly schemaVersion?: number | undefined;
  readonly migrations?: readonly Migration[] | undefined;
  /** Secrets are left out of checkpoints. Add keys and patterns, or, knowing what it means, switch it off. */
  readonly secrets?: SecretsOption | undefined;
  /** Memory for making saves cheap, over all sessions; default 256 MiB. Beyond it the next save of a session costs its whole size. */
  readonly shadowBudgetBytes?: number | undefined;
  /** Gets what an event handler throws, and with `retention` why retention failed after a save; default: a process warning. What it throws is a warning, too. */
  readonly onHandlerError?: ((error: unknown, source: FailureSource) => void) | undefined;
  /** Follows saves, steps and restores: `await openTelemetry()` of `savestate/opentelemetry`. Default: nobody does. */
  readonly telemetry?: Telemetry | undefined;
  /** The clock, for tests. */
  readonly now?: (() => number) | undefined;
  /** Random bytes for ids, for tests. */
  readonly random?: ((sizeBytes: number) => Uint8Array) | undefined;
  /** Timers, for tests that tell the time. */
  readonly setTimer?: SetTimer | undefined;
};

/** Where a save is to go; the branch may be found on the way. */
export type SavePlace = { readonly sessionId: SessionId; readonly branch?: string | undefined };

/** What hears of every save that is durable, and cleans up behind it. */
export type AfterSaves = {
  note(checkpoint: Checkpoint): Promise<void>;
  /** Resolves when what was noted until now is done. */
  settled(): Promise<void>;
};

const KEEP_ALL: AfterSaves = { note: () => Promise.resolve(), settled: () => Promise.resolve() };

type EngineParts = Omit<
  { readonly [Key in keyof Engine as Engine[Key] extends (...given: never[]) => unknown ? never : Key]: Engine[Key] },
  'cutsSinceMs'
>;

/** Remembers something of sessions, and hears when one is deleted or moved. */
export type SessionKeeper = {
  /** The session was deleted. */
  forget(sessionId: SessionId): void;
  /** Deletes a session, unless something is under way in it; what begins meanwhile waits. Returns whether it was deleted. */
  whileIdle(sessionId: SessionId, end: () => Promise<boolean>): Promise<boolean>;
  /** The branches that are open for saves: retention ends them only with their whole session. */
  readonly openBranches?: Iterable<{ readonly id: SessionId; readonly branch: string }>;
  /**
   * Notes where the session stands: another branch is current now, or it is about to be deleted. What is returned is called when it was
   * deleted.
   */
  noteStanding?(sessionId: SessionId): Promise<() => Promise<void>>;
  /** Deletes what it keeps of a user, or with `isDryRun` only counts; returns how much that is. */
  forgetUser?(userId: string, isDryRun: boolean): Promise<number>;
};

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
  /** The groups that are being saved here. */
  readonly cuts: Set<{ readonly sinceMs: number }>;
  /** How something that was killed is finished: whoever opens an engine says so, for the engine knows no transfers. */
  readonly finishing: { replacement?: (engine: Engine, sessionId: SessionId) => Promise<boolean> };
  readonly telemetry: Telemetry | undefined;
  #afterSaves: AfterSaves;

  private constructor(parts: EngineParts, afterSaves: AfterSaves) {
    this.storage = parts.storage;
    this.repository = parts.repository;
    this.codec = parts.codec;
    this.plainCodec = parts.plainCodec;
    this.events = parts.events;
    this.ports = parts.ports;
    this.shadows = parts.shadows;
    this.migrations = parts.migrations;
    this.keepers = parts.keepers;
    this.cuts = parts.cuts;
    this.finishing = parts.finishing;
    this.telemetry = parts.telemetry;
    this.#afterSaves = afterSaves;
  }

  static open(options: EngineOptions): Engine {
    const { storage: given, secrets, schemaVersion, migrations, now, random, setTimer } = options;
    const { classes, unknownClasses, limits } = options;
    const plainCodec = new StateCodec({ classes, unknownClasses, limits });
    const storage = isCheckpointStorage(given) ? new WholeCheckpointStorage(given, plainCodec) : given;
    const parts = {
      storage,
      repository: new Repository(storage),
      codec: new StateCodec({ classes, unknownClasses, limits, ...redactionOf(secrets) }),
      plainCodec,
      events: new Events(options.onHandlerError),
      ports: createPorts({ now, random, setTimer }),
      shadows: new ShadowBudget(options.shadowBudgetBytes ?? DEFAULT_SHADOW_BUDGET_BYTES),
      migrations: new Migrations(schemaVersion, migrations),
      keepers: new Set<SessionKeeper>(),
      cuts: new Set<{ readonly sinceMs: number }>(),
      finishing: {},
      telemetry: options.telemetry,
    };
    return new Engine(parts, KEEP_ALL);
  }

  /** The same storage, events and retention without the caller's migrations: for states that are not the caller's. */
  withoutMigrations(): Engine {
    return new Engine({ ...this, migrations: new Migrations(undefined) }, this.#afterSaves);
  }

  /** The same, but what it commits goes through another storage. */
  through(storage: ChunkStorage): Engine {
    return new Engine({ ...this, storage }, this.#afterSaves);
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
  async currentBranch(sessionId: SessionId): Promise<string> {
    return (await this.repository.readRef(sessionId, CURRENT.kind, CURRENT.name)) ?? DEFAULT_BRANCH;
  }

  /** What cleans up behind saves from now on. Until this is called everything is kept. */
  cleanUpBy(afterSaves: AfterSaves): void {
    this.#afterSaves = afterSaves;
  }

  /**
   * The one way to store checkpoints. The work is begun before this returns, and may read a state first. When it is over, and with it
   * whatever order it kept, handlers are told of what it stored, and so is what cleans up behind saves; if it is a save and fails, of that.
   */
  write<Result>(work: (writer: Writer) => Promise<Result>, save?: SavePlace): Promise<Result> {
    const writer = new Writer(this);
    if (save === undefined || this.telemetry === undefined) return this.#write(work, writer, save);
    return this.trace({ kind: 'save', sessionId: save.sessionId }, async (tell) => {
      const result = await this.#write(work, writer, save);
      tell({ checkpoint: writer.stored.at(-1) });
      return result;
    });
  }

  /** Runs something that somebody may want to follow. */
  trace<Result>(work: TracedWork, run: (tell: (outcome: TracedOutcome) => void) => Promise<Result>): Promise<Result> {
    return this.telemetry === undefined ? run(() => undefined) : this.telemetry.trace(work, run);
  }

  async #write<Result>(
    work: (writer: Writer) => Promise<Result>,
    writer: Writer,
    save: SavePlace | undefined,
  ): Promise<Result> {
    try {
      return await work(writer);
    } catch (error) {
      if (save !== undefined) {
        const { sessionId, branch = DEFAULT_BRANCH } = save;
        await this.events.emit('save_failed', error, { sessionId, branch: writer.branch ?? branch });
      }
      throw error;
    } finally {
      for (const checkpoint of writer.stored) if (checkpoint.type !== REPORT_TYPE) await this.#tell(checkpoint);
    }
  }

  async #tell(checkpoint: Checkpoint): Promise<void> {
    await this.events.emit('checkpoint_saved', checkpoint);
    await this.#afterSaves.note(checkpoint);
  }

  /** Since when groups are being saved here; `Infinity` if none is. */
  get cutsSinceMs(): number {
    return Math.min(...[...this.cuts].map(({ sinceMs }) => sinceMs));
  }

  /** Resolves when what cleans up behind saves is done. */
  settled(): Promise<void> {
    return this.#afterSaves.settled();
  }

  /** Lets keepers note where a session stands; what is returned, that it was deleted there. */
  async noteStanding(sessionId: SessionId): Promise<() => Promise<void>> {
    const ends: (() => Promise<void>)[] = [];
    for (const keeper of this.keepers) ends.push((await keeper.noteStanding?.(sessionId)) ?? (async () => undefined));
    return async () => {
      for (const noteEnd of ends) await noteEnd();
    };
  }

  /** Deletes a session while nothing is under way in it here; returns whether it did. */
  async endSession(sessionId: SessionId, end: () => Promise<boolean>): Promise<boolean> {
    const noteEnd = await this.noteStanding(sessionId);
    const run = [...this.keepers].reduce((inner, keeper) => () => keeper.whileIdle(sessionId, inner), end);
    const isEnded = await run();
    if (isEnded) await noteEnd();
    return isEnded;
  }
}

/** The engine of a manager; throws an InvalidInputError for anything else. */
export function engineOf(manager: { readonly engine: Engine }): Engine {
  if (manager?.engine instanceof Engine) return manager.engine;
  throw new InvalidInputError('This is not a CheckpointManager of this copy of savestate.');
}

/** What the manager takes from the outside world; injected in tests, so that time and ids can be told. */
export type ManagerPorts = {
  readonly now: () => number;
  readonly nextId: CheckpointIds;
  readonly setTimer: SetTimer;
};

/** The real clock, randomness and timers, where the caller gave none. */
export function createPorts({
  now: given,
  random = inBulk(randomBytes),
  setTimer = setProcessTimer,
}: Pick<EngineOptions, 'now' | 'random' | 'setTimer'> = {}): ManagerPorts {
  const now = given === undefined ? Date.now : () => checkTime(given());
  return { now, nextId: createCheckpointIds({ now, randomBytes: random }), setTimer };
}

/** The year 10,000: times of ids and headers have room for more. */
const MAX_TIME_MS = 253_402_300_800_000;

/** Accepts what a clock of the caller tells, or throws before it is stored. */
function checkTime(ms: unknown): number {
  if (typeof ms === 'number' && ms >= 0 && ms < MAX_TIME_MS) return ms;
  throw new InvalidInputError(
    `now() must return milliseconds since 1970, as Date.now() does; found ${describeValue(ms)}.`,
  );
}

/** Something that remembers a state only to make the next save cheap, and can do without. */
export interface ShadowHolder {
  forgetShadow(): void;
}

/** Shadows take at most about this many bytes for each byte of state (measured: 5,000 messages of 1.3 KB, 2.3). */
const BYTES_PER_STATE_BYTE = 2.4;

/** Bounds the memory that shadows of all sessions take together; forgets the least recently used first. */
export class ShadowBudget {
  readonly #maxBytes: number;
  readonly #sizes = new Map<ShadowHolder, number>();
  #totalBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get totalBytes(): number {
    return this.#totalBytes;
  }

  /** Notes that a holder has just used a shadow of a state this large. */
  touch(holder: ShadowHolder, stateBytes: number): void {
    this.release(holder);
    const bytes = stateBytes * BYTES_PER_STATE_BYTE;
    this.#sizes.set(holder, bytes);
    this.#totalBytes += bytes;
    for (const oldest of this.#sizes.keys()) {
      if (this.#totalBytes <= this.#maxBytes || oldest === holder) break;
      this.release(oldest);
      oldest.forgetShadow();
    }
  }

  release(holder: ShadowHolder): void {
    this.#totalBytes -= this.#sizes.get(holder) ?? 0;
    this.#sizes.delete(holder);
  }
}
