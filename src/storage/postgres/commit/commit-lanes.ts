import { StorageError } from '../../../core/errors.ts';
import type { Commit, CommitResult } from '../../contract.ts';
import type { PostgresConnection } from '../schema/postgres-connection.ts';
import { CommitLane } from './commit-lane.ts';
import { type AcceptedCommit, acceptCommit } from './encoded-commit.ts';

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
