import { type ConflictError, SavestateError, StorageError } from '../../../core/errors.ts';
import type { CheckpointId } from '../../../core/record/id.ts';
import type { Commit, CommitResult, NewEffect, RefChange } from '../../contract.ts';
import { isConnectionLoss, isRefusal, isTaken, toSavestateError } from '../../database/postgres-error.ts';
import type { Doubt } from '../../database/retry.ts';
import { gone, moved, replaced, rewritten, taken } from '../../refusal.ts';
import type { PostgresConnection } from '../schema/postgres-connection.ts';
import { type AcceptedCommit, acceptCommit, countTogether, encodeBatch, encodePlainSave } from './encoded-commit.ts';
import { isIdUsed, wasStored } from './outcome.ts';

/** Batches under way at once. A server syncs once for all that commit at the same time, so a few are enough. */
const LANES = 4;
const DEFAULT_MAX_QUEUED_BYTES = 64 * 1024 * 1024;

/** Group commit: sessions are spread over a few lanes, so that each one's commits stay in order and all share transactions. */
export class CommitLanes {
  readonly #lanes: readonly CommitLane[];
  readonly #place: string;
  readonly #maxQueuedBytes: number;
  #queuedBytes = 0;

  constructor(connection: PostgresConnection, maxQueuedBytes = DEFAULT_MAX_QUEUED_BYTES) {
    this.#place = connection.place;
    this.#maxQueuedBytes = maxQueuedBytes;
    const onDone = ({ sizeBytes }: AcceptedCommit) => {
      this.#queuedBytes -= sizeBytes;
    };
    this.#lanes = Array.from({ length: LANES }, () => new CommitLane(connection, onDone));
  }

