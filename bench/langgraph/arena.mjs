import { execFile } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startPostgres } from '../postgres-server.mjs';
import { fileBytes } from '../workbench.mjs';

const run = promisify(execFile);
const MAX_ANSWER_BYTES = 1_000_000;

/** A row whose measurement is given an arena. */
export function inArena(measure) {
  return async ({ folder, report, isQuick }) => {
    const arena = new Arena(folder);
    try {
      await arena.start();
      await measure({ arena, report, isQuick });
    } finally {
      await arena.stop();
    }
  };
}

/** Runs every measurement in a process and a place of its own, one after the other. */
class Arena {
  #folder;
  #server;
  #emptyBytes = 0;
  #runs = 0;

  constructor(folder) {
    this.#folder = folder;
  }

  /** Starts the server that the PostgreSQL contestants share, each with databases of its own. */
  async start() {
    this.#server = await startPostgres();
    await this.#server.createDatabase('empty');
    this.#emptyBytes = await this.#server.databaseBytes('empty');
  }

  async stop() {
    await this.#server?.stop();
  }

  /** Answers what the child script measured, with the bytes that were stored. */
  async measure(script, job) {
    this.#runs++;
    const places = await Promise.all(['measured', 'warm_up'].map((use) => this.#createPlace(job.name, use)));
    const [place, warmupPlace] = places;
    try {
      const child = [join(import.meta.dirname, script), JSON.stringify({ ...job, place, warmupPlace })];
      const { stdout } = await run(process.execPath, child, { maxBuffer: MAX_ANSWER_BYTES });
      const result = JSON.parse(stdout);
      return { ...result, storedBytes: result.heldBytes ?? (await this.#storedBytes(place)) };
    } finally {
      for (const used of places) await this.#remove(used);
    }
  }

  /**
   * The contestants take turns, and another one begins every round, so that whatever else the machine does hits all of them alike.
   * Answers per contestant the results of its rounds.
   */
  async takeTurns({ script, jobs, rounds }) {
    const results = Object.fromEntries(jobs.map(({ name }) => [name, []]));
    for (let round = 0; round < rounds; round++) {
      for (let turn = 0; turn < jobs.length; turn++) {
        const job = jobs[(round + turn) % jobs.length];
        results[job.name].push(await this.measure(script, job));
      }
    }
    return results;
  }

  /** A place that stays until the end. */
  createPlace(name) {
    this.#runs++;
    return this.#createPlace(name, 'kept');
  }

  async #createPlace(name, use) {
    const key = `run_${this.#runs}_${use}`;
    const folder = join(this.#folder, key);
    mkdirSync(folder);
    if (!name.includes('PostgreSQL')) return { name, folder };
    await this.#server.createDatabase(key);
    return { name, folder, database: key, url: this.#server.url.replace(/[^/]+$/, key) };
  }

  async #storedBytes({ folder, database }) {
    if (database === undefined) return fileBytes(join(folder, 'threads.db'));
    return (await this.#server.databaseBytes(database)) - this.#emptyBytes;
  }

  async #remove({ folder, database }) {
    if (database !== undefined) await this.#server.dropDatabase(database);
    rmSync(folder, { recursive: true, force: true });
  }
}
