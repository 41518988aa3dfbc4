import { CheckpointManager } from '../../../src/manager/checkpoint-manager.ts';
import type { Lease } from '../../../src/manager/lease/lease.ts';
import type { Session } from '../../../src/manager/session/session.ts';
import { Workers } from '../../../src/manager/workers/workers.ts';
import type { ChunkStorage, Commit } from '../../../src/storage/contract.ts';
import { encrypted } from '../../../src/storage/encryption/encrypted.ts';
import { Keyring } from '../../../src/storage/encryption/keyring.ts';
import { FileCheckpointStorage } from '../../../src/storage/file/file-storage.ts';
import type { FileSystem } from '../../../src/storage/file/file-system.ts';
import { InMemoryCheckpointStorage } from '../../../src/storage/memory/memory-storage.ts';
import { createRandom, type Random } from '../../../src/testing/contract/random.ts';
import { TestClock } from '../../support/clock.ts';
import { SimulatedDisk } from '../../support/simulated-disk.ts';
import { CHANGING_OPERATIONS, type OperationFault } from '../../support/simulated-file-system.ts';
import { isExpected } from './model.ts';

/** A bug that is put between the manager and what it works on. Those who check the outcome work without it. */
export type PlantedBug = {
  /** Where it can be planted; default: anywhere. */
  readonly kind?: StorageKind;
  readonly fileSystem?: (fileSystem: FileSystem) => FileSystem;
  readonly storage?: (storage: ChunkStorage, fileSystem: FileSystem) => ChunkStorage;
};

export type StorageKind = 'file' | 'encrypted' | 'memory';

/** Where a store is on the disk: the one that is worked on, and the one that sessions are brought to. */
export const STORES = { main: '/data/main', other: '/data/other' } as const;
export type StoreName = keyof typeof STORES;

const EVERY_OPERATION = [...CHANGING_OPERATIONS, 'read'] as const;
const STOPPED: OperationFault = { on: EVERY_OPERATION, nth: 1, code: 'STOP', isSticky: true };
const MAX_TURNS = 6;
const keys = Keyring.create();

const never = <T>(): Promise<T> => new Promise(() => undefined);

/** Lets everybody else have some turns of the event loop. */
export async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise(setImmediate);
}

/** How a call ended, as its caller knows it. A process that died knows nothing. */
export type Outcome<T> =
  | { readonly kind: 'done'; readonly value: T }
  | { readonly kind: 'failed'; readonly error: unknown }
  | { readonly kind: 'unknown' };