  async add(commit: Commit): Promise<CommitResult> {
    const encoded = acceptCommit(commit);
    this.#checkRoom(encoded);
    this.#queuedBytes += encoded.sizeBytes;
    return (this.#lanes[laneOf(commit.sessionId)] as CommitLane).add(encoded);
  }

  /** Memory is bounded: while the server does not keep up, or cannot be reached, what does not fit is refused at once. */
  #checkRoom({ sizeBytes }: AcceptedCommit): void {
    if (this.#queuedBytes === 0 || this.#queuedBytes + sizeBytes <= this.#maxQueuedBytes) return;
    throw new StorageError(
      `${this.#place} does not keep up: commits of ${this.#queuedBytes} characters wait for it already, and at most ${this.#maxQueuedBytes} may. Nothing of this one was stored; retry when the others are done.`,
      { details: { queuedBytes: this.#queuedBytes, maxQueuedBytes: this.#maxQueuedBytes } },
    );
  }

  async drain(): Promise<void> {
    await Promise.all(this.#lanes.map((lane) => lane.drain()));
  }
}

/** Any fixed rule will do that spreads names evenly. */
function laneOf(sessionId: string): number {
  let sum = 7;
  for (let at = 0; at < sessionId.length; at++) sum = (sum * 31 + sessionId.charCodeAt(at)) | 0;
  return Math.abs(sum) % LANES;
}

/** Commits of one transaction. More would only make the first ones wait for the last. */
const MAX_BATCH = 64;

/** What `commit_batch` returns for one commit. */
type Verdict =
  | { readonly status: 'stored' }
  | { readonly status: 'duplicate'; readonly id: CheckpointId }
  | { readonly status: 'missing' | 'rewritten'; readonly id: string }
  | { readonly status: 'taken' }
  | { readonly status: 'moved'; readonly ref: number; readonly found: string | null }
  | { readonly status: 'replaced'; readonly effect: number };

type Refused = Exclude<Verdict, { status: 'stored' }>;

type Waiting = AcceptedCommit & {
  readonly sinceMs: number;
  readonly resolve: (result: CommitResult) => void;
  readonly reject: (error: unknown) => void;
};

const COMMIT = {
  name: 'savestate commit',
  sql: 'SELECT {s}.commit_batch($1, $2, $3, $4, $5, $6, $7) AS verdict',
};

const SAVE = {
  name: 'savestate save',
  sql: `SELECT {s}.save_one(${Array.from({ length: 23 }, (_, at) => `$${at + 1}`).join(', ')}) AS stored`,
};

/** Sends commits in the order of their arrival, one batch at a time; what arrives meanwhile makes up the next batch. */
class CommitLane {
  readonly #connection: PostgresConnection;
  readonly #onDone: (commit: AcceptedCommit) => void;
  #waiting: Waiting[] = [];
  #running: Promise<void> | undefined;

  constructor(connection: PostgresConnection, onDone: (commit: AcceptedCommit) => void) {
    this.#connection = connection;
    this.#onDone = onDone;
  }

  /** Resolves when the commit is durable. */
  add(encoded: AcceptedCommit): Promise<CommitResult> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...encoded, sinceMs: performance.now(), resolve, reject });
      this.#running ??= this.#run();
    });
  }

  async drain(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    await Promise.resolve(); // what is committed in the same breath goes together
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, countTogether(this.#waiting.slice(0, MAX_BATCH)));
      await this.#flush(batch);
      for (const commit of batch) this.#onDone(commit);
    }
    this.#running = undefined;
  }

  async #flush(batch: readonly Waiting[], doubt: Doubt = { exists: false }): Promise<void> {
    try {
      const verdict = await this.#send(batch, doubt);
      if (verdict.status === 'stored') for (const { resolve } of batch) resolve({ status: 'stored' });
      else for (const one of batch) await this.#answer(one, verdict, doubt);
    } catch (error) {
      // A refusal undid the whole batch. Alone, each commit gets the answer that is its own.
      if (batch.length > 1 && isRefusal(error)) for (const one of batch) await this.#flush([one], { ...doubt });
      else this.#fail(batch, error);
    }
  }

  #fail(batch: readonly Waiting[], error: unknown): void {
    for (const { reject } of batch) reject(error);
    if (error instanceof SavestateError && isConnectionLoss(error.cause)) this.#dismissLate(error.cause);
  }

  /** Who has waited behind a failure for as long as calls are tried would only fail as well, later. */
  #dismissLate(cause: unknown): void {
    const { place, retryForMs } = this.#connection;
    const beforeMs = performance.now() - retryForMs;
    const late = this.#waiting.filter(({ sinceMs }) => sinceMs <= beforeMs);
    this.#waiting = this.#waiting.filter(({ sinceMs }) => sinceMs > beforeMs);
    for (const commit of late) {
      commit.reject(toSavestateError(cause, { place }));
      this.#onDone(commit);
    }
  }

  /** Nearly every commit is a plain save; what is refused is sent again in full, to learn why. */
  async #send(batch: readonly Waiting[], doubt: Doubt): Promise<Verdict> {
    const [first] = batch;
    const plain = batch.length === 1 && first !== undefined ? encodePlainSave(first.commit) : undefined;
    if (plain !== undefined && (await this.#sendPlain(plain, doubt))) return { status: 'stored' };
    const [row] = await this.#connection.call<{ verdict: Verdict }>(COMMIT, encodeBatch(batch), doubt);
    return (row as { verdict: Verdict }).verdict;
  }

  async #sendPlain(plain: readonly unknown[], doubt: Doubt): Promise<boolean> {
    try {
      const [row] = await this.#connection.call<{ stored: boolean }>(SAVE, plain, doubt);
      return row?.stored === true;
    } catch (error) {
      if (isTaken(error)) return false; // its id or key
      throw error;
    }
  }

  /** After a lost answer a refusal may mean that an earlier attempt was stored: then that is the answer. */
  async #answer({ commit, resolve, reject }: Waiting, verdict: Refused, doubt: Doubt): Promise<void> {
    if (doubt.exists && (await wasStored(this.#connection, { commit, verdict, doubt })))
      return resolve({ status: 'stored' });
    if (verdict.status === 'duplicate') return resolve(verdict);
    // The contract looks at the id first; here it is asked for only once a commit is refused, so that it costs the others nothing.
    const isTaken = await isIdUsed(this.#connection, commit, doubt);
    reject(refusalOf(commit, isTaken ? { status: 'taken' } : verdict));
  }
}

type Refusal = Exclude<Refused, { status: 'duplicate' }>;

function refusalOf({ checkpoint, refs, effects, sessionId }: Commit, verdict: Refusal): ConflictError {
  switch (verdict.status) {
    case 'missing':
      return gone(verdict.id);
    case 'rewritten':
      return rewritten(verdict.id);
    case 'taken':
      return taken(`${checkpoint?.header.id}`);
    case 'moved':
      return moved(sessionId, refs?.[verdict.ref] as RefChange, verdict.found ?? undefined);
    case 'replaced':
      return replaced(effects?.[verdict.effect] as NewEffect);
  }
}
