import { CorruptError } from '../../core/errors.ts';
import { mapBounded } from '../../core/time/bounded.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import type { CollectResult } from '../contract.ts';
import { Reachable } from '../reachable.ts';
import type { SessionLog } from './session-log.ts';
import type { Store } from './store.ts';

// Commits of all processes wait while a batch is removed: this many files take a few milliseconds.
const BATCH = 500;
const PARALLEL_READS = 16;

/**
 * Removes unreachable chunks. What a damaged entry or chunk refers to is unknown, so while there is one, no chunk can be called
 * garbage: then this refuses with a CorruptError that names the file, and collects again once it is restored or its session deleted.
 */
export async function collectChunks(store: Store, signal: AbortSignal | undefined): Promise<CollectResult> {
  try {
    return await new Collector(store).run(signal);
  } catch (damage) {
    if (!(damage instanceof CorruptError)) throw damage;
    throw new CorruptError(
      `${damage.message} What it refers to is unknown, so no chunk can be called garbage. Run verify; restore the file, or delete the session that needs it.`,
      { details: damage.details, cause: damage },
    );
  }
}

/**
 * The long part, marking and looking for candidates, runs beside commits. Each batch is removed in an exclusive section that first marks
 * what was committed meanwhile, so a chunk that a commit just relied on is kept. What is reachable only ever grows, which errs on the
 * side of keeping.
 */
class Collector {
  readonly #store: Store;
  readonly #reachable = new Reachable<Digest>();
  /** By incarnation: the entry after the last one marked. */
  readonly #marked = new Map<string, number>();

  constructor(store: Store) {
    this.#store = store;
  }

  async run(signal: AbortSignal | undefined): Promise<CollectResult> {
    const { files, sessions, markers, chunks, root } = this.#store;
    await files.clearLeftovers(`${root}/sessions`);
    for (const { sessionId, toErase } of await this.#readLogs())
      if (toErase.size > 0) await markers.shared(() => sessions.eraseDeleted(sessionId));
    await this.#mark();
    const total = { chunks: 0, bytes: 0 };
    let candidates: Digest[] = [];
    const sweep = async (atLeast: number): Promise<void> => {
      for (; candidates.length >= atLeast; candidates = candidates.slice(BATCH)) {
        signal?.throwIfAborted();
        const batch = candidates.slice(0, BATCH);
        const removed = await markers.exclusive(() => this.#remove(batch));
        total.chunks += removed.chunks;
        total.bytes += removed.bytes;
      }
    };
    for await (const digests of chunks.listAll()) {
      candidates.push(...digests.filter((digest) => !this.#reachable.has(digest)));
      await sweep(BATCH);
    }
    await sweep(1);
    return total;
  }

  async #readLogs(): Promise<readonly SessionLog[]> {
    const { logs, damage } = await this.#store.sessions.survey();
    if (damage !== undefined) throw damage;
    return logs;
  }

  async #remove(batch: readonly Digest[]): Promise<CollectResult> {
    const logs = await this.#mark();
    // A process may have been killed between a deletion and its sync. If a power cut undid it, its chunks would be missed.
    await this.#store.sessions.makeAllDurable(logs);
    return this.#store.chunks.remove(batch.filter((digest) => !this.#reachable.has(digest)));
  }

  /** Marks what was committed since it was last done. */
  async #mark(): Promise<readonly SessionLog[]> {
    const logs = await this.#readLogs();
    for (const log of logs) await this.#markLog(log);
    for (let batch = this.#reachable.take(); batch.length > 0; batch = this.#reachable.take()) {
      for (const refs of await this.#store.chunks.readRefs(batch)) this.#reachable.add(refs);
    }
    return logs;
  }

  async #markLog(log: SessionLog): Promise<void> {
    const from = this.#marked.get(log.incarnation) ?? 1;
    if (from >= log.next) return;
    this.#marked.set(log.incarnation, log.next);
    const rows = [...log.rows.values()].filter((row) => !row.isDeleted && row.number >= from);
    const entries = await mapBounded(rows, PARALLEL_READS, (row) => this.#store.sessions.readEntry(log, row.number));
    for (const entry of entries) this.#reachable.add(entry?.checkpoint?.root.refs ?? []);
    for (const { result } of log.effects) this.#reachable.add(result?.refs ?? []);
  }
}