/** One process of the simulated machine, with what it has open. */
export class SimulatedProcess {
  readonly manager: CheckpointManager;
  readonly other: CheckpointManager;
  readonly workers: Workers;
  readonly sessions = new Map<string, Promise<Session>>();
  readonly leases = new Map<string, Lease>();
  /** Where it asks for a lease right now. */
  readonly leasing = new Set<string>();
  readonly #faults: OperationFault[] = [];
  readonly #end: () => void;
  #die: () => void = () => undefined;
  readonly #died = new Promise<{ readonly kind: 'unknown' }>((resolve) => {
    this.#die = () => resolve({ kind: 'unknown' });
  });
  isDead = false;
  /** Takes part in groups. */
  isMember = false;
  /** Its next checkpoint is stored, and it dies before it hears of that. */
  diesAfterCommit = false;

  /** Without a bug it is one that checks, and nobody else is at work meanwhile. */
  constructor(world: World, seed: number, bug?: PlantedBug) {
    const { clock, disk } = world;
    const plain = disk.fileSystem({ ...(bug && { seed }), faults: this.#faults });
    this.#end = () => disk.endProcess(plain);
    const fileSystem = bug?.fileSystem?.(plain) ?? plain;
    const random = createRandom(seed);
    const bytes = (size: number) => Uint8Array.from({ length: size }, () => random.below(256));
    const manage = (name: StoreName) => {
      const storage = this.#killable(world, world.open(name, fileSystem), random);
      return new CheckpointManager({
        storage: bug?.storage?.(storage, fileSystem) ?? storage,
        now: clock.now,
        random: bytes,
        setTimer: (run, options) => clock.setTimer(() => this.isDead || run(), options),
        onHandlerError: (error) => isExpected(error) || world.faults.push(`behind a save: ${error}`),
      });
    };
    this.manager = manage('main');
    this.other = manage('other');
    this.workers = new Workers(this.manager);
  }

  /** The end, as after `kill -9`: nothing that is under way goes on, and nobody hears how it ended. */
  kill(): void {
    this.isDead = true;
    this.#faults.push(STOPPED);
    this.#end();
    this.#die();
  }

  /** Makes a call and says how it ended, at the latest when the process dies. */
  call<T>(work: () => Promise<T>): Promise<Outcome<T>> {
    const ended = work().then(
      (value): Outcome<T> => ({ kind: 'done', value }),
      (error: unknown): Outcome<T> => ({ kind: 'failed', error }),
    );
    return Promise.race([ended, this.#died]);
  }

  /** The same storage, that a dead process gets no answer of; a storage without a disk lets others have their turn. */
  #killable(world: World, storage: ChunkStorage, random: Random): ChunkStorage {
    const pause = () => (storage.kind === 'memory' ? turns(random.below(MAX_TURNS)) : undefined);
    return new Proxy(storage, {
      get: (inner, key) => {
        const value: unknown = Reflect.get(inner, key);
        if (typeof value !== 'function') return value;
        return async (...given: unknown[]) => {
          await pause();
          if (this.isDead) return never();
          const result: unknown = await Reflect.apply(value, inner, given);
          const isSaved = key === 'commit' && (given[0] as Commit).checkpoint !== undefined;
          if (this.diesAfterCommit && isSaved) world.kill(this);
          await pause();
          return this.isDead ? never() : result;
        };
      },
    });
  }
}

/** A machine with a disk, a clock and some processes, all of which go by one seed. */
export class World {
  readonly clock = new TestClock();
  readonly random: Random;
  readonly kind: StorageKind;
  readonly faults: string[] = [];
  disk = new SimulatedDisk();
  processes: SimulatedProcess[] = [];
  readonly #bug: PlantedBug;
  /** What a storage without a disk keeps: it survives its processes, and no power cut. */
  readonly #memory = { main: new InMemoryCheckpointStorage(), other: new InMemoryCheckpointStorage() };

  constructor(seed: number, kind: StorageKind, bug: PlantedBug = {}) {
    this.random = createRandom(seed);
    this.kind = kind;
    this.#bug = bug;
  }

  open(name: StoreName, fileSystem: FileSystem): ChunkStorage {
    if (this.kind === 'memory') return this.#memory[name];
    const storage = new FileCheckpointStorage({ path: STORES[name], fileSystem });
    return this.kind === 'encrypted' ? encrypted(storage, { keys }) : storage;
  }

  start(): SimulatedProcess {
    const process = new SimulatedProcess(this, this.random.below(2 ** 31), this.#bug);
    this.processes.push(process);
    return process;
  }

  kill(process: SimulatedProcess): void {
    process.kill();
    this.processes = this.processes.filter((other) => other !== process);
  }

  /** Ends all processes at once; the disk keeps what was synced, and maybe some of the rest. */
  cutPower(): void {
    for (const process of this.processes) this.kill(process);
    this.disk = this.disk.cutPower(this.random.below(2 ** 31));
  }

  /** A process without the planted bug, which ends when the work does. */
  async inspect<T>(work: (process: SimulatedProcess) => Promise<T>): Promise<T> {
    const process = new SimulatedProcess(this, this.random.below(2 ** 31));
    try {
      return await work(process);
    } finally {
      process.kill();
    }
  }
}
