import type { Checkpoint } from '../../src/core/record/checkpoint.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { AgentLoop, type AgentLoopOptions, type LoopEvent } from '../../src/runtime/loop/index.ts';
import type { ChunkStorage } from '../../src/storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../src/storage/memory/memory-storage.ts';
import { TestClock } from '../support/clock.ts';

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;

type Given = Omit<AgentLoopOptions, 'manager' | 'agentId'> & { readonly agentId?: string };

/** A clock and a storage that outlive the processes in it. */
export class World {
  readonly clock = new TestClock();
  readonly storage: ChunkStorage;

  constructor(storage: ChunkStorage = new InMemoryCheckpointStorage()) {
    this.storage = this.clock.watch(storage);
  }

  /** A loop in a process of its own; `run: false` leaves it to the test to start it. */
  async start(options: Given, { run = true }: { readonly run?: boolean } = {}): Promise<Life> {
    const life = new Life(this);
    await life.open(options, run);
    return life;
  }

  /** A loop in a process that dies at a commit; undefined if it dies before it is open. */
  async open(dieAt: number, options: Given): Promise<Life | undefined> {
    const life = new Life(this);
    life.dieAtCommit(dieAt);
    const opened = await Promise.race([life.open(options, true).then(() => true), life.death]);
    return opened === true ? life : undefined;
  }

  /** A manager to look with. */
  look(): CheckpointManager {
    return new CheckpointManager({ storage: this.storage, now: this.clock.now, setTimer: this.clock.setTimer });
  }

  /** All live checkpoints, oldest first. */
  async history(filter: { readonly type?: string } = {}): Promise<readonly Checkpoint[]> {
    return (await this.look().list(filter, { order: 'oldest', limit: 1000 })).checkpoints;
  }
}

/** One process: it can die at any moment, and then nothing of it happens any more. */
export class Life {
  readonly events: LoopEvent[] = [];
  readonly manager: CheckpointManager;
  /** How the run ended; never rejects. */
  ended: Promise<unknown> = Promise.resolve();
  #loop: AgentLoop | undefined;
  #isDead = false;
  #commits = 0;
  #dieAt = Infinity;
  #died: () => void = () => undefined;
  /** Resolves when the process is dead. */
  readonly death = new Promise<void>((resolve) => {
    this.#died = resolve;
  });

  constructor({ clock, storage }: World) {
    this.manager = new CheckpointManager({
      storage: this.#mortal(storage),
      now: clock.now,
      setTimer: (run, timer) => clock.setTimer(() => (this.#isDead ? undefined : run()), timer),
    });
  }

  async open({ agentId = 'agent-1', ...options }: Given, run: boolean): Promise<void> {
    this.#loop = await AgentLoop.open({ manager: this.manager, agentId, ...options });
    this.#loop.on((event) => this.events.push(event));
    if (run) this.ended = this.#loop.run().catch((error: unknown) => error);
  }

  get loop(): AgentLoop {
    if (this.#loop === undefined) throw new Error('It is not open yet.');
    return this.#loop;
  }

  get commits(): number {
    return this.#commits;
  }

  kinds(): string[] {
    return this.events.map(({ kind }) => kind);
  }

  /** Dies as `kill -9` would have it. */
  die(): void {
    this.#isDead = true;
    this.#died();
  }

  /** Dies before (x.0) or after (x.5) the commit of this number is stored. */
  dieAtCommit(number: number): void {
    this.#dieAt = number;
  }

  #mortal(storage: ChunkStorage): ChunkStorage {
    return new Proxy(storage, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) =>
          name === 'commit'
            ? this.#commit(() => value.apply(target, args))
            : this.#call(() => value.apply(target, args));
      },
    });
  }

  #call(call: () => unknown): unknown {
    return this.#isDead ? NEVER : call();
  }

  async #commit(call: () => unknown): Promise<unknown> {
    this.#commits++;
    const number = this.#commits;
    if (number === this.#dieAt) this.die();
    if (this.#isDead) return NEVER;
    const result = await call();
    if (number + 0.5 === this.#dieAt) this.die();
    return this.#isDead ? NEVER : result;
  }
}

const NEVER = new Promise<never>(() => undefined);
