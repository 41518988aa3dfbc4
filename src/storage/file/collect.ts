import { CorruptError } from '../../core/errors.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import type { CollectResult } from '../contract.ts';
import { Reachable } from '../reachable.ts';
import { mapBounded } from './bounded.ts';
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
    return await collectUnreachable(store, signal);
  } catch (error) {
    throw error instanceof CorruptError ? refusal(error) : error;
  }
}

function refusal(damage: CorruptError): CorruptError {
  return new CorruptError(
    `${damage.message} What it refers to is unknown, so no chunk can be called garbage. Run verify; restore the file, or delete the session that needs it.`,
    { details: damage.details, cause: damage },
  );
}

/**
 * The long part, marking and looking for candidates, runs beside commits. Each batch is removed in
 * an exclusive section that first marks what was committed meanwhile, so a chunk that a commit just relied on is kept.
 */
async function collectUnreachable(store: Store, signal: AbortSignal | undefined): Promise<CollectResult> {
  await store.files.clearLeftovers(`${store.root}/sessions`);
  await finishErasures(store);
  const marking = new Marking(store);
  await marking.update();
  const total = { chunks: 0, bytes: 0 };
  let candidates: Digest[] = [];
  const sweep = async (): Promise<void> => {
    for (; candidates.length > 0; candidates = candidates.slice(BATCH)) {
      signal?.throwIfAborted();
      const batch = candidates.slice(0, BATCH);
      const removed = await store.markers.exclusive(() => removeDead(store, marking, batch));
      total.chunks += removed.chunks;
      total.bytes += removed.bytes;
    }
  };
  for await (const digests of store.chunks.listAll()) {
    candidates.push(...digests.filter((digest) => !marking.isReachable(digest)));
    if (candidates.length >= BATCH) await sweep();
  }
  await sweep();
  return total;
}

async function readWholeLogs({ sessions }: Store): Promise<readonly SessionLog[]> {
  const { logs, damage } = await sessions.survey();
  if (damage !== undefined) throw damage;
  return logs;
}

async function finishErasures(store: Store): Promise<void> {
  const { sessions, markers } = store;
  const logs = (await readWholeLogs(store)).filter((log) => log.toErase.size > 0);
  for (const log of logs) await markers.shared(() => sessions.eraseDeleted(log));
}

async function removeDead(store: Store, marking: Marking, batch: readonly Digest[]): Promise<CollectResult> {
  const logs = await marking.update();
  // A process may have been killed between a deletion and its sync. If a power cut undid it, its chunks would be missed.
  await store.sessions.makeAllDurable(logs);
  return store.chunks.remove(batch.filter((digest) => !marking.isReachable(digest)));
}

/** The reachable chunks, brought up to date as logs grow. It only ever grows itself, which errs on the side of keeping. */
class Marking {
  readonly #store: Store;
  readonly #reachable = new Reachable<Digest>();
  /** By incarnation: the entry after the last one marked. */
  readonly #marked = new Map<string, number>();

  constructor(store: Store) {
    this.#store = store;
  }

  isReachable(digest: Digest): boolean {
    return this.#reachable.has(digest);
  }

  async update(): Promise<readonly SessionLog[]> {
    const logs = await readWholeLogs(this.#store);
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
    for (const { result } of log.effects.values()) this.#reachable.add(result?.refs ?? []);
  }
}
