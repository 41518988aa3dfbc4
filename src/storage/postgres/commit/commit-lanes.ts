import { SavestateError, StorageError } from '../../../core/errors.ts';
import type { Commit, CommitResult } from '../../contract.ts';
import { isConnectionLoss, isRefusal, isTaken, toSavestateError } from '../../database/postgres-error.ts';
import type { Doubt } from '../../database/retry.ts';
import { checkCommit } from '../../sql-text.ts';
import type { PostgresConnection } from '../schema/postgres-connection.ts';
import { countTogether, encodeBatch, encodePlain, type PlainCommit, sizeOf } from './encoded-commit.ts';
import { isIdUsed, type Refused, refusalOf, type Verdict, wasStored } from './outcome.ts';

/** Batches under way at once. A server syncs once for all that commit at the same time, so a few are enough. */
const LANES = 4;
/** Commits of one transaction. More would only make the first ones wait for the last. */
const MAX_BATCH = 64;
const DEFAULT_MAX_QUEUED_BYTES = 64 * 1024 * 1024;

type Waiting = {
  readonly commit: Commit;
  readonly sizeBytes: number;
  readonly sinceMs: number;
  readonly resolve: (result: CommitResult) => void;
  readonly reject: (error: unknown) => void;
};

/** Commits in the order of their arrival. They go one batch at a time; what arrives meanwhile makes up the next batch. */
type Lane = { waiting: Waiting[]; running?: Promise<void> | undefined };

const COMMIT = {
  name: 'savestate commit',
  sql: 'SELECT {s}.commit_batch($1, $2, $3, $4, $5, $6, $7) AS verdict',
};

/** Functions for one plain commit; each takes tenant and role first. */
const PLAIN = { save: describeCall('save', 'save_one', 23), record: describeCall('record', 'record_one', 19) };

function describeCall(name: string, of: string, count: number) {
  const places = Array.from({ length: count }, (_, at) => `$${at + 1}`);
  return { name: `savestate ${name}`, sql: `SELECT {s}.${of}(${places.join(', ')}) AS stored` };
}

/** Group commit: sessions are spread over a few lanes, so that each one's commits stay in order and all share transactions. */
export class CommitLanes {
  readonly #connection: PostgresConnection;
  readonly #maxQueuedBytes: number;
  readonly #lanes: readonly Lane[] = Array.from({ length: LANES }, () => ({ waiting: [] }));
  #queuedBytes = 0;

  constructor(connection: PostgresConnection, maxQueuedBytes = DEFAULT_MAX_QUEUED_BYTES) {
    this.#connection = connection;
    this.#maxQueuedBytes = maxQueuedBytes;
  }

  /** Resolves when the commit is durable. */
  async add(commit: Commit): Promise<CommitResult> {
    checkCommit(commit);
    const sizeBytes = sizeOf(commit);
    this.#checkRoom(sizeBytes);
    this.#queuedBytes += sizeBytes;
    const lane = this.#lanes[laneOf(commit.sessionId)] as Lane;
    const done = new Promise<CommitResult>((resolve, reject) => {
      lane.waiting.push({ commit, sizeBytes, sinceMs: performance.now(), resolve, reject });
      lane.running ??= this.#run(lane);
    });
    return done.finally(() => {
      this.#queuedBytes -= sizeBytes;
    });
  }

