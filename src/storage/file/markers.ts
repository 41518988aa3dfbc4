import { setTimeout as sleep } from 'node:timers/promises';
import { StorageError } from '../../core/errors.ts';
import { ownedName, parseOwnedName } from './durable-files.ts';
import { isWriteRefused } from './file-error.ts';
import type { FileSystem } from './file-system.ts';

const FIRST_PAUSE_MS = 1;
const MAX_PAUSE_MS = 50;

type MarkerKind = 'writer' | 'exclusive';
type Marker = { readonly name: string; readonly kind: string; readonly processId: string };

/**
 * Keeps commits (shared) apart from deletions and collections (exclusive), across the processes of one host.
 * Each side first shows its own marker, an empty file, and then looks for the other's; so of two that come at once at least
 * one sees the other. Nothing is taken over: a marker counts until its owner removes it or is dead.
 */
export class Markers {
  readonly #fileSystem: FileSystem;
  readonly #folder: string;
  readonly #timeoutMs: number;
  /** Sorts out who goes first inside this process, where nobody has to poll. */
  readonly #lock = new LocalLock();

  constructor(options: { readonly fileSystem: FileSystem; readonly folder: string; readonly timeoutMs: number }) {
    this.#fileSystem = options.fileSystem;
    this.#folder = options.folder;
    this.#timeoutMs = options.timeoutMs;
  }

  /** Runs beside other shared work, and never beside exclusive work. */
  shared<T>(work: () => Promise<T>): Promise<T> {
    return this.#hold('writer', work);
  }

  /** The same for work that writes nothing: a disk that takes no marker does not keep it from looking. */
  async looking<T>(work: () => Promise<T>): Promise<T> {
    let isEntered = false;
    try {
      return await this.shared(() => {
        isEntered = true;
        return work();
      });
    } catch (error) {
      if (isEntered || !isWriteRefused(error)) throw error;
      return work();
    }
  }

  /** Runs alone. */
  exclusive<T>(work: () => Promise<T>): Promise<T> {
    return this.#hold('exclusive', work);
  }

  #hold<T>(kind: MarkerKind, work: () => Promise<T>): Promise<T> {
    return this.#lock.run(kind === 'exclusive', async () => {
      const mine = await this.#enter(kind);
      try {
        return await work();
      } finally {
        await this.#remove(mine);
      }
    });
  }

  async #enter(kind: MarkerKind): Promise<string> {
    const deadlineMs = performance.now() + this.#timeoutMs;
    let mine: string | undefined;
    try {
      for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
        mine ??= await this.#create(kind);
        const others = await this.#readOthers(mine);
        const exclusive = others.filter((other) => other.kind === 'exclusive');
        const [holder] = kind === 'exclusive' ? others : exclusive;
        if (holder === undefined) return mine;
        if (performance.now() > deadlineMs) throw this.#timedOut(holder);
        if (stepsBack(kind, mine, exclusive)) mine = await this.#remove(mine);
        await sleep(pauseMs);
      }
    } catch (error) {
      if (mine !== undefined) await this.#remove(mine);
      throw error;
    }
  }

  #timedOut({ kind, processId }: Marker): StorageError {
    const [pid] = processId.split('-');
    const doing = kind === 'exclusive' ? 'deleting or collecting' : 'saving';
    return new StorageError(
      `Process ${pid} was still ${doing} after ${this.#timeoutMs} ms, so nothing was changed. Retry later, or stop it.`,
      { details: { pid: Number(pid), timeoutMs: this.#timeoutMs } },
    );
  }

  async #create(kind: MarkerKind): Promise<string> {
    const name = ownedName(kind, this.#fileSystem.processId);
    const file = await this.#fileSystem.createFile(`${this.#folder}/${name}`);
    await file.close();
    return name;
  }

  async #remove(name: string): Promise<undefined> {
    await this.#fileSystem.unlink(`${this.#folder}/${name}`);
    return undefined;
  }

  /** The markers of living processes but this one; those of dead processes are cleared away. */
  async #readOthers(mine: string): Promise<Marker[]> {
    const markers: Marker[] = [];
    for (const { name } of (await this.#fileSystem.readFolder(this.#folder)) ?? []) {
      const owner = parseOwnedName(name);
      if (owner === undefined || name === mine) continue;
      if (await this.#isAlive(owner.processId)) markers.push({ name, ...owner });
      else await this.#fileSystem.removeTree(`${this.#folder}/${name}`);
    }
    return markers;
  }

  async #isAlive(processId: string): Promise<boolean> {
    return processId === this.#fileSystem.processId || (await this.#fileSystem.isProcessAlive(processId));
  }
}

/**
 * Whether to take the own marker away until those in the way are gone. A commit steps back for a collector, which then gets its turn
 * however many commits keep coming. Of several exclusive ones that wait, the one with the smallest name stays: no two wait for each other.
 */
function stepsBack(kind: MarkerKind, mine: string, exclusive: readonly Marker[]): boolean {
  return kind === 'writer' || exclusive.some(({ name }) => name < mine);
}

type Waiter = { readonly isExclusive: boolean; readonly enter: () => void };

/** Shared and exclusive sections inside one process, in the order they were asked for. */
class LocalLock {
  readonly #waiting: Waiter[] = [];
  #sharing = 0;
  #isExclusive = false;

  async run<T>(isExclusive: boolean, work: () => Promise<T>): Promise<T> {
    await new Promise<void>((enter) => {
      this.#waiting.push({ isExclusive, enter });
      this.#admit();
    });
    try {
      return await work();
    } finally {
      if (isExclusive) this.#isExclusive = false;
      else this.#sharing--;
      this.#admit();
    }
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined && this.#canEnter(next); next = this.#waiting[0]) {
      this.#waiting.shift();
      if (next.isExclusive) this.#isExclusive = true;
      else this.#sharing++;
      next.enter();
    }
  }

  #canEnter({ isExclusive }: Waiter): boolean {
    return !this.#isExclusive && (!isExclusive || this.#sharing === 0);
  }
}
