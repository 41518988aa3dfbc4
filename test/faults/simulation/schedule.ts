import type { ChunkStorage } from '../../../src/storage/contract.ts';
import { COMMANDS } from './commands.ts';
import { findFaults, Model } from './model.ts';
import { SCENES } from './scenes.ts';
import { type PlantedBug, type SimulatedProcess, type StorageKind, turns, World } from './world.ts';

const ROUNDS = 7;
const MAX_PROCESSES = 3;
const MAX_KILL_TURNS = 120;
const PAUSES_MS = [100, 5_000, 20_000, 45_000] as const;
/** Nothing takes so long: who is not done by then waits for ever. */
const MAX_WAITS = 5_000;
const TURNS_PER_WAIT = 20;
const WAIT_MS = 200;
const DRAWN = [...COMMANDS, ...SCENES].flatMap((row) => Array.from({ length: row[0] }, () => row));

/** What a schedule did and what was wrong after it. */
export type Played = { readonly faults: readonly string[]; readonly trace: readonly string[] };

/** Plays one schedule: random commands by several processes at once, kills, power cuts and pauses, with checks in between. */
export async function playSchedule(seed: number, bug: PlantedBug = {}): Promise<Played> {
  const kind: StorageKind = seed % 10 === 9 ? 'memory' : seed % 10 === 8 ? 'encrypted' : 'file';
  const world = new World(seed, bug.kind ?? kind, bug);
  const schedule = new Schedule(world);
  for (let round = 0; round < ROUNDS && world.faults.length === 0; round++) await schedule.playRound();
  if (world.faults.length === 0) await schedule.end();
  return { faults: world.faults, trace: schedule.trace };
}

class Schedule {
  readonly #world: World;
  readonly #model = new Model();
  readonly trace: string[] = [];

  constructor(world: World) {
    this.#world = world;
  }

  async playRound(): Promise<void> {
    const { random, clock } = this.#world;
    const commands = Array.from({ length: 1 + random.below(3) }, () => this.#begin());
    const isCut = this.#world.kind !== 'memory' && random.below(8) === 0;
    const end = isCut ? this.#cutPower() : random.below(4) === 0 ? this.#kill() : undefined;
    await this.#finish(Promise.all([...commands, end]));
    if (isCut || random.below(8) === 0) await this.#check();
    if (random.below(4) === 0) await clock.pass(random.pick(PAUSES_MS));
  }

  #begin(): Promise<void> {
    const { random } = this.#world;
    const [, name, command] = DRAWN[random.below(DRAWN.length)] ?? [];
    const process = this.#pickProcess();
    this.trace.push(`${name} (process ${this.#world.processes.indexOf(process)})`);
    return command?.(this.#world, this.#model, process) ?? Promise.resolve();
  }

  #pickProcess(): SimulatedProcess {
    const { random, processes } = this.#world;
    const found = processes[random.below(MAX_PROCESSES)];
    return found ?? this.#world.start();
  }

  async #kill(): Promise<void> {
    const process = this.#pickProcess();
    this.trace.push('kill');
    await turns(this.#world.random.below(MAX_KILL_TURNS));
    this.#world.kill(process);
  }

  async #cutPower(): Promise<void> {
    this.trace.push('power cut');
    await turns(this.#world.random.below(MAX_KILL_TURNS));
    this.#world.cutPower();
  }

  /** Lets time go on until the commands are over. */
  async #finish(commands: Promise<unknown>): Promise<void> {
    let isOver = false;
    const over = commands.then(() => {
      isOver = true;
    });
    for (let waits = 0; !isOver; waits++) {
      await turns(TURNS_PER_WAIT);
      if (isOver) break;
      await this.#world.clock.pass(WAIT_MS);
      if (waits < MAX_WAITS) continue;
      this.#world.faults.push('something waits for ever');
      return;
    }
    await over;
  }

  async #check(): Promise<void> {
    const { faults } = this.#world;
    const found = this.#world.inspect((process) => findFaults(this.#model, process));
    await this.#finish(
      found.then(
        (all) => faults.push(...all),
        (error: unknown) => faults.push(`the check failed: ${error}`),
      ),
    );
  }

  /** Ends all processes, and looks whether a collection leaves what is needed and nothing else. */
  async end(): Promise<void> {
    const { processes, faults } = this.#world;
    for (const process of processes) this.#world.kill(process);
    const last = this.#world.start();
    const collected = last.manager
      .gc()
      .then(() => this.#world.kill(last))
      .then(() => this.#world.inspect(({ manager }) => countUnneeded(manager.engine.storage)));
    await this.#finish(
      collected.then(
        (count) => count > 0 && faults.push(`gc left ${count} chunks that nothing needs`),
        (error: unknown) => faults.push(`the last gc failed: ${error}`),
      ),
    );
    await this.#check();
  }
}

const ALL = 1_000_000;

async function countUnneeded(storage: ChunkStorage): Promise<number> {
  const roots = await Promise.all(
    (await storage.listCheckpoints({ limit: ALL })).map(({ id }) => storage.readCheckpoint(id)),
  );
  const effects = await Promise.all(
    (await storage.listSessions({ limit: ALL })).map((sessionId) => storage.readEffects({ sessionId })),
  );
  const refs = [
    ...roots.map((row) => row?.root?.refs ?? []),
    ...effects.flat().map(({ result }) => result?.refs ?? []),
  ];
  const needed = await storage.readReachable([...new Set(refs.flat())]);
  return (await storage.listChunks({ limit: ALL })).length - needed.length;
}