  /** Memory is bounded: while the server does not keep up, or cannot be reached, what does not fit is refused at once. */
  #checkRoom(sizeBytes: number): void {
    if (this.#queuedBytes === 0 || this.#queuedBytes + sizeBytes <= this.#maxQueuedBytes) return;
    throw new StorageError(
      `${this.#connection.place} does not keep up: commits of ${this.#queuedBytes} characters wait for it already, and at most ${this.#maxQueuedBytes} may. Nothing of this one was stored; retry when the others are done.`,
      { details: { queuedBytes: this.#queuedBytes, maxQueuedBytes: this.#maxQueuedBytes } },
    );
  }

  async drain(): Promise<void> {
    await Promise.all(this.#lanes.map(({ running }) => running));
  }

  async #run(lane: Lane): Promise<void> {
    await Promise.resolve(); // what is committed in the same breath goes together
    while (lane.waiting.length > 0) {
      const together = countTogether(lane.waiting.slice(0, MAX_BATCH).map(({ commit }) => commit));
      await this.#flush(lane, lane.waiting.splice(0, together));
    }
    lane.running = undefined;
  }

  /** Tells each of a batch how it ended. */
  async #flush(lane: Lane, batch: readonly Waiting[], doubt: Doubt = { exists: false }): Promise<void> {
    try {
      const verdict = await this.#send(batch, doubt);
      if (verdict.status === 'stored') for (const { resolve } of batch) resolve(verdict);
      else for (const one of batch) await this.#answer(one, verdict, doubt);
    } catch (error) {
      // A refusal undid the whole batch. Alone, each commit gets the answer that is its own.
      if (batch.length > 1 && isRefusal(error)) {
        for (const one of batch) await this.#flush(lane, [one], { ...doubt });
        return;
      }
      for (const { reject } of batch) reject(error);
      this.#dismissLate(lane, error);
    }
  }

  /** Who has waited behind a failure for as long as calls are tried would only fail as well, later. */
  #dismissLate(lane: Lane, error: unknown): void {
    const cause = error instanceof SavestateError ? error.cause : undefined;
    if (!isConnectionLoss(cause)) return;
    const { place, retryForMs } = this.#connection;
    const beforeMs = performance.now() - retryForMs;
    for (const { sinceMs, reject } of lane.waiting) if (sinceMs <= beforeMs) reject(toSavestateError(cause, { place }));
    lane.waiting = lane.waiting.filter(({ sinceMs }) => sinceMs > beforeMs);
  }

  /** Nearly every commit is a plain save or step; what is refused is sent again in full, to learn why. */
  async #send(batch: readonly Waiting[], doubt: Doubt): Promise<Verdict> {
    const [first] = batch;
    const plain = batch.length === 1 && first !== undefined ? encodePlain(first.commit) : undefined;
    if (plain !== undefined && (await this.#sendPlain(plain, doubt))) return { status: 'stored' };
    const encoded = encodeBatch(batch.map(({ commit }) => commit));
    const [row] = await this.#connection.call<{ verdict: Verdict }>(COMMIT, encoded, doubt);
    return (row as { verdict: Verdict }).verdict;
  }

  async #sendPlain({ kind, values }: PlainCommit, doubt: Doubt): Promise<boolean> {
    try {
      const [row] = await this.#connection.call<{ stored: boolean }>(PLAIN[kind], values, doubt);
      return row?.stored === true;
    } catch (error) {
      if (isTaken(error)) return false; // its id, key or place
      throw error;
    }
  }

  /** After a lost answer a refusal may mean that an earlier attempt was stored: then that is the answer. */
  async #answer({ commit, resolve, reject }: Waiting, verdict: Refused, doubt: Doubt): Promise<void> {
    if (doubt.exists && (await wasStored(this.#connection, { commit, verdict, doubt })))
      return resolve({ status: 'stored' });
    if (verdict.status === 'duplicate') return resolve(verdict);
    // The contract looks at the id first; here it is asked for only once a commit is refused, so that it costs the others nothing.
    const isUsed = await isIdUsed(this.#connection, commit, doubt);
    reject(refusalOf(commit, isUsed ? { status: 'taken' } : verdict));
  }
}

/** Any fixed rule will do that spreads names evenly. */
function laneOf(sessionId: string): number {
  let sum = 7;
  for (let at = 0; at < sessionId.length; at++) sum = (sum * 31 + sessionId.charCodeAt(at)) | 0;
  return Math.abs(sum) % LANES;
}
